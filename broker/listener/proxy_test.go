package listener

import (
	"bytes"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
)

var localNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func header(t *testing.T, version byte, source string) []byte {
	t.Helper()
	from := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(source))
	to := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 100), Port: 1883}
	if from.IP.To4() == nil {
		to.IP = net.ParseIP("2001:db8::100")
	}
	raw, err := proxyproto.HeaderProxyFromAddrs(version, from, to).Format()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestAProxyHeaderNamesTheDevice(t *testing.T) {
	b := start(t, Options{TCP: anyPort, TrustedProxies: localNetworks, TrustClientAddresses: true})
	local := append([]byte(nil), proxyproto.SIGV2...)
	local = append(local, 0x20, 0, 0, 0)
	for name, c := range map[string]struct {
		header []byte
		want   string
	}{
		"v1 IPv4":    {header(t, 1, "198.51.100.7:4711"), "198.51.100.7"},
		"v1 IPv6":    {header(t, 1, "[2001:db8::7]:4711"), "2001:db8::7"},
		"v2 IPv4":    {header(t, 2, "198.51.100.7:4711"), "198.51.100.7"},
		"v2 IPv6":    {header(t, 2, "[2001:db8::7]:4711"), "2001:db8::7"},
		"v1 UNKNOWN": {[]byte("PROXY UNKNOWN\r\n"), ""},
		"v2 LOCAL":   {local, ""},
	} {
		t.Run(name, func(t *testing.T) {
			nc := dial(t, b.addr(TCP))
			echo := append(bytes.Clone(c.header), "first packet"...)
			if _, err := nc.Write(echo); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len("first packet"))
			if _, err := io.ReadFull(nc, got); err != nil || string(got) != "first packet" {
				t.Fatalf("read %q, %v", got, err)
			}
			conn := b.next(t)
			if want, _ := netip.ParseAddr(c.want); conn.Remote != want || !conn.Proxied() || conn.TCP() == nil {
				t.Errorf("Remote %v, want %v; proxied %t", conn.Remote, want, conn.Proxied())
			}
		})
	}
}

func TestAHeaderMayComeInPieces(t *testing.T) {
	b := start(t, Options{TCP: anyPort, TrustedProxies: localNetworks, TrustClientAddresses: true})
	for _, version := range []byte{1, 2} {
		nc := dial(t, b.addr(TCP))
		for _, x := range header(t, version, "198.51.100.9:1") {
			if _, err := nc.Write([]byte{x}); err != nil {
				t.Fatal(err)
			}
		}
		echo(t, nc, "hello")
		if c := b.next(t); c.Remote != netip.MustParseAddr("198.51.100.9") {
			t.Errorf("version %d: Remote %v", version, c.Remote)
		}
	}
}

func TestATrustedProxyMustSendAHeader(t *testing.T) {
	b := start(t, Options{TCP: anyPort, TrustedProxies: localNetworks})
	for i, bad := range []string{
		"\x10\x0e\x00\x04MQTT\x04\x02\x00\x00\x00\x02id",
		"PROXY TCP4 not.an.address 192.0.2.1 1 2\r\n",
		"PROXY " + strings.Repeat("x", 200),
		string(proxyproto.SIGV2) + "\x21\x11\xff\xff",
		"\r\n\r\n\x00\r\nQUIT\r",
	} {
		nc := dial(t, b.addr(TCP))
		if _, err := io.WriteString(nc, bad); err != nil {
			t.Fatal(err)
		}
		ended(t, nc)
		if n := b.refused(ProxyHeader); n != i+1 {
			t.Errorf("%q: %d refused", bad, n)
		}
	}
}

// A header from anyone else is what it is to MQTT: bytes.
func TestASpoofedHeaderChangesNothing(t *testing.T) {
	b := start(t, Options{TCP: anyPort, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, TrustClientAddresses: true})
	nc := dial(t, b.addr(TCP))
	echo(t, nc, string(header(t, 1, "198.51.100.7:4711")))
	if c := b.next(t); c.Remote != netip.MustParseAddr("127.0.0.1") || c.Proxied() {
		t.Errorf("Remote %v", c.Remote)
	}
}

func TestAProxiedDeviceHasItsOwnShare(t *testing.T) {
	b := start(t, Options{TCP: anyPort, TrustedProxies: localNetworks, TrustClientAddresses: true, MaxPerSource: 1})
	through := func(source string) net.Conn {
		nc := dial(t, b.addr(TCP))
		if _, err := nc.Write(header(t, 2, source)); err != nil {
			t.Fatal(err)
		}
		return nc
	}
	echo(t, through("198.51.100.1:1"), "one")
	echo(t, through("198.51.100.2:1"), "two")
	ended(t, through("198.51.100.1:2"))
	if n := b.refused(MaxPerSource); n != 1 {
		t.Errorf("%d refused", n)
	}
}

func TestASlowHeaderEndsAtConnectTimeout(t *testing.T) {
	b := start(t, Options{TCP: anyPort, TrustedProxies: localNetworks, ConnectTimeout: 200 * time.Millisecond})
	nc := dial(t, b.addr(TCP))
	if _, err := io.WriteString(nc, "PROXY TCP4 19"); err != nil {
		t.Fatal(err)
	}
	ended(t, nc)
	if b.refused(ConnectTimeout) != 1 {
		t.Errorf("refused: %v", b.said)
	}
}

func FuzzProxyHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 198.51.100.7 192.0.2.100 4711 1883\r\nrest"))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Add(append(append([]byte(nil), proxyproto.SIGV2...), 0x21, 0x11, 0, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 99))
	f.Add(append(append([]byte(nil), proxyproto.SIGV2...), 0x20, 0, 0, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		raw, err := proxyHeader(r)
		if err == nil && !bytes.Equal(raw, data[:len(data)-r.Len()]) {
			t.Errorf("took %q of %q", raw, data)
		}
		nc := &scripted{Reader: bytes.NewReader(data)}
		_, _ = readProxyHeader(nc)
	})
}

type scripted struct {
	net.Conn
	*bytes.Reader
}

func (s *scripted) Read(p []byte) (int, error) { return s.Reader.Read(p) }
func (s *scripted) RemoteAddr() net.Addr       { return &net.TCPAddr{} }
