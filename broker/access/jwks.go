package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"
)

const (
	// keysFresh is how long fetched keys are used before they are fetched
	// again, so that a key the issuer withdrew is not trusted for long.
	keysFresh = 15 * time.Minute
	// keysUsable is how long they are used if they cannot be fetched again.
	keysUsable = time.Hour
	// fetchEvery and fetchBurst bound how often a token with a key or signature
	// that does not fit makes us fetch: any stranger can send one.
	fetchEvery = 10 * time.Second
	fetchBurst = 4
	// maxKeySet bounds an answer of an issuer.
	maxKeySet = 1 << 20
)

// fetchFailure is the context key of a *error that takes why the keys could not
// be had, which go-oidc's error does not tell from a bad signature.
type fetchFailure struct{}

// remoteKeys is an oidc.KeySet that ages, on top of oidc.RemoteKeySet, which
// fetches keys when it meets one it does not know and keeps them for good.
type remoteKeys struct {
	issuer Issuer
	client *http.Client

	mu      sync.Mutex
	url     string // of the key set, once known
	set     *oidc.RemoteKeySet
	fetched time.Time // when set's first keys came
	next    *oidc.RemoteKeySet
}

func newRemoteKeys(i Issuer) *remoteKeys {
	client := i.Client
	if client == nil {
		client = defaultClient()
	}
	transport := client.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	limited := *client
	limited.Transport = &keyFetcher{next: transport, limit: rate.NewLimiter(rate.Every(fetchEvery), fetchBurst), kept: map[string]kept{}}
	return &remoteKeys{issuer: i, client: &limited, url: i.JWKSURL}
}

// VerifySignature implements oidc.KeySet.
func (k *remoteKeys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	failed, _ := ctx.Value(fetchFailure{}).(*error)
	url, err := k.locate(ctx)
	if err != nil {
		if failed != nil {
			*failed = err
		}
		return nil, err
	}
	set, old := k.current(url)
	payload, err := set.VerifySignature(ctx, token)
	if err == nil {
		k.came(set)
		return payload, nil
	}
	var fetch *fetchError
	unfetched := errors.As(err, &fetch) || ctx.Err() != nil
	if !unfetched {
		k.came(set)
		return nil, err
	}
	if old != nil {
		// Keys that are not fresh but usable; one they do not know makes
		// them fetch too, in vain.
		if payload, oldErr := old.VerifySignature(ctx, token); oldErr == nil {
			return payload, nil
		}
	}
	if failed != nil {
		*failed = err
	}
	return nil, err
}

// current returns the key set to use, and the one to fall back on while its keys
// have not come yet.
func (k *remoteKeys) current(url string) (set, old *oidc.RemoteKeySet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fresh := func() *oidc.RemoteKeySet {
		return oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), k.client), url)
	}
	age := time.Since(k.fetched)
	switch {
	case k.set != nil && age < keysFresh:
		return k.set, nil
	case k.next == nil:
		k.next = fresh()
	}
	if k.set != nil && age < keysUsable {
		return k.next, k.set
	}
	return k.next, nil
}

// came notes that a set has its keys.
func (k *remoteKeys) came(set *oidc.RemoteKeySet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if set == k.next {
		k.set, k.next, k.fetched = set, nil, time.Now()
	}
}

// locate returns the key set's URL, asking the issuer once if it is not
// configured.
func (k *remoteKeys) locate(ctx context.Context) (string, error) {
	k.mu.Lock()
	url := k.url
	k.mu.Unlock()
	if url != "" {
		return url, nil
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, k.client), k.issuer.Issuer)
	if err != nil {
		return "", fmt.Errorf("discover its keys: %w", err)
	}
	var found struct {
		URL string `json:"jwks_uri"`
	}
	if err := provider.Claims(&found); err != nil {
		return "", fmt.Errorf("discover its keys: %w", err)
	}
	if err := checkKeyURL(found.URL); err != nil {
		return "", fmt.Errorf("discover its keys: jwks_uri %q: %w", found.URL, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.url = found.URL
	return k.url, nil
}

// fetchError is every way in which fetching fails.
type fetchError struct{ error }

func (e *fetchError) Unwrap() error { return e.error }

// keyFetcher makes the HTTP requests of one issuer's keys: bounded in rate,
// answered from the last answer beyond it, with typed errors.
type keyFetcher struct {
	next  http.RoundTripper
	limit *rate.Limiter

	mu   sync.Mutex
	kept map[string]kept // by URL: the configuration and the key set
}

// kept is the last good answer from a URL.
type kept struct {
	header http.Header
	body   []byte
}

// RoundTrip implements http.RoundTripper.
func (f *keyFetcher) RoundTrip(r *http.Request) (*http.Response, error) {
	url := r.URL.String()
	if !f.limit.Allow() {
		f.mu.Lock()
		last, ok := f.kept[url]
		f.mu.Unlock()
		if !ok {
			return nil, &fetchError{errors.New("asked too often without success")}
		}
		return last.response(r), nil
	}
	response, err := f.next.RoundTrip(r)
	if err != nil {
		return nil, &fetchError{err}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxKeySet+1))
	switch {
	case err != nil:
		return nil, &fetchError{err}
	case response.StatusCode != http.StatusOK:
		return nil, &fetchError{fmt.Errorf("%s answers %s", url, response.Status)}
	case len(body) > maxKeySet:
		return nil, &fetchError{fmt.Errorf("%s answers more than %d bytes", url, maxKeySet)}
	case !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")):
		return nil, &fetchError{fmt.Errorf("%s answers no JSON object", url)}
	}
	last := kept{response.Header, body}
	f.mu.Lock()
	f.kept[url] = last
	f.mu.Unlock()
	return last.response(r), nil
}

func (k kept) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: k.header, Body: io.NopCloser(bytes.NewReader(k.body)), ContentLength: int64(len(k.body)), Request: r,
	}
}
