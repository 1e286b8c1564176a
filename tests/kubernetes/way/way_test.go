package way

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// api is an API server of the test's, whose Service "broker" leads to what the test
// says. Its own ClusterIP is reached or not. What connects to a pod is answered with the pod's name and port, and then with
// what it sends.
type api struct {
	*httptest.Server
	mu    sync.Mutex
	ready map[string]bool // pods, and whether each is ready
}

func newAPI(t *testing.T, reached bool) *api {
	t.Helper()
	a := &api{ready: map[string]bool{}}
	inside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { inside.Close() })
	if !reached {
		inside.Close()
	}
	port := int32(inside.Addr().(*net.TCPAddr).Port)
	one := int32(1883)
	name, http1 := "mqtt", "http"
	services := map[string]core.Service{
		"kubernetes": {Spec: core.ServiceSpec{ClusterIP: "127.0.0.1", Ports: []core.ServicePort{{Name: "https", Port: port}}}},
		"broker":     {Spec: core.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []core.ServicePort{{Name: http1, Port: 80}, {Name: name, Port: 1884}}}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/services/{name}", func(w http.ResponseWriter, r *http.Request) {
		answer(t, w, services[r.PathValue("name")])
	})
	mux.HandleFunc("GET /apis/discovery.k8s.io/v1/namespaces/plant/endpointslices", func(w http.ResponseWriter, r *http.Request) {
		if s := r.URL.Query().Get("labelSelector"); s != discovery.LabelServiceName+"=broker" {
			t.Errorf("endpoints by %q", s)
		}
		slice := discovery.EndpointSlice{Ports: []discovery.EndpointPort{{Name: &http1, Port: new(int32)}, {Name: &name, Port: &one}}}
		a.mu.Lock()
		defer a.mu.Unlock()
		for pod, ready := range a.ready {
			slice.Endpoints = append(slice.Endpoints, discovery.Endpoint{TargetRef: &core.ObjectReference{Name: pod}, Conditions: discovery.EndpointConditions{Ready: &ready}})
		}
		answer(t, w, discovery.EndpointSliceList{Items: []discovery.EndpointSlice{slice}})
	})
	mux.HandleFunc("POST /api/v1/namespaces/plant/pods/{pod}/portforward", a.forward)
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.CloseClientConnections)
	return a
}

func answer(t *testing.T, w http.ResponseWriter, object any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(object); err != nil {
		t.Error(err)
	}
}

// forward is a kubelet's part. Nobody listens on port 1.
func (a *api) forward(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return
	}
	opened := make(chan httpstream.Stream, 2)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		opened <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	said, data := <-opened, <-opened
	if data.Headers().Get(core.PortHeader) == "1" {
		fmt.Fprint(said, "connection refused")
		said.Close()
		<-conn.CloseChan()
		return
	}
	said.Close()
	fmt.Fprintf(data, "%s:%s\n", r.PathValue("pod"), data.Headers().Get(core.PortHeader))
	lines := bufio.NewScanner(data)
	for lines.Scan() && lines.Text() != "end" {
		fmt.Fprintln(data, lines.Text())
	}
	fmt.Fprintln(data, "bye")
	data.Close()
	<-conn.CloseChan()
}

// find are the ways into it.
func (a *api) find(t *testing.T) *Ways {
	t.Helper()
	w, err := Find(t.Context(), &rest.Config{Host: a.URL})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (a *api) lead(ready map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = ready
}

func dial(t *testing.T, address string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func line(t *testing.T, from *bufio.Reader) string {
	t.Helper()
	text, err := from.ReadString('\n')
	if err != nil {
		t.Fatalf("read %q: %v", text, err)
	}
	return strings.TrimSpace(text)
}

func TestEachConnectionGoesToAPodThatIsReadyThen(t *testing.T) {
	a := newAPI(t, false)
	a.lead(map[string]bool{"broker-0": true, "broker-1": false})
	w := a.find(t)
	if w.inside {
		t.Fatal("an address that does not answer is reached")
	}
	address, err := w.ToService(t.Context(), "plant", "broker", "mqtt")
	if err != nil {
		t.Fatal(err)
	}
	first, from := dial(t, address)
	if got := line(t, from); got != "broker-0:1883" { // the pod's port, not the Service's
		t.Errorf("the first connection reached %s", got)
	}
	a.lead(map[string]bool{"broker-0": false, "broker-1": true})
	_, other := dial(t, address)
	if got := line(t, other); got != "broker-1:1883" {
		t.Errorf("the next connection reached %s", got)
	}
	// What stands goes on, both ways, and the pod ends it.
	fmt.Fprintln(first, "still there?")
	if got := line(t, from); got != "still there?" {
		t.Errorf("the first connection brought %q", got)
	}
	fmt.Fprintln(first, "end")
	if got := line(t, from); got != "bye" {
		t.Errorf("the pod's last words were %q", got)
	}
	if _, err := from.ReadByte(); err != io.EOF {
		t.Errorf("after the pod has ended it: %v", err)
	}
	if again, err := w.ToService(t.Context(), "plant", "broker", "mqtt"); again != address || err != nil {
		t.Errorf("asked again, the address is %s (%v), not %s", again, err, address)
	}
}

func TestWhatIsEndedHereMayStillBeAnswered(t *testing.T) {
	a := newAPI(t, false)
	w := a.find(t)
	address, err := w.ToPod(&core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "plant", Name: "broker-7"}}, 8080)
	if err != nil {
		t.Fatal(err)
	}
	conn, from := dial(t, address)
	fmt.Fprintln(conn, "x")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	var all []string
	for range 3 {
		all = append(all, line(t, from))
	}
	if want := []string{"broker-7:8080", "x", "bye"}; !slices.Equal(all, want) {
		t.Errorf("it brought %q, want %q", all, want)
	}
}

func TestAWayThatLeadsNowhereEndsTheConnection(t *testing.T) {
	a := newAPI(t, false)
	a.lead(map[string]bool{"broker-0": false})
	w := a.find(t)
	service, err := w.ToService(t.Context(), "plant", "broker", "mqtt")
	if err != nil {
		t.Fatal(err)
	}
	pod, err := w.ToPod(&core.Pod{ObjectMeta: meta.ObjectMeta{Namespace: "plant", Name: "broker-0"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for what, address := range map[string]string{"no pod is ready": service, "nobody listens": pod} {
		_, from := dial(t, address)
		if _, err := from.ReadByte(); err != io.EOF {
			t.Errorf("%s: %v, want the end", what, err)
		}
	}
	if address, err := w.ToService(t.Context(), "plant", "broker", "coap"); err == nil {
		t.Errorf("a port that the Service does not have is at %s", address)
	}
}

func TestInsideAClusterAddressesAreItsOwn(t *testing.T) {
	a := newAPI(t, true)
	w := a.find(t)
	if !w.inside {
		t.Fatal("an address that answers is not reached")
	}
	service, err := w.ToService(t.Context(), "plant", "broker", "")
	if err != nil || service != "10.0.0.1:80" {
		t.Errorf("the Service is at %s, %v", service, err)
	}
	pod, err := w.ToPod(&core.Pod{Status: core.PodStatus{PodIP: "10.0.0.7"}}, 1883)
	if err != nil || pod != "10.0.0.7:1883" {
		t.Errorf("the pod is at %s, %v", pod, err)
	}
}
