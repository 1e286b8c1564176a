package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/mqtt"
)

// reached asks each base once and then, if one is there, for the overview: an address that
// nobody listens on is no outage to wait for.
func (r *rest) reached(ctx context.Context) (*api.Overview, error) {
	var failed error
	for _, base := range r.bases {
		err := r.once(ctx, base, "GET", "/health/live", nil, nil)
		if err == nil || errors.As(err, new(*problem)) {
			return r.overview(ctx)
		}
		if text := err.Error(); errors.Is(err, io.EOF) || strings.Contains(text, "malformed HTTP") {
			err = fmt.Errorf("%w: what listens there does not speak HTTP; is it the port of MQTT? the REST API is on 8080 unless it was set otherwise", err)
		} else if strings.Contains(text, "HTTP response to HTTPS client") {
			err = fmt.Errorf("%w: without TLS it is http://", err)
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// dialed opens a connection to each MQTT address, once. One of several that is away is
// said; devices go on to the others.
func (d *drill) dialed(ctx context.Context) error {
	return d.oneOf(ctx, func(net.Conn) error { return nil })
}

// answered has one device connect: whether what listens there speaks MQTT, to the API
// client that was just made.
func (d *drill) answered(ctx context.Context) error {
	return d.oneOf(ctx, func(conn net.Conn) error {
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		p := mqtt.Connect{Version: mqtt.V311, ClientID: d.id, CleanStart: true, Username: d.id, HasUsername: true, Password: []byte(d.secret), HasPassword: true}
		if _, err := conn.Write(p.Append(nil, mqtt.V311)); err != nil {
			return err
		}
		connack := make([]byte, 4)
		if _, err := io.ReadFull(conn, connack); err != nil {
			return fmt.Errorf("does not answer a CONNECT of MQTT (%w): is it a TLS port, which needs --tls?", err)
		}
		if connack[0] != byte(mqtt.CONNACK)<<4 {
			return fmt.Errorf("answers a CONNECT with 0x%02X, which is no MQTT: is it a TLS port, which needs --tls?", connack[0])
		}
		if connack[3] != 0 {
			return fmt.Errorf("refuses the drill's device: CONNACK %d", connack[3])
		}
		_, err := conn.Write((&mqtt.Disconnect{}).Append(nil, mqtt.V311))
		return err
	})
}

// oneOf does something with a connection to each MQTT address and wants it to work with
// one of them at least.
func (d *drill) oneOf(ctx context.Context, do func(net.Conn) error) error {
	var failed []error
	for _, address := range d.at.MQTT {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := func() error {
			conn, err := d.dial(address)
			if err != nil {
				return err
			}
			defer conn.Close()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			return do(conn)
		}()
		if err != nil {
			failed = append(failed, fmt.Errorf("MQTT at %s: %w", address, err))
		}
	}
	if len(failed) == len(d.at.MQTT) {
		return errors.Join(failed...)
	}
	for _, err := range failed {
		d.say.event("%v", err)
	}
	return nil
}

// notTLS explains the errors a TLS handshake ends with where the other side does not
// speak TLS.
func notTLS(err error) error {
	if errors.As(err, new(tls.RecordHeaderError)) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("the port does not speak TLS (%w): leave --tls out, or give the TLS port", err)
	}
	return err
}
