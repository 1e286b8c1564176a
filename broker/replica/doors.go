package replica

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/listener"
)

// front is the HTTP listener, which is open before the stores are: whoever starts
// replicas learns that this one lives, and what it waits for. Nobody restarts a replica
// that only waits, and a restart would cure nothing.
type front struct {
	server  *http.Server
	address string
	// now answers: first how the start goes, then the API.
	now     atomic.Pointer[http.Handler]
	serving sync.WaitGroup
	// failed gets the error of a server that ended by itself, this one or the operator's.
	failed chan error
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) { (*f.now.Load()).ServeHTTP(w, r) }

// openFront opens the HTTP listener and says there how the start goes.
func (r *Replica) openFront(context.Context) error {
	if r.parts.Unlistening {
		return nil
	}
	l, err := net.Listen("tcp", r.config.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("listen for HTTP on %s: %w", r.config.HTTP.Listen, err)
	}
	f := &front{address: l.Addr().String(), failed: make(chan error, 2)}
	if r.webCertificates != nil {
		l = tls.NewListener(l, r.webCertificates.Server())
	}
	starting := api.Starting(r.ready, r.metrics, r.log)
	f.now.Store(&starting)
	f.server = api.Server(f, r.writeWait(), r.log)
	f.serving.Go(func() { serveHTTP(f.server, l, f.failed) })
	r.log.Info("listening", "listener", "http", "address", f.address)
	r.front = f
	r.closers = append(r.closers, func() error {
		_ = f.server.Close() // shut has been asked for before, if anybody was served
		f.serving.Wait()
		return nil
	})
	return nil
}

// doors are the ways in that are open while the replica runs.
type doors struct {
	mqtt  *listener.Listener // nil, as the servers, of a replica that does not listen
	front *front
	admin *http.Server
	// addresses of all of them by name: the transports, "http" and "admin".
	addresses map[string]string
	serving   sync.WaitGroup
	failed    <-chan error // front's
}

// openDoors opens every listener or none, and has the one for HTTP serve the API.
func (r *Replica) openDoors() (*doors, error) {
	d := &doors{addresses: map[string]string{}}
	if r.parts.Unlistening {
		return d, nil
	}
	d.front, d.failed, d.addresses["http"] = r.front, r.front.failed, r.front.address
	// A broker without its operator's socket still serves devices; the path may be
	// too long, or the volume may know no sockets.
	socket, err := listenAdmin(r.config.DataDir)
	if err != nil {
		r.log.Warn("operator's socket not opened; API clients are managed over HTTP and by the clients file only", "error", err)
	} else {
		d.addresses["admin"] = socket.Addr().String()
	}
	d.mqtt, err = listener.New(r.listenerOptions(), r.server.Handle)
	if err != nil {
		if socket != nil {
			_ = socket.Close()
		}
		return nil, err
	}
	for transport, address := range d.mqtt.Addrs() {
		d.addresses[transport] = address.String()
	}
	serving := r.api.Handler()
	d.front.now.Store(&serving)
	if socket != nil {
		d.admin = api.Server(r.api.AdminHandler(), r.writeWait(), r.log)
		d.serving.Go(func() { serveHTTP(d.admin, socket, r.front.failed) })
	}
	return d, nil
}

func (r *Replica) listenerOptions() listener.Options {
	b, l, m := r.config.Broker, r.config.Limits, r.metrics
	o := listener.Options{
		TCP: b.TCPListen, TLS: b.TLSListen, Certificates: r.certificates, WebSocketPath: b.WebSocket.Path, AllowedOrigins: b.WebSocket.AllowedOrigins,
		TrustedProxies: b.TrustedProxies, TrustClientAddresses: l.TrustClientAddresses,
		MaxPending: l.MaxPendingConnections, MaxPerSource: l.MaxConnectionsPerSource, ConnectTimeout: l.ConnectTimeout,
		Accepted: func(transport string) { m.ConnectionsAccepted.WithLabelValues(transport).Inc() },
		Refused:  func(_, reason string) { m.ConnectRefused.WithLabelValues(reason).Inc() },
		Pending:  func(n int) { m.ConnectionsPending.Set(float64(n)) },
		Log:      r.log,
	}
	if b.DisablePlaintext {
		o.TCP = ""
	}
	if b.WebSocket.Enabled {
		o.WebSocket = b.WebSocket.Listen
	}
	return o
}

// serveHTTP serves until the server is shut; failed gets why it ended before that.
func serveHTTP(s *http.Server, l net.Listener, failed chan<- error) {
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		failed <- fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
	}
}

// shut answers the HTTP requests under way and closes what is left at the end of ctx.
func (d *doors) shut(ctx context.Context) {
	var both sync.WaitGroup
	servers := []*http.Server{d.admin}
	if d.front != nil {
		servers = append(servers, d.front.server)
	}
	for _, s := range servers {
		if s == nil {
			continue
		}
		both.Go(func() {
			if s.Shutdown(ctx) != nil {
				_ = s.Close() // cuts what would not end; there is nothing more to do about it
			}
		})
	}
	both.Wait()
	d.serving.Wait()
}

// close accepts no further MQTT connections.
func (d *doors) close() {
	if d.mqtt != nil {
		d.mqtt.Close()
	}
}

// listeners lists the open listeners for the status.
func (d *doors) listeners() []api.Listener {
	var all []api.Listener
	for _, name := range []string{listener.TCP, listener.TLS, listener.WS, listener.WSS, "http", "admin"} {
		if address, ok := d.addresses[name]; ok {
			all = append(all, api.Listener{Name: name, Address: address})
		}
	}
	return all
}

// headroom is what a stop keeps of its bound for closing the stores.
const headroom = 5 * time.Second
