package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"maestrohub.io/uns/broker/api"
)

// rest is the REST API of a site, through whichever replica answers.
type rest struct {
	bases          []string
	client, secret string
	http           *http.Client

	mu   sync.Mutex
	next int // of bases: the one that answered last
}

// problem is a refusal by the broker, which asking again does not change.
type problem struct {
	Status int
	Code   string
	Detail string
}

func (p *problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return fmt.Sprintf("answered %d", p.Status)
}

// once asks one replica.
func (r *rest) once(ctx context.Context, base, method, path string, body, into any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, base+path, content)
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.SetBasicAuth(r.client, r.secret)
	response, err := r.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		p := &problem{Status: response.StatusCode}
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16)) // the status says enough
		if json.Unmarshal(text, p) != nil && !strings.Contains(response.Header.Get("Content-Type"), "html") {
			p.Detail, _, _ = strings.Cut(strings.TrimSpace(string(text)), "\n")
		}
		return p
	}
	if into == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(into)
}

// do asks one replica after the other until one answers, for at most a minute.
func (r *rest) do(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		r.mu.Lock()
		base := r.bases[r.next%len(r.bases)]
		r.mu.Unlock()
		err := r.once(ctx, base, method, path, body, into)
		var refused *problem
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused) && refused.Status != http.StatusServiceUnavailable && refused.Status != http.StatusTooManyRequests:
			return fmt.Errorf("%s %s%s: %w", method, base, path, err)
		}
		last = fmt.Errorf("%s %s%s: %w", method, base, path, err)
		r.mu.Lock()
		r.next++
		r.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last
		}
	}
}

// as is the same API signed in as another client.
func (r *rest) as(client, secret string) *rest {
	return &rest{bases: r.bases, client: client, secret: secret, http: r.http}
}

// addClient makes an API client in the caller's workspace, and returns its secret.
func (r *rest) addClient(ctx context.Context, id string) (secret, workspace string, err error) {
	var made struct {
		Client struct{ Workspace string }
		Secret string
	}
	// It reads its own values back, so its grants are all that matters.
	body := map[string]any{"id": id, "scopes": []string{api.ScopeRead}}
	err = r.do(ctx, http.MethodPost, "/api/v1/api-clients", body, &made)
	return made.Secret, made.Client.Workspace, err
}

func (r *rest) deleteClient(ctx context.Context, id string) error {
	err := r.do(ctx, http.MethodDelete, "/api/v1/api-clients/"+url.PathEscape(id), nil, nil)
	var refused *problem
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// overview is what a replica says of the cluster.
func (r *rest) overview(ctx context.Context) (*api.Overview, error) {
	var o api.Overview
	err := r.do(ctx, http.MethodGet, "/api/v1/system/uns/broker", nil, &o)
	if refused := (*problem)(nil); errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		err = fmt.Errorf("%w: no broker of this release answers there; take the drill of its release, or another address", err)
	}
	return &o, err
}

// stored counts how often history has each value of a topic.
func (r *rest) stored(ctx context.Context, workspace, topic string, since time.Time) (map[string]int, error) {
	counts := map[string]int{}
	query := url.Values{"topic": {topic}, "limit": {"1000"}, "from": {since.UTC().Format(time.RFC3339)}}
	for {
		var page struct {
			Values []struct {
				Value json.RawMessage `json:"value"`
			} `json:"values"`
			Next string `json:"next"`
		}
		if err := r.do(ctx, http.MethodGet, "/api/v1/uns/"+url.PathEscape(workspace)+"/history?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		for _, v := range page.Values {
			counts[string(v.Value)]++
		}
		if page.Next == "" {
			return counts, nil
		}
		query.Set("after", page.Next)
	}
}
