package replica

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"maestrohub.io/uns/broker/access"
	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
)

// lockedBuffer is a log that is written and read at once.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// ephemeral is a configuration whose ports are the kernel's choice.
func ephemeral(dir string) *config.Config {
	c := config.Default()
	c.DataDir, c.ReplicaID = dir, "a"
	c.Broker.TCPListen, c.HTTP.Listen, c.Broker.WebSocket.Listen = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	c.Broker.WebSocket.Enabled = true
	return c
}

type running struct {
	*Replica
	log  *lockedBuffer
	stop func() error
}

// start runs a replica until the test ends or stop is called, and then holds every
// line it logged against the promise about their beginnings.
func start(t *testing.T, c *config.Config) *running {
	t.Helper()
	r := &running{log: &lockedBuffer{}}
	var err error
	if r.Replica, err = New(t.Context(), c, NewLogger(r.log, c.Log), "test"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		for line := range strings.Lines(r.log.String()) {
			if !linePrefix.MatchString(line) {
				t.Errorf("log line without prefix: %s", line)
			}
		}
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	select {
	case <-r.Started():
	case err := <-ended:
		ended <- err
		t.Fatalf("run: %v", err)
	}
	return r
}

func (r *running) get(t *testing.T, path, id, secret string) (int, string) {
	t.Helper()
	request, err := http.NewRequest("GET", "http://"+r.Address("http")+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if id != "" {
		request.SetBasicAuth(id, secret)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// device is a socket that speaks MQTT 5.
type device struct {
	t *testing.T
	net.Conn
}

func (r *running) device(t *testing.T, id, secret string) device {
	t.Helper()
	nc, err := net.Dial("tcp", r.Address("tcp"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
	d := device{t, nc}
	connect := mqtt.Connect{Version: mqtt.V5, CleanStart: true, ClientID: id + "-1", Username: id, HasUsername: true, Password: []byte(secret), HasPassword: true,
		ReceiveMaximum: 65535, RequestProblemInformation: true}
	d.send(connect.Append(nil, mqtt.V5))
	if kind, body := d.next(); kind != mqtt.CONNACK || body[1] != byte(mqtt.Success) {
		t.Fatalf("CONNECT answered with %v % x, want CONNACK success", kind, body)
	}
	return d
}

func (d device) send(packet []byte) {
	d.t.Helper()
	if _, err := d.Write(packet); err != nil {
		d.t.Fatal(err)
	}
}

// next reads one packet of less than 128 bytes.
func (d device) next() (mqtt.PacketType, []byte) {
	d.t.Helper()
	head := make([]byte, 2)
	if _, err := io.ReadFull(d, head); err != nil {
		d.t.Fatalf("read packet: %v", err)
	}
	body := make([]byte, head[1])
	if _, err := io.ReadFull(d, body); err != nil {
		d.t.Fatalf("read packet: %v", err)
	}
	return mqtt.PacketType(head[0] >> 4), body
}

// publish sends a value with QoS 1 and returns the PUBACK's reason.
func (d device) publish(name, payload string) mqtt.ReasonCode {
	d.t.Helper()
	p := mqtt.Publish{QoS: 1, PacketID: 7, Topic: []byte(name), Payload: []byte(payload)}
	d.send(p.Append(nil, mqtt.V5))
	kind, body := d.next()
	switch {
	case kind != mqtt.PUBACK || len(body) < 2 || body[1] != 7:
		d.t.Fatalf("PUBLISH answered with %v % x, want its PUBACK", kind, body)
	case len(body) == 2:
		return mqtt.Success
	}
	return mqtt.ReasonCode(body[2])
}

func TestAReplicaStoresBeforeItAcknowledgesStopsInOrderAndComesBackWithEverything(t *testing.T) {
	dir := t.TempDir()
	r := start(t, ephemeral(dir))
	secret, err := r.Access().Add(t.Context(), access.Client{ID: "press", Workspace: "plant", Scopes: []string{"uns:read", "uns_settings:update"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	d := r.device(t, "press", secret)
	if code := d.publish("mHv1.0/plant/_ingress/press/temperature", "21.5"); code != mqtt.NoMatchingSubscribers && code != mqtt.Success {
		t.Fatalf("PUBACK %v, want stored", code)
	}
	history := func(r *running) string {
		t.Helper()
		status, body := r.get(t, "/api/v1/uns/plant/history?topic=temperature", "press", secret)
		if status != 200 {
			t.Fatalf("history: %d %s", status, body)
		}
		return body
	}
	if body := history(r); !strings.Contains(body, `"value":21.5`) {
		t.Errorf("history after the PUBACK: %s", body)
	}
	if _, body := r.get(t, "/api/v1/system/uns/settings/status", "press", secret); !strings.Contains(body, `"ready":true`) || !strings.Contains(body, `"connected":1`) ||
		!strings.Contains(body, `"replica":"a"`) || !strings.Contains(body, r.Address("tcp")) {
		t.Errorf("status: %s", body)
	}
	if _, body := r.get(t, "/api/v1/uns/plant/connections", "press", secret); !strings.Contains(body, `"clientId":"press-1"`) {
		t.Errorf("connections: %s", body)
	}

	if err := r.stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	if kind, body := d.next(); kind != mqtt.DISCONNECT || body[0] != byte(mqtt.ServerShuttingDown) {
		t.Errorf("the device is told %v % x, want DISCONNECT 0x8B", kind, body)
	}
	if _, err := d.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the DISCONNECT: %v, want the end of the connection", err)
	}
	if _, err := os.Stat(AdminSocket(dir)); !os.IsNotExist(err) {
		t.Errorf("the operator's socket is left behind: %v", err)
	}

	again := start(t, ephemeral(dir))
	if body := history(again); !strings.Contains(body, `"value":21.5`) {
		t.Errorf("history after a restart: %s", body)
	}
}

func TestTheOperatorsSocketIsItsOwnersAloneAndOneBrokersAlone(t *testing.T) {
	dir := t.TempDir()
	r := start(t, ephemeral(dir))
	for path, want := range map[string]os.FileMode{AdminSocket(dir): 0o600, filepath.Dir(AdminSocket(dir)): 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v (error %v), want %o", path, info.Mode(), err, want)
		}
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", r.Address("admin"))
	}}}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://broker/api/v1/api-clients")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("the operator lists clients: %s", response.Status)
	}
	if l, err := listenAdmin(dir); err == nil || !strings.Contains(err.Error(), dir) {
		_ = l.Close()
		t.Errorf("a second broker on the same directory: error %v, want one that names it", err)
	}
}

func TestASocketLeftBehindByAKilledBrokerIsReplacedAndAPathTooLongIsNamed(t *testing.T) {
	dir := t.TempDir()
	left, err := listenAdmin(dir)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = left.Close()
	next, err := listenAdmin(dir)
	if err != nil {
		t.Fatalf("over a socket left behind: %v", err)
	}
	_ = next.Close()
	long := filepath.Join(dir, strings.Repeat("d", maxSocketPath))
	if _, err := listenAdmin(long); err == nil || !strings.Contains(err.Error(), "at most 92 bytes") {
		t.Errorf("a path too long: %v, want the limit named", err)
	}
}

func TestReadinessIsOffWhileTheReplicaStops(t *testing.T) {
	r := start(t, ephemeral(t.TempDir()))
	if status, body := r.get(t, "/health/ready", "", ""); status != 200 {
		t.Errorf("ready: %d %s", status, body)
	}
	r.stopping.Store(true)
	if status, body := r.get(t, "/health/ready", "", ""); status != 503 || !strings.Contains(body, `"broker-cluster-store: the replica is stopping"`) {
		t.Errorf("ready while stopping: %d %s", status, body)
	}
	if status, _ := r.get(t, "/health/live", "", ""); status != 200 {
		t.Errorf("live while stopping: %d", status)
	}
}
