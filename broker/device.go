package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"

	"maestrohub.io/uns/broker/mqtt"
)

// device is the least of an MQTT 5 client that broker try needs: one question at a
// time, each waited for until its context ends. A library's client would reconnect
// and retry, and so hide what is to be seen here.
type device struct {
	conn net.Conn
	in   *bufio.Reader
	// early are live copies that came before they were waited for.
	early []mqtt.Publish
}

// brokerURL is where a broker is.
func brokerURL(broker string) (*url.URL, error) {
	u, err := url.Parse(broker)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "mqtt" && u.Scheme != "mqtts":
		return nil, fmt.Errorf("%q must be mqtt://host:port or mqtts://host:port", broker)
	case u.User != nil:
		return nil, fmt.Errorf("the address must be %s://%s alone: the API client and its secret come from $%s and $%s", u.Scheme, u.Host, envClient, envSecret)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%q must end with the port: %s://%s", broker, u.Scheme, u.Host)
	}
	return u, nil
}

func dialDevice(ctx context.Context, broker string, security *tls.Config) (*device, error) {
	u, err := brokerURL(broker)
	if err != nil {
		return nil, err
	}
	address := u.Host
	if u.Port() == "" {
		address = net.JoinHostPort(u.Hostname(), map[string]string{"mqtt": "1883", "mqtts": "8883"}[u.Scheme])
	}
	var dialer interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	} = &net.Dialer{}
	if u.Scheme == "mqtts" {
		dialer = &tls.Dialer{Config: security}
	}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("nobody listens there (%w): is the port right? MQTT is on 1883, with TLS on 8883 (mqtts://), unless it was set otherwise", err)
	}
	if err != nil {
		return nil, notTLS(u, err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &device{conn: conn, in: bufio.NewReader(conn)}, nil
}

// notTLS explains how a TLS handshake ends with a port that does not speak TLS.
func notTLS(u *url.URL, err error) error {
	if u.Scheme == "mqtts" && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.As(err, new(tls.RecordHeaderError))) {
		return fmt.Errorf("the port does not speak TLS (%w): mqtt://%s connects without, or give the TLS port", err, u.Host)
	}
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return fmt.Errorf("%w: --ca-file names the certificates that sign the broker's", err)
	}
	return err
}

// close says goodbye; what the broker makes of it does not matter any more.
func (d *device) close() {
	if d == nil {
		return
	}
	_, _ = d.conn.Write((&mqtt.Disconnect{}).Append(nil, mqtt.V5))
	_ = d.conn.Close()
}

func (d *device) connect(clientID, user, password string) error {
	ask := mqtt.Connect{Version: mqtt.V5, CleanStart: true, KeepAlive: 60, ClientID: clientID, ReceiveMaximum: 10,
		Username: user, HasUsername: true, Password: []byte(password), HasPassword: true, RequestProblemInformation: true}
	var answer mqtt.Connack
	if err := d.ask(ask.Append(nil, mqtt.V5), mqtt.CONNACK, &answer); err != nil {
		if _, encrypted := d.conn.(*tls.Conn); !encrypted && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)) {
			return fmt.Errorf("the port does not answer a CONNECT (%w): is it a TLS port, which wants mqtts://?", err)
		}
		if errors.As(err, new(*mqtt.Error)) { // it does not read like a CONNACK
			return fmt.Errorf("what answers there does not speak MQTT (%w): is it the HTTP port? MQTT is on 1883, with TLS on 8883, unless it was set otherwise", err)
		}
		return err
	}
	if answer.Code == mqtt.BadUserNameOrPassword && answer.ReasonString == "" { // a broker does not say which to who guesses
		answer.ReasonString = "there is no such API client, its secret is another one ($" + envSecret + "), or it is disabled"
	}
	return refused("CONNACK", answer.Code, answer.ReasonString)
}

func (d *device) subscribe(filter string, qos byte) error {
	ask := mqtt.Subscribe{PacketID: 1, Filters: []mqtt.Subscription{{Filter: filter, QoS: qos}}}
	var answer mqtt.Suback
	if err := d.ask(ask.Append(nil, mqtt.V5), mqtt.SUBACK, &answer); err != nil {
		return err
	}
	if answer.Codes[0] == mqtt.NotAuthorized && answer.ReasonString == "" { // a release that does not say
		answer.ReasonString = "the API client is of another workspace, or this is not among what it may subscribe to"
	}
	return refused("SUBACK", answer.Codes[0], answer.ReasonString)
}

func (d *device) publish(topic string, payload []byte, qos byte) error {
	const id = 2
	ask := mqtt.Publish{QoS: qos, PacketID: id, Topic: []byte(topic), Payload: payload}
	ack, name := mqtt.PUBACK, "PUBACK"
	if qos == 2 {
		ack, name = mqtt.PUBREC, "PUBREC"
	}
	var answer mqtt.Ack
	if err := d.ask(ask.Append(nil, mqtt.V5), ack, &answer); err != nil {
		return err
	}
	if err := refused(name, answer.Code, answer.ReasonString); err != nil || qos == 1 {
		return err
	}
	answer = mqtt.Ack{}
	if err := d.ask(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBREL, id, mqtt.Success), mqtt.PUBCOMP, &answer); err != nil {
		return err
	}
	return refused("PUBCOMP", answer.Code, answer.ReasonString)
}

// receive waits for a message on topic that contains part.
func (d *device) receive(topic string, part []byte) error {
	for {
		for _, p := range d.early {
			if string(p.Topic) == topic && bytes.Contains(p.Payload, part) {
				return nil
			}
		}
		d.early = d.early[:0]
		if err := d.next(mqtt.PUBLISH, nil); err != nil {
			return err
		}
	}
}

type decoder interface {
	Decode(v mqtt.Version, h mqtt.Header, body []byte) error
}

// ask sends a packet and reads until its answer.
func (d *device) ask(packet []byte, want mqtt.PacketType, answer decoder) error {
	if _, err := d.conn.Write(packet); err != nil {
		return err
	}
	return d.next(want, answer)
}

// next reads until a packet of the wanted type; a PUBLISH on the way is acknowledged
// and kept.
func (d *device) next(want mqtt.PacketType, answer decoder) error {
	for {
		h, body, err := d.read()
		if err != nil {
			return err
		}
		switch h.Type {
		case want:
			if want != mqtt.PUBLISH {
				return answer.Decode(mqtt.V5, h, body)
			}
			return d.keep(h, body)
		case mqtt.PUBLISH:
			if err := d.keep(h, body); err != nil {
				return err
			}
		case mqtt.DISCONNECT:
			var bye mqtt.Disconnect
			if err := bye.Decode(mqtt.V5, h, body); err != nil {
				return err
			}
			return refused("DISCONNECT", bye.Code, bye.ReasonString)
		}
	}
}

func (d *device) keep(h mqtt.Header, body []byte) error {
	var p mqtt.Publish
	if err := p.Decode(mqtt.V5, h, body); err != nil {
		return err
	}
	d.early = append(d.early, p)
	ack := mqtt.PUBACK
	switch p.QoS {
	case 0:
		return nil
	case 2: // which leaves the rest of the flow to the end of the session
		ack = mqtt.PUBREC
	}
	_, err := d.conn.Write(mqtt.AppendAck(nil, mqtt.V5, ack, p.PacketID, mqtt.Success))
	return err
}

// read reads one packet.
func (d *device) read() (mqtt.Header, []byte, error) {
	var front []byte
	for {
		b, err := d.in.ReadByte()
		if err != nil {
			return mqtt.Header{}, nil, fmt.Errorf("connection lost: %w", err)
		}
		front = append(front, b)
		h, ok, err := mqtt.ParseHeader(front)
		if err != nil {
			return h, nil, err
		}
		if ok {
			body := make([]byte, h.Remaining)
			_, err := io.ReadFull(d.in, body)
			return h, body, err
		}
	}
}
