package replica_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/replica"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/site"
)

// logOf is a log that a test reads while it is written.
type logOf struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logOf) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logOf) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var frontOpen = regexp.MustCompile(`listening .*listener=http address=(\S+)`)

// opening is a replica whose New goes on.
type opening struct {
	log   logOf
	front string // address of its HTTP listener
	done  chan struct{}
	made  *replica.Replica // once done
	err   error
}

// open begins to make a replica of the site and waits until its HTTP listener is open.
func open(t *testing.T, ctx context.Context, s *site.Site, change ...func(*config.Config)) *opening {
	t.Helper()
	c := config.Default()
	s.Configure(c, "a")
	for _, f := range change {
		f(c)
	}
	c.DataDir, c.Broker.TCPListen, c.HTTP.Listen = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	o := &opening{done: make(chan struct{})}
	go func() {
		defer close(o.done)
		o.made, o.err = replica.New(ctx, c, replica.NewLogger(&o.log, c.Log), "test")
	}()
	harness.Eventually(t, "the HTTP listener to be open", func() (bool, string) {
		m := frontOpen.FindStringSubmatch(o.log.String())
		if m != nil {
			o.front = "http://" + m[1]
		}
		return m != nil, o.log.String()
	})
	return o
}

func (o *opening) get(t *testing.T, path string) (int, string) {
	t.Helper()
	answer, err := http.Get(o.front + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// A replica that is started while NATS is away is no process that ends and is started
// again, later and later each time: it says that it lives and what it waits for, and
// serves by itself once NATS is there.
func TestAStartWaitsForNATSAndSaysSo(t *testing.T) {
	s := site.Start(t)
	for _, server := range s.Servers {
		server.Kill()
	}
	o := open(t, t.Context(), s)
	harness.Eventually(t, "the reason to name what is waited for", func() (bool, string) {
		status, body := o.get(t, "/health/ready")
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"broker-cluster-store: starting: reading the API clients`) &&
			strings.Contains(body, "not connected to NATS: dial tcp (see the log): connect: connection refused"), body
	})
	for path, want := range map[string]struct {
		status int
		says   string
	}{
		"/health/live":                  {http.StatusOK, `"live"`},
		"/metrics":                      {http.StatusOK, "\nmaestrohub_uns_broker_ready 0"},
		"/":                             {http.StatusServiceUnavailable, "broker-cluster-store: starting: "},
		"/api/v1/uns/plant/history":     {http.StatusServiceUnavailable, "broker-cluster-store: starting: "},
		"/api/v1/system/uns/broker?x=y": {http.StatusServiceUnavailable, "broker-cluster-store: starting: "},
	} {
		if status, body := o.get(t, path); status != want.status || !strings.Contains(body, want.says) {
			t.Errorf("%s while NATS is away: %d, want %d and %q in\n%s", path, status, want.status, want.says, body)
		}
	}
	for _, server := range s.Servers {
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	<-o.done
	if o.err != nil {
		t.Fatal(o.err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.made.Run(ctx) }()
	harness.Eventually(t, "the replica to be ready", func() (bool, string) {
		status, body := o.get(t, "/health/ready")
		return status == http.StatusOK, body
	})
	if status, body := o.get(t, "/"); status != http.StatusOK || !strings.Contains(body, "<html") {
		t.Errorf("/ once it serves: %d\n%s", status, body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// So does one that NATS does not let in yet.
func TestAStartSaysThatNATSDoesNotKnowItsPassword(t *testing.T) {
	s := site.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := open(t, ctx, s, func(c *config.Config) { c.NATS.Password = config.NewSecret("another") })
	harness.Eventually(t, "the reason to say so", func() (bool, string) {
		_, body := o.get(t, "/health/ready")
		return strings.Contains(body, `"broker-cluster-store: starting: reading the API clients`) && strings.Contains(body, "not connected to NATS: nats: Authorization Violation"), body
	})
	cancel()
	<-o.done
}

// A start that waits ends when it is told to, and leaves its port.
func TestAStartThatWaitsCanBeStopped(t *testing.T) {
	s := site.Start(t)
	for _, server := range s.Servers {
		server.Kill()
	}
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		o := open(t, ctx, s)
		cancel()
		<-o.done
		if !errors.Is(o.err, context.Canceled) {
			t.Errorf("%v, want the end of the context", o.err)
		}
		if _, err := http.Get(o.front + "/health/live"); err == nil {
			t.Error("its HTTP listener is open still")
		}
	}
}
