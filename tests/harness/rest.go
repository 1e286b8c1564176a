package harness

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// Row is a stored value as the REST API gives it.
type Row struct {
	Topic     string          `json:"topic"`
	Timestamp time.Time       `json:"timestamp"`
	Timed     bool            `json:"timed"`
	Received  time.Time       `json:"received"`
	Publisher string          `json:"publisher"`
	Quality   int             `json:"quality"`
	Value     json.RawMessage `json:"value"`
	Opaque    []byte          `json:"opaque"`
}

// Do sends a request with a client's credential ("" = none) and returns the status
// and body. A body to send is encoded as JSON; nil sends none.
func (b *Broker) Do(t testing.TB, client, method, path string, body any) (int, []byte) {
	t.Helper()
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+b.HTTP+path, content)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if client != "" {
		request.SetBasicAuth(client, b.secrets[client])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, answer
}

// Fetch gets a path that must answer 200 and decodes the answer.
func (b *Broker) Fetch(t testing.TB, client, path string, into any) {
	t.Helper()
	status, body := b.Do(t, client, http.MethodGet, path, nil)
	if status != http.StatusOK {
		t.Fatalf("GET %s answered %d: %s", path, status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("GET %s: %v in %s", path, err, body)
	}
}

// History returns every stored value of a topic (or a filter of topics) that the
// client may read, oldest first.
func (b *Broker) History(t testing.TB, client, topic string) []Row {
	t.Helper()
	var rows []Row
	query := url.Values{"topic": {topic}, "limit": {"1000"}}
	for {
		var page struct {
			Values []Row  `json:"values"`
			Next   string `json:"next"`
		}
		b.Fetch(t, client, "/api/v1/uns/"+Workspace+"/history?"+query.Encode(), &page)
		rows = append(rows, page.Values...)
		if page.Next == "" {
			return rows
		}
		query.Set("after", page.Next)
	}
}

// Metric returns the value of a metric with exactly these labels as written in
// the exposition ("name" or `name{reason="schema"}`); 0 if it is not there.
func (b *Broker) Metric(t testing.TB, series string) float64 {
	t.Helper()
	status, body := b.Do(t, "", http.MethodGet, "/metrics", nil)
	if status != http.StatusOK {
		t.Fatalf("GET /metrics answered %d", status)
	}
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			if err := json.Unmarshal([]byte(strings.TrimSpace(rest)), &v); err != nil {
				t.Fatalf("metric %s: %v", series, err)
			}
			return v
		}
	}
	return 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
