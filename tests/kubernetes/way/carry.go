package way

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// carry leads a connection through the API server to a pod until one of its ends ends
// it.
func (w *Ways) carry(conn net.Conn, choose func(context.Context) (target, error)) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	to, err := choose(ctx)
	if err != nil {
		return err
	}
	through, err := w.dial(to)
	if err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	defer through.Close()
	said, data, err := streams(through, to.port)
	if err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	// What the pod ends is ended here. What is ended here is told to the pod, which may
	// still answer.
	ended := make(chan error, 2)
	go func() {
		if text, _ := io.ReadAll(said); len(text) > 0 {
			ended <- fmt.Errorf("%s: %s", to, text)
		}
	}()
	go func() {
		_, _ = io.Copy(conn, data)
		ended <- nil
	}()
	go func() {
		_, _ = io.Copy(data, conn)
		_ = data.Close()
	}()
	select {
	case err := <-ended:
		return err
	case <-through.CloseChan():
		return nil
	}
}

func (w *Ways) dial(to target) (httpstream.Connection, error) {
	transport, upgrader, err := spdy.RoundTripperFor(w.config)
	if err != nil {
		return nil, err
	}
	url := w.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(to.namespace).Name(to.pod).SubResource("portforward").URL()
	through, _, err := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url).Dial(portforward.PortForwardProtocolV1Name)
	return through, err
}

// streams opens the two that a forwarded connection has: what is said of an error, and
// the connection's own.
func streams(through httpstream.Connection, port int) (said, data httpstream.Stream, err error) {
	headers := http.Header{}
	headers.Set(core.PortHeader, strconv.Itoa(port))
	headers.Set(core.PortForwardRequestIDHeader, "0")
	headers.Set(core.StreamType, core.StreamTypeError)
	if said, err = through.CreateStream(headers); err != nil {
		return nil, nil, err
	}
	if err = said.Close(); err != nil { // it is only read
		return nil, nil, err
	}
	headers.Set(core.StreamType, core.StreamTypeData)
	data, err = through.CreateStream(headers)
	return said, data, err
}
