package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// slowBody is a body that comes only when released; reached says that it is waited for.
type slowBody struct {
	once              sync.Once
	reached, released chan struct{}
	rest              io.Reader
}

func newSlowBody(text string) *slowBody {
	return &slowBody{reached: make(chan struct{}), released: make(chan struct{}), rest: strings.NewReader(text)}
}

func (s *slowBody) Read(p []byte) (int, error) {
	s.once.Do(func() { close(s.reached) })
	<-s.released
	return s.rest.Read(p)
}

// crowd sends requests whose bodies do not come to one handler.
type crowd struct {
	t       *testing.T
	handler http.Handler
	waiting []*slowBody
	done    sync.WaitGroup
}

func newCrowd(t *testing.T, r *rig) *crowd {
	c := &crowd{t: t, handler: New(r.options).Handler()}
	t.Cleanup(c.leave)
	return c
}

func (c *crowd) leave() {
	for _, s := range c.waiting {
		close(s.released)
	}
	c.waiting = nil
	c.done.Wait()
}

// write sends a slow write and reports the answer, if it got one at once.
func (c *crowd) write(as credential, workspace string) *httptest.ResponseRecorder {
	return c.send(as, "/api/v1/uns/"+workspace+"/values", "application/json", `{"values": [{"topic": "a", "value": 1}]}`)
}

func (c *crowd) send(as credential, path, contentType, body string) *httptest.ResponseRecorder {
	slow := newSlowBody(body)
	request := httptest.NewRequest("POST", path, slow)
	request.Header.Set("Content-Type", contentType)
	as.sign(request)
	answer, answered := httptest.NewRecorder(), make(chan struct{})
	c.done.Go(func() {
		c.handler.ServeHTTP(answer, request)
		close(answered)
	})
	select {
	case <-slow.reached:
		c.waiting = append(c.waiting, slow)
		return nil
	case <-answered:
		return answer
	}
}

func (c *crowd) get(as credential, path string) *httptest.ResponseRecorder {
	request, answer := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
	as.sign(request)
	c.handler.ServeHTTP(answer, request)
	return answer
}

func TestOneClientOrWorkspaceCannotShutTheOthersOut(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxRequests = 32 })
	slow, slower, other := r.client("slow", "other", ScopeWrite), r.client("slower", "other", ScopeWrite), r.client("press", "plant", ScopeRead)
	c := newCrowd(t, r)
	// 8 places: 4 for one client, 6 for one workspace.
	full := func(as basic, places int, named string) {
		t.Helper()
		for n := range places {
			if a := c.write(as, "other"); a != nil {
				t.Fatalf("write %d of %s: %d %s", n, as.id, a.Code, a.Body)
			}
		}
		if a := c.write(as, "other"); a == nil || a.Code != 503 || !strings.Contains(a.Body.String(), codeBusy) || !strings.Contains(a.Body.String(), named) || a.Header().Get("Retry-After") == "" {
			t.Fatalf("a write of %s too many: %v, want 503 naming %s", as.id, a, named)
		}
	}
	full(slow, 4, `client`)
	full(slower, 2, `workspace`)
	if a := c.get(other, "/api/v1/uns/plant/history"); a.Code != 200 {
		t.Errorf("another workspace's history meanwhile: %d %s", a.Code, a.Body)
	}
	c.leave()
	if a := c.get(other, "/api/v1/uns/plant/history"); a.Code != 200 {
		t.Errorf("afterwards: %d %s", a.Code, a.Body)
	}
	full(slow, 4, `client`) // every place was given back
}

func TestRequestsForTokensThatDoNotComeHoldNobodyUp(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxRequests = 1 })
	press := r.client("press", "plant", ScopeRead)
	c := newCrowd(t, r)
	for range 3 {
		if a := c.send(anonymous{}, "/api/v1/oauth2/token", "application/x-www-form-urlencoded", "grant_type=client_credentials"); a != nil {
			t.Fatalf("answered before its body: %d %s", a.Code, a.Body)
		}
	}
	if a := c.get(press, "/api/v1/uns/plant/history"); a.Code != 200 {
		t.Errorf("meanwhile: %d %s", a.Code, a.Body)
	}
}
