package limits

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tests/mqtttest"
)

// start starts a broker with changed limits.
func start(t *testing.T, change func(l *config.Limits)) *mqtttest.Broker {
	t.Helper()
	return mqtttest.Start(t, func(c *config.Config) { change(&c.Limits) })
}

// refused connects and expects a CONNACK with this code, and the end.
func refused(t *testing.T, b *mqtttest.Broker, v mqtt.Version, code mqtt.ReasonCode, options ...func(*mqtt.Connect)) {
	t.Helper()
	c := b.Dial(t, v, "tcp")
	if a := c.Connect(b.Credentials("dev-a", options...)); v >= mqtt.V5 && a.Code != code || v < mqtt.V5 && a.Code.ConnectReturn() != code.ConnectReturn() {
		c.Fatalf("CONNACK %v, want %v", a.Code, code)
	}
	c.ExpectClosed()
}

func TestMaxClients(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.MaxClients = 2 })
	b.Connect(t, mqtt.V5, "dev-a")
	second := b.Connect(t, mqtt.V311, "dev-b")
	refused(t, b, mqtt.V5, mqtt.ServerBusy)
	refused(t, b, mqtt.V311, mqtt.ServerUnavailable)
	// A client that comes back takes its own place.
	again := second.Again()
	again.Disconnect()
	b.Connect(t, mqtt.V5, "dev-a")
}

func TestMaxPendingConnections(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.MaxPendingConnections = 3 })
	for range 3 {
		b.Dial(t, mqtt.V5, "tcp")
	}
	b.Dial(t, mqtt.V5, "tcp").ExpectClosed()
}

func TestMaxConnectsAuthenticating(t *testing.T) {
	// An issuer that does not answer holds the only place: another CONNECT waits, and
	// is let in once the place is free. The check has half of connectBudget.
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-answer:
		case <-r.Context().Done():
		}
		http.Error(w, "no keys", http.StatusServiceUnavailable)
	}))
	defer issuer.Close()
	b := mqtttest.Start(t, func(c *config.Config) {
		c.Limits.MaxConnectsAuthenticating = 1
		c.Limits.ConnectBudget = 5 * time.Second
		c.OAuth2.Issuers = []config.Issuer{{Issuer: issuer.URL, JWKSURL: issuer.URL + "/keys", Audience: "uns", ClientIDClaim: "client_id", Algorithms: []string{"ES256"}}}
	})
	held := b.Dial(t, mqtt.V5, "tcp")
	p := b.Credentials("dev-a")
	p.Password = []byte(foreignToken(issuer.URL))
	held.Send(p)
	<-asked
	waiting := b.Dial(t, mqtt.V5, "tcp")
	waiting.Send(b.Credentials("dev-b"))
	harness.Eventually(t, "two pending connections", func() (bool, string) {
		n := metric(t, b, "maestrohub_uns_broker_connections_pending")
		return n == 2, fmt.Sprint(n)
	})
	if n := metric(t, b, "maestrohub_uns_broker_connects_authenticating"); n != 1 {
		t.Errorf("%v CONNECTs in their credential check, want 1", n)
	}
	close(answer)
	if a := mqtttest.Expect[mqtt.Connack](held); a.Code != mqtt.ServerUnavailable {
		t.Errorf("the CONNECT whose issuer did not answer got %v, want %v", a.Code, mqtt.ServerUnavailable)
	}
	if a := mqtttest.Expect[mqtt.Connack](waiting); a.Code != mqtt.Success {
		t.Errorf("the CONNECT that waited got %v, want success", a.Code)
	}
}

func TestMaxConnectionsPerCredential(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.MaxConnectionsPerCredential = 2 })
	first := b.Connect(t, mqtt.V5, "dev-a")
	b.Connect(t, mqtt.V5, "dev-a")
	refused(t, b, mqtt.V5, mqtt.QuotaExceeded)
	b.Connect(t, mqtt.V5, "dev-b")
	first.Disconnect()
	b.Connect(t, mqtt.V5, "dev-a")
}

func TestMaxConnectionsPerSource(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		t.Run(fmt.Sprintf("trusted %v", trusted), func(t *testing.T) {
			b := start(t, func(l *config.Limits) { l.MaxConnectionsPerSource, l.TrustClientAddresses = 2, trusted })
			b.Connect(t, mqtt.V5, "dev-a")
			b.Connect(t, mqtt.V5, "dev-a")
			if trusted {
				b.Dial(t, mqtt.V5, "tcp").ExpectClosed()
			} else {
				b.Connect(t, mqtt.V5, "dev-a")
			}
		})
	}
}

func TestAuthFailureThreshold(t *testing.T) {
	b := start(t, func(l *config.Limits) {
		l.AuthFailureThreshold, l.AuthFailureWindow = 3, time.Minute
		l.AuthFailureBackoff, l.AuthFailureBackoffMax = time.Second, 2*time.Second
	})
	wrong := func(p *mqtt.Connect) { p.Password = []byte("wrong") }
	for range 3 {
		refused(t, b, mqtt.V5, mqtt.BadUserNameOrPassword, wrong)
	}
	// Held off: not even the right secret is looked at.
	refused(t, b, mqtt.V5, mqtt.ConnectionRateExceeded)
	refused(t, b, mqtt.V311, mqtt.BadUserNameOrPassword)
	b.Connect(t, mqtt.V5, "dev-b") // another user name is not concerned
	harness.Eventually(t, "the hold-off to be over", func() (bool, string) {
		c := b.Dial(t, mqtt.V5, "tcp")
		defer c.Drop()
		a := c.Connect(b.Credentials("dev-a"))
		if a.Code != mqtt.Success && a.Code != mqtt.ConnectionRateExceeded {
			t.Fatalf("CONNACK %v while held off, want %v", a.Code, mqtt.ConnectionRateExceeded)
		}
		return a.Code == mqtt.Success, a.Code.Error()
	})
}

func TestMaxConnectPacketBytes(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.MaxConnectPacketBytes = 2048 })
	will := func(n int) func(p *mqtt.Connect) {
		return func(p *mqtt.Connect) {
			p.Will = &mqtt.Will{Topic: mqtttest.Inbox("dev-a", "raw/x"), Payload: []byte(strings.Repeat("x", n))}
		}
	}
	b.Connect(t, mqtt.V5, "dev-a", will(1500))
	refused(t, b, mqtt.V5, mqtt.PacketTooLarge, will(2048))
	c := b.Dial(t, mqtt.V311, "tcp")
	c.Send(b.Credentials("dev-a", will(2048)))
	c.ExpectClosed()
	// A length that is only claimed is refused before the bytes are waited for.
	claimed := b.Dial(t, mqtt.V311, "tcp")
	claimed.SendRaw([]byte{0x10, 0xff, 0xff, 0x7f})
	claimed.ExpectClosed()
}

func TestConnectTimeout(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.ConnectTimeout = time.Second })
	silent := b.Dial(t, mqtt.V5, "tcp")
	slow, err := net.Dial("tcp", b.Address("tcp"))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	// One byte now and then does not hold the place.
	go func() {
		pace := time.NewTicker(300 * time.Millisecond)
		defer pace.Stop()
		for i := 0; ; i++ {
			<-pace.C
			if _, err := slow.Write([]byte{[]byte{0x10, 0x20, 0x00, 0x04, 'M', 'Q', 'T', 'T'}[i%8]}); err != nil {
				return
			}
		}
	}()
	silent.ExpectClosed()
	_ = slow.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := slow.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Fatalf("a CONNECT sent byte by byte: %v, want the connection closed", err)
	}
}

func TestMaxKeepAlive(t *testing.T) {
	b := start(t, func(l *config.Limits) { l.MaxKeepAlive = 100 * time.Second })
	for _, asked := range []uint16{0, 101, 65535} {
		c := b.Connect(t, mqtt.V5, "dev-a", func(p *mqtt.Connect) { p.KeepAlive = asked })
		if got := c.Connack.ServerKeepAlive; got == nil || *got != 100 {
			t.Errorf("keep alive %d: Server Keep Alive %v, want 100", asked, got)
		}
	}
	c := b.Connect(t, mqtt.V5, "dev-a", func(p *mqtt.Connect) { p.KeepAlive = 100 })
	if c.Connack.ServerKeepAlive != nil {
		t.Errorf("keep alive 100: Server Keep Alive %d, want none", *c.Connack.ServerKeepAlive)
	}
}
