package device

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"maestrohub.io/uns/broker/mqtt"
)

// A publisher that paces itself and has one value refused while others are in flight
// reads on: the others' acknowledgments, after which it sends the refused one again.
func TestAPublisherReadsOnWhileARefusedValueWaits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	again := make(chan error, 1)
	go func() { again <- refuseFirst(l) }()
	ctx, cancel := context.WithCancel(t.Context())
	p := &Publisher{Device: Device{ID: "p", Version: mqtt.V5, Fresh: true, Roams: true, Random: rand.New(rand.NewPCG(1, 2)), Address: l.Addr().String},
		Name: "n", QoS: 1, Window: 3, Every: time.Millisecond}
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	select {
	case err := <-again:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the refused value was not sent again")
	}
	cancel()
	<-ended
}

// refuseFirst is a broker that refuses the first of three values, and acknowledges the
// others only a while later. It returns when the refused one comes again, and then
// acknowledges everything.
func refuseFirst(l net.Listener) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	in := bufio.NewReader(c)
	next := func() (mqtt.Publish, error) {
		for {
			h, body, err := packet(in)
			if err != nil {
				return mqtt.Publish{}, err
			}
			var p mqtt.Publish
			switch h.Type {
			case mqtt.CONNECT:
				if _, err := c.Write((&mqtt.Connack{}).Append(nil, mqtt.V5)); err != nil {
					return p, err
				}
			case mqtt.PUBLISH:
				return p, p.Decode(mqtt.V5, h, body)
			}
		}
	}
	ack := func(id uint16, code mqtt.ReasonCode) {
		_, _ = c.Write(mqtt.AppendAck(nil, mqtt.V5, mqtt.PUBACK, id, code))
	}
	var ids []uint16
	for range 3 {
		p, err := next()
		if err != nil {
			return err
		}
		ids = append(ids, p.PacketID)
	}
	ack(ids[0], mqtt.UnspecifiedError)
	<-time.After(200 * time.Millisecond) // its next number would be due by now
	ack(ids[1], mqtt.Success)
	ack(ids[2], mqtt.Success)
	p, err := next()
	if err != nil {
		return err
	}
	go func() {
		defer c.Close()
		for {
			ack(p.PacketID, mqtt.Success)
			if p, err = next(); err != nil {
				return
			}
		}
	}()
	return nil
}

// packet reads one packet.
func packet(in *bufio.Reader) (mqtt.Header, []byte, error) {
	var b []byte
	for {
		h, ok, err := mqtt.ParseHeader(b)
		if err != nil {
			return h, nil, err
		}
		if ok {
			body := make([]byte, h.Remaining)
			_, err := io.ReadFull(in, body)
			return h, body, err
		}
		one, err := in.ReadByte()
		if err != nil {
			return h, nil, err
		}
		b = append(b, one)
	}
}
