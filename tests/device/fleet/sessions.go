package fleet

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"maestrohub.io/uns/broker/mqtt"
	"maestrohub.io/uns/tests/device"
)

// endAttempts is how often a session is tried to be ended, each time where
// Options.Address says next.
const endAttempts = 3

// EndSessions ends the session of every device that has a saved one: by a clean start
// that ends with its connection. It is for a fleet that is finished or closed. What it
// cannot end by the end of ctx ends by itself, within its expiry; the error says which.
func (f *Fleet) EndSessions(ctx context.Context) error {
	// A publisher that is still owed something connects again, and makes its session anew.
	ended := make(chan struct{})
	go func() {
		f.working.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	left, last := 0, error(nil)
	for i, d := range f.Devices() {
		if d.Clean {
			continue
		}
		var err error
		for attempt := range endAttempts {
			if err = ctx.Err(); err != nil {
				break
			}
			if err = f.endSession(ctx, d, f.o.Address(i, attempt)); err == nil {
				break
			}
		}
		if err != nil {
			left, last = left+1, fmt.Errorf("%s: %w", d.ID, err)
		}
	}
	if last != nil {
		return fmt.Errorf("%d sessions are left to their expiry: %w", left, last)
	}
	return nil
}

func (f *Fleet) endSession(ctx context.Context, d *device.Device, address string) error {
	dial := f.o.Dial
	if dial == nil {
		dial = func(address string) (net.Conn, error) { return net.DialTimeout("tcp", address, 5*time.Second) }
	}
	conn, err := dial(address)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	// A clean session of MQTT 3.1.1 ends with its connection.
	p := mqtt.Connect{Version: mqtt.V311, ClientID: d.ID, CleanStart: true, Username: d.User, HasUsername: true, Password: []byte(d.Secret), HasPassword: true}
	if _, err := conn.Write(p.Append(nil, mqtt.V311)); err != nil {
		return err
	}
	answer := make([]byte, 4) // a CONNACK of MQTT 3.1.1, its last byte the code
	if _, err := io.ReadFull(conn, answer); err != nil {
		return err
	}
	if answer[3] != 0 {
		return fmt.Errorf("CONNACK %d", answer[3])
	}
	_, err = conn.Write((&mqtt.Disconnect{}).Append(nil, mqtt.V311))
	return err
}
