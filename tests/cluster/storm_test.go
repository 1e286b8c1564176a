package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/harness"
	"maestrohub.io/uns/tools/localcluster/deployment"
)

var devices = flag.Int("devices", 5000, "devices that reconnect at once when their replica is killed")

// TestRowFiveThousandDevicesReconnect has one of three replicas serve all devices, kills
// it, and has them all reconnect at once to the two others.
func TestRowFiveThousandDevicesReconnect(t *testing.T) {
	if *binary == "" {
		*binary = harness.Binary(t)
	}
	if shared != nil { // the machine is to have one cluster at a time
		if err := shared.Close(); err != nil {
			t.Fatal(err)
		}
		shared = nil
	}
	starting, started := context.WithTimeout(t.Context(), 3*time.Minute)
	defer started()
	d, err := deployment.Start(starting, deployment.Options{Replicas: 3, Binary: *binary, MemberTTL: max(ttl, 10*time.Second), Clients: clients,
		Settings: map[string]any{"embeddedBrokerLimits": map[string]any{"maxClients": *devices + 10, "maxConnectionsPerCredential": *devices + 10, "maxOfflineSessions": *devices + 10}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, r := range d.Replicas {
				out := r.Output()
				t.Logf("%s printed last:\n%s", r.ID, out[max(0, len(out)-4000):])
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	all := make([]*stormDevice, *devices)
	for i := range all {
		all[i] = &stormDevice{id: fmt.Sprintf("storm-%d", i)}
	}
	began := time.Now()
	must(t, together(all, 100, func(i int, s *stormDevice) error {
		return s.connect(ctx, func(int) string { return d.Replicas[2].TCP }, false)
	}))
	t.Logf("%d devices connected and subscribed, a hundred at a time, in %v", *devices, time.Since(began))
	must(t, together(all[:100], 100, func(_ int, s *stormDevice) error { return s.ping() })) // they are served

	d.Replicas[2].Kill()
	killed := time.Now()
	var back atomic.Int64
	must(t, together(all, len(all), func(i int, s *stormDevice) error {
		err := s.connect(ctx, func(attempt int) string { return d.Replicas[(i+attempt)%2].TCP }, true)
		back.Add(1)
		return err
	}))
	took := time.Since(killed)
	storm.took(t, took)
	if took > 30*time.Second+generous {
		t.Errorf("all %d devices were back only after %v", *devices, took)
	}
	var refused, slowest = 0, time.Duration(0)
	for _, s := range all {
		refused += s.refused
		slowest = max(slowest, s.took)
	}
	t.Logf("%d CONNECTs were refused and sent again; the slowest take-up took %v", refused, slowest)

	publisher := harness.Attach(d.Replicas[0].Broker, clients).Client(t, "device", "storm-publisher")
	published := time.Now()
	if code := publisher.Publish(harness.Inbox("device", "storm"), 1, "1"); code != mqtt.Success {
		t.Fatalf("PUBACK %v", code)
	}
	must(t, together(all, len(all), func(_ int, s *stormDevice) error { return s.receive() }))
	stormFlows.took(t, time.Since(published))
	for _, s := range all {
		s.nc.Close()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// together does something with every device, so many at a time.
func together(all []*stormDevice, atOnce int, do func(i int, s *stormDevice) error) error {
	slots := make(chan struct{}, atOnce)
	errs := make(chan error, len(all))
	var work sync.WaitGroup
	for i, s := range all {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			if err := do(i, s); err != nil {
				errs <- fmt.Errorf("%s: %w", s.id, err)
			}
		})
	}
	work.Wait()
	close(errs)
	return <-errs // nil: none
}

// stormDevice is one of very many: a persistent session with one subscription.
type stormDevice struct {
	id      string
	nc      net.Conn
	buf     []byte
	refused int
	took    time.Duration // its last take-up, from the CONNECT that was accepted
}

// connect connects until it is accepted, and subscribes if there is no session yet.
func (s *stormDevice) connect(ctx context.Context, address func(attempt int) string, present bool) error {
	if s.nc != nil {
		s.nc.Close()
	}
	for attempt := 0; ; attempt++ {
		began := time.Now()
		code, err := s.try(address(attempt), present)
		switch {
		case err == nil && code == mqtt.Success:
			s.took = time.Since(began)
			if present {
				return nil
			}
			return s.subscribe()
		case errors.Is(err, errSession):
			return err
		case err == nil:
			s.refused++
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("not back: %w; last: %v, %w", ctx.Err(), code, err)
		}
	}
}

var errSession = errors.New("its session was not found")

func (s *stormDevice) try(address string, present bool) (mqtt.ReasonCode, error) {
	nc, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return 0, err
	}
	s.nc, s.buf = nc, nil
	p := mqtt.Connect{Version: mqtt.V5, ClientID: s.id, SessionExpiry: 600, Username: "device", HasUsername: true, Password: []byte(harness.Secret("device")), HasPassword: true}
	if _, err := nc.Write(p.Append(nil, mqtt.V5)); err != nil {
		return 0, err
	}
	h, body, err := s.next(mqtt.CONNACK)
	if err != nil {
		nc.Close()
		return 0, err
	}
	var ack mqtt.Connack
	if err := ack.Decode(mqtt.V5, h, body); err != nil {
		return 0, err
	}
	if ack.Code != mqtt.Success {
		nc.Close()
		return ack.Code, nil
	}
	if present && !ack.SessionPresent {
		return ack.Code, errSession
	}
	return ack.Code, nil
}

func (s *stormDevice) subscribe() error {
	p := mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: harness.Data("storm"), QoS: 1}}}
	if _, err := s.nc.Write(p.Append(nil, mqtt.V5)); err != nil {
		return err
	}
	_, _, err := s.next(mqtt.SUBACK)
	return err
}

func (s *stormDevice) ping() error {
	if _, err := s.nc.Write([]byte{0xC0, 0}); err != nil {
		return err
	}
	_, _, err := s.next(mqtt.PINGRESP)
	return err
}

// receive waits for the one value and acknowledges it.
func (s *stormDevice) receive() error {
	h, body, err := s.next(mqtt.PUBLISH)
	if err != nil {
		return err
	}
	var p mqtt.Publish
	if err := p.Decode(mqtt.V5, h, body); err != nil {
		return err
	}
	_, err = s.nc.Write(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBACK, p.PacketID, mqtt.Success))
	return err
}

// next returns the next packet, which must be of that type.
func (s *stormDevice) next(want mqtt.PacketType) (mqtt.Header, []byte, error) {
	_ = s.nc.SetReadDeadline(time.Now().Add(2 * time.Minute))
	for {
		h, ok, err := mqtt.ParseHeader(s.buf)
		if err != nil {
			return h, nil, err
		}
		if ok && len(s.buf) >= h.Size+h.Remaining {
			body := s.buf[h.Size : h.Size+h.Remaining]
			s.buf = s.buf[h.Size+h.Remaining:]
			if h.Type != want {
				return h, nil, fmt.Errorf("received %v, want %v", h.Type, want)
			}
			return h, body, nil
		}
		var piece [512]byte
		n, err := s.nc.Read(piece[:])
		s.buf = append(s.buf, piece[:n]...)
		if err != nil {
			return h, nil, err
		}
	}
}
