package replica

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"maestrohub.io/uns/broker/api"
	"maestrohub.io/uns/broker/listener"
)

// doors are the ways in that are open while the replica runs.
type doors struct {
	mqtt  *listener.Listener // nil, as the servers, of a replica that does not listen
	http  *http.Server
	admin *http.Server
	// addresses of all of them by name: the transports, "http" and "admin".
	addresses map[string]string
	serving   sync.WaitGroup
	// failed gets the error of a server that ended by itself.
	failed chan error
}

// openDoors opens every listener or none.
func (r *Replica) openDoors() (*doors, error) {
	d := &doors{addresses: map[string]string{}, failed: make(chan error, 2)}
	if r.parts.Unlistening {
		return d, nil
	}
	web, err := net.Listen("tcp", r.config.HTTP.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for HTTP on %s: %w", r.config.HTTP.Listen, err)
	}
	d.addresses["http"] = web.Addr().String()
	if r.webCertificates != nil {
		web = tls.NewListener(web, r.webCertificates.Server())
	}
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
		_ = web.Close()
		if socket != nil {
			_ = socket.Close()
		}
		return nil, err
	}
	for transport, address := range d.mqtt.Addrs() {
		d.addresses[transport] = address.String()
	}
	d.http = r.api.Server(r.api.Handler())
	d.serve(d.http, web)
	if socket != nil {
		d.admin = r.api.Server(r.api.AdminHandler())
		d.serve(d.admin, socket)
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

func (d *doors) serve(s *http.Server, l net.Listener) {
	d.serving.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			d.failed <- fmt.Errorf("serve HTTP on %s: %w", l.Addr(), err)
		}
	})
}

// shut answers the HTTP requests under way and closes what is left at the end of ctx.
func (d *doors) shut(ctx context.Context) {
	var both sync.WaitGroup
	for _, s := range []*http.Server{d.http, d.admin} {
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
