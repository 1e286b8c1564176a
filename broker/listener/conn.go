package listener

import (
	"crypto/x509"
	"net"
	"net/netip"
)

// Conn is a connection ready for MQTT. Reads and writes are MQTT bytes on every transport.
type Conn struct {
	net.Conn

	// Remote is the device's own address; invalid when it is not known to be that (no
	// TrustClientAddresses, or a proxy that named none). For logs there is RemoteAddr.
	Remote netip.Addr
	// Transport is TCP, TLS, WS or WSS.
	Transport string
	// PeerCertificate is the one the device showed and a client CA signed; nil without mutual TLS.
	PeerCertificate *x509.Certificate

	tcp     *net.TCPConn
	proxied bool
	release release
}

// TCP is the socket of a plain TCP connection, with nothing read from it that Read has not returned; nil
// on other transports.
func (c *Conn) TCP() *net.TCPConn {
	if c.Transport != TCP {
		return nil
	}
	return c.tcp
}

// Proxied reports whether the connection came through a trusted proxy; RemoteAddr is then the proxy's.
func (c *Conn) Proxied() bool { return c.proxied }

// Established frees the connection's pending place: its CONNACK is sent. Further calls do nothing.
func (c *Conn) Established() { c.release.pending() }

// Close closes the connection and frees every place it holds. Over WebSocket it sends a Close frame
// first, if none was sent.
func (c *Conn) Close() error {
	c.release.all()
	return c.Conn.Close()
}
