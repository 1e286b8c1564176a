package mesh

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxy is a TCP proxy on loopback that can reset its connections and stop forwarding.
type proxy struct {
	net.Listener
	target string
	mu     sync.Mutex
	conns  []*net.TCPConn
	stuck  [2]chan struct{} // to the target, and back; nil: forwards
}

func newProxy(t testing.TB, target string) *proxy {
	p := &proxy{Listener: loopback(t), target: target}
	t.Cleanup(func() { p.Close(); p.reset() })
	go func() {
		for {
			in, err := p.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", p.target)
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, in.(*net.TCPConn), out.(*net.TCPConn))
			p.mu.Unlock()
			go p.forward(out, in, 0)
			go p.forward(in, out, 1)
		}
	}()
	return p
}

func (p *proxy) forward(to, from net.Conn, direction int) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		stuck := p.stuck[direction]
		p.mu.Unlock()
		if stuck != nil {
			<-stuck
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// reset ends every connection with a TCP reset.
func (p *proxy) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.SetLinger(0)
		c.Close()
	}
	p.conns = nil
}

// stick stops forwarding in one direction, for later connections too.
func (p *proxy) stick(direction int) (release func()) {
	c := make(chan struct{})
	p.mu.Lock()
	p.stuck[direction] = c
	p.mu.Unlock()
	return func() {
		p.mu.Lock()
		p.stuck[direction] = nil
		p.mu.Unlock()
		close(c)
	}
}

func loopback(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// quick is a timing for tests on the real clock.
var quick = timing{ping: 50 * time.Millisecond, silence: 400 * time.Millisecond, mend: 200 * time.Millisecond, greet: 2 * time.Second,
	retry: 50 * time.Millisecond, refused: 50 * time.Millisecond, tick: 10 * time.Millisecond}

// real makes two replicas on loopback, a dialing b through a proxy.
func real(t *testing.T, edit func(*Options)) (p *proxy, a, b *replica) {
	la, lb := loopback(t), loopback(t)
	p = newProxy(t, lb.Addr().String())
	with := func(o *Options) {
		o.timing = &quick
		if edit != nil {
			edit(o)
		}
	}
	a, b = start(t, "a", la, with), start(t, "b", lb, with)
	t.Cleanup(func() { a.Close(); b.Close() })
	a.SetPeer(Peer{Replica: "b", Incarnation: 2, Address: p.Addr().String()})
	b.SetPeer(Peer{Replica: "a", Incarnation: 1, Address: la.Addr().String()})
	a.Begin(1)
	b.Begin(2)
	return p, a, b
}

func TestResetsInTheMiddleOfTrafficLoseAndDoubleNothing(t *testing.T) {
	p, a, b := real(t, nil)
	a.waitLinked(t, 1)
	const values = 3000
	for i := 1; i <= values; i++ {
		a.send("b", fmt.Sprint(i))
		b.send("a", fmt.Sprint(i))
		if i%300 == 0 {
			p.reset()
		}
	}
	b.wait(t, "all values", func() bool { return len(b.values["a/1"]) >= values })
	a.wait(t, "all values", func() bool { return len(a.values["b/2"]) >= values })
	if !slices.Equal(b.got("a/1"), numbers(1, values)) || !slices.Equal(a.got("b/2"), numbers(1, values)) {
		t.Error("values out of order, missing or doubled")
	}
}

func TestASilentOrHalfOpenLinkIsGivenUpAndResumes(t *testing.T) {
	for name, directions := range map[string][]int{"silent": {0, 1}, "nothing from the dialer": {0}, "nothing to the dialer": {1}} {
		t.Run(name, func(t *testing.T) {
			p, a, b := real(t, nil)
			a.waitLinked(t, 1)
			b.waitLinked(t, 1)
			var releases []func()
			for _, d := range directions {
				releases = append(releases, p.stick(d))
			}
			da, db := a.send("b", "1"), b.send("a", "1")
			a.waitLinked(t, 0)
			b.waitLinked(t, 0)
			<-da
			<-db
			for _, release := range releases {
				release()
			}
			a.wait(t, "b's value once", func() bool { return slices.Equal(a.values["b/2"], []string{"1"}) })
			b.wait(t, "a's value once", func() bool { return slices.Equal(b.values["a/1"], []string{"1"}) })
		})
	}
}

// reissued is another certificate for the same key and name.
func reissued(t *testing.T, c tls.Certificate) tls.Certificate {
	t.Helper()
	template := x509.Certificate{SerialNumber: big.NewInt(99), Subject: pkix.Name{CommonName: "mesh"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, c.PrivateKey.(crypto.Signer).Public(), c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: c.PrivateKey}
}

func TestALinkTrustsNoOtherCertificate(t *testing.T) {
	other := map[string]tls.Certificate{"another deployment's": makeCertificate(t), "the same key, issued again": reissued(t, deployment())}
	for name, certificate := range other {
		for _, odd := range []string{"a", "b"} {
			t.Run(name+" at "+odd, func(t *testing.T) {
				_, a, b := real(t, func(o *Options) {
					if o.Replica == odd {
						o.Identity = identity(certificate)
					}
				})
				a.waitLog(t, "mesh: no link", "not this deployment's")
				if len(a.Linked())+len(b.Linked()) != 0 || a.Status().LinksUp != 0 {
					t.Error("linked")
				}
				if reason := a.Status().Peers[0].Reason; !strings.Contains(reason, "certificate") {
					t.Errorf("a's status: %q", reason)
				}
			})
		}
	}
}

// waitLog waits for a log line with all the parts.
func (r *replica) waitLog(t *testing.T, parts ...string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		text, written := r.logs.look()
		for line := range strings.SplitSeq(text, "\n") {
			if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
				return
			}
		}
		select {
		case <-written:
		case <-deadline:
			t.Fatalf("replica %s never logged %q:\n%s", r.id, parts, r.logs)
		}
	}
}

func TestOnlyTLS13WithACertificateGetsIn(t *testing.T) {
	_, _, b := real(t, nil)
	with := func(edit func(*tls.Config)) *tls.Config {
		c := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{deployment()}, NextProtos: []string{protocolName}}
		edit(c)
		return c
	}
	cases := map[string]*tls.Config{
		"TLS 1.2":          with(func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }),
		"no certificate":   with(func(c *tls.Config) { c.Certificates = nil }),
		"another protocol": with(func(c *tls.Config) { c.NextProtos = []string{"mqtt"} }),
		"no protocol":      with(func(c *tls.Config) { c.NextProtos = nil }),
	}
	for name, config := range cases {
		raw, err := net.Dial("tcp", b.Status().Address)
		if err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(raw, config)
		if _, err := conn.Write(appendHello(nil, hello{versions: Spoken, from: "a", incarnation: 1, to: "b", attempt: 1 << 40})); err == nil {
			raw.SetReadDeadline(time.Now().Add(10 * time.Second))
			if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("%s: the mesh answers", name)
			}
		}
		raw.Close()
	}
}

// rawDialer is a replica made by hand.
type rawDialer struct {
	*tls.Conn
	frames frames
}

func dialRaw(t *testing.T, address string) *rawDialer {
	t.Helper()
	raw, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	raw.SetDeadline(time.Now().Add(20 * time.Second))
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{deployment()}, NextProtos: []string{protocolName}})
	t.Cleanup(func() { c.Close() })
	return &rawDialer{Conn: c}
}

// read returns the next frame; an error if the connection ends first.
func (d *rawDialer) read() (kind, []byte, error) {
	for {
		k, payload, _, ok, err := d.frames.next()
		if err != nil || ok {
			return k, payload, err
		}
		n, err := d.Read(d.frames.space())
		if d.frames.end += n; n == 0 && err != nil {
			return 0, nil, err
		}
	}
}

// greet does the dialer's handshake; how many frames of the other end it has handled is said.
func (d *rawDialer) greet(incarnation, attempt, handled uint64) error {
	h := handshake{dialing: true, own: hello{versions: Spoken, from: "a", incarnation: incarnation, to: "b", attempt: attempt}}
	h.admit = func(hello) (hello, uint64, *refusal) { return h.own, handled, nil }
	return shakeHands(d.Conn, &d.frames, &h, func() bool { return true })
}

// alone makes one replica, b, that knows a peer a which nobody is.
func alone(t *testing.T) *replica {
	t.Helper()
	b := start(t, "b", loopback(t), func(o *Options) { o.timing = &quick; q := quick; q.silence = time.Minute; o.timing = &q })
	t.Cleanup(b.Close)
	b.SetPeer(Peer{Replica: "a", Incarnation: 1, Address: "127.0.0.1:1"})
	b.Begin(2)
	return b
}

func TestOfManyConnectionsAtOnceTheNewestAttemptIsTheLink(t *testing.T) {
	b := alone(t)
	const attempts = 8
	dialers := make([]*rawDialer, attempts)
	errs := make([]error, attempts)
	var all sync.WaitGroup
	for i := range dialers {
		dialers[i] = dialRaw(t, b.Status().Address)
		all.Go(func() { errs[i] = dialers[i].greet(1, uint64(i+1), 0) })
	}
	all.Wait()
	if errs[attempts-1] != nil {
		t.Fatalf("the newest attempt: %v", errs[attempts-1])
	}
	b.waitLinked(t, 1)
	b.send("a", "1")
	for {
		k, payload, err := dialers[attempts-1].read()
		if err != nil {
			t.Fatalf("the newest attempt's link: %v", err)
		}
		if k == kindValue {
			if !strings.Contains(string(payload), "press") {
				t.Errorf("value %q", payload)
			}
			break
		}
	}
	for i, d := range dialers[:attempts-1] {
		for errs[i] == nil {
			k, _, err := d.read()
			if k == kindValue {
				t.Errorf("attempt %d got a value too", i+1)
			}
			errs[i] = err
		}
	}
	late := dialRaw(t, b.Status().Address)
	if err := late.greet(1, 3, 0); err == nil || !strings.Contains(err.Error(), "comes after attempt 8") {
		t.Errorf("a late older attempt: %v", err)
	}
}

func TestWhoIsRefusedIsToldWhy(t *testing.T) {
	b := alone(t)
	b.SetPeer(Peer{Replica: "a", Incarnation: 5, Address: "127.0.0.1:1"})
	if err := dialRaw(t, b.Status().Address).greet(4, 1, 0); err == nil || !strings.Contains(err.Error(), "incarnation 4 of replica a is over") {
		t.Errorf("an earlier life: %v", err)
	}
	b.fenced.Store(true)
	if err := dialRaw(t, b.Status().Address).greet(5, 1, 0); err == nil || !strings.Contains(err.Error(), "does not serve now") {
		t.Errorf("at a fenced replica: %v", err)
	}
	b.fenced.Store(false)
	d := dialRaw(t, b.Status().Address)
	d.Write(appendHello(nil, hello{versions: Spoken, from: "A", incarnation: 1, to: "b", attempt: 1}))
	if k, payload, err := d.read(); k != kindRefuse || !strings.Contains(string(payload), "not known to be a member") {
		t.Errorf("a stranger: kind %d %q %v", k, payload, err)
	}
}

func TestABadFrameEndsTheLinkWithItsReason(t *testing.T) {
	bad := map[string]struct {
		frame  []byte
		reason string
	}{
		"format":            {[]byte{9, byte(kindPing), 0, 0, 0, 0}, "format 9"},
		"kind":              {[]byte{Format, 15, 0, 0, 0, 0}, "kind 15"},
		"numbered kind":     {[]byte{Format, 99, 0, 0, 0, 0}, "kind 99"},
		"length":            {[]byte{Format, byte(kindValue), 255, 0, 0, 0}, "at most"},
		"empty value":       {[]byte{Format, byte(kindValue), 0, 0, 0, 0}, "flags cut short"},
		"short release":     {[]byte{Format, byte(kindRelease), 0, 0, 0, 1, 7}, "client id cut short"},
		"ack of nothing":    {appendNumber(nil, kindAck, 1), "acknowledgment of frame 1"},
		"other count":       {appendNumber(nil, kindPing, 4), "has sent 4 frames"},
		"skip backwards":    {appendNumber(nil, kindSkip, 0), "skip to frame 0"},
		"hello in the link": {appendHello(nil, hello{}), "kind 1"},
	}
	b := alone(t)
	attempt := uint64(0)
	for name, c := range bad {
		d := dialRaw(t, b.Status().Address)
		attempt++
		if err := d.greet(1, attempt, 0); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d.Write(c.frame)
		said := ""
		for {
			k, payload, err := d.read()
			if err != nil {
				break
			}
			if k == kindBye {
				said = string(payload)
			}
		}
		if !strings.Contains(said, c.reason) {
			t.Errorf("%s: the link ended with %q, want %q", name, said, c.reason)
		}
		b.waitLog(t, "mesh: link down", c.reason)
	}
}

func TestAValueThatCannotBeReadIsPassedOver(t *testing.T) {
	b := alone(t)
	d := dialRaw(t, b.Status().Address)
	if err := d.greet(1, 1, 0); err != nil {
		t.Fatal(err)
	}
	good := appendValue(nil, sample("good"), 0)
	broken := endFrame(append(beginFrame(nil, kindValue), 0, 250, 1, 2, 3), 0)
	d.Write(slices.Concat(broken, good, broken, appendNumber(nil, kindPing, 3)))
	b.wait(t, "the good value", func() bool { return slices.Equal(b.values["a/1"], []string{"good"}) })
	for {
		k, payload, err := d.read()
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := decodeNumber("ack", payload); k == kindAck && n == 3 {
			break
		}
	}
	if got := b.Status().Peers[0]; got.Unreadable != 2 || !got.Linked {
		t.Errorf("status %+v", got)
	}
}

func TestAWrongResumeIsRefusedAndNeverGuessedAt(t *testing.T) {
	b := alone(t)
	err := dialRaw(t, b.Status().Address).greet(1, 1, 7)
	if err == nil { // this end's handshake ends with its own resume: the refusal is the end of the connection
		b.waitLog(t, "no link", "says it has handled frame 7")
	}
	if len(b.Linked()) != 0 {
		t.Error("linked")
	}
}

func TestLargeValuesGoOverWhole(t *testing.T) {
	_, a, b := real(t, nil)
	a.waitLinked(t, 1)
	var want []string
	for _, n := range []int{1, readBytes - 200, readBytes, readBytes + 1, 3 << 20, 9 << 20, 10} {
		want = append(want, strings.Repeat("x", n-1)+"|")
	}
	<-a.send("b", want...)
	b.wait(t, "all", func() bool { return len(b.values["a/1"]) == len(want) })
	if !slices.Equal(b.got("a/1"), want) {
		t.Error("values differ")
	}
	<-a.send("b", strings.Repeat("x", maxPayload), "after")
	b.wait(t, "the value after one that is too large", func() bool { l := b.values["a/1"]; return l[len(l)-1] == "after" })
	if lost := a.Status().Peers[0].Lost; lost != 1 {
		t.Errorf("%d lost, want the one that is too large", lost)
	}
}

func TestAConnectionThatSaysNothingIsClosed(t *testing.T) {
	b := start(t, "b", loopback(t), func(o *Options) { q := quick; q.greet = 50 * time.Millisecond; o.timing = &q })
	defer b.Close()
	conn, err := net.Dial("tcp", b.Status().Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("not closed: %v", err)
	}
}

func TestAHandshakeThatWasOvertakenDoesNotTakeTheLink(t *testing.T) {
	b := alone(t)
	slow := dialRaw(t, b.Status().Address)
	slow.Write(appendHello(nil, hello{versions: Spoken, from: "a", incarnation: 1, to: "b", attempt: 1}))
	for _, want := range []kind{kindHello, kindResume} {
		if k, _, err := slow.read(); k != want {
			t.Fatalf("kind %d, %v", k, err)
		}
	}
	if err := dialRaw(t, b.Status().Address).greet(1, 2, 0); err != nil {
		t.Fatal(err)
	}
	b.waitLinked(t, 1)
	slow.Write(appendNumber(nil, kindResume, 0))
	if k, _, err := slow.read(); err == nil {
		t.Errorf("the overtaken attempt gets a frame of kind %d", k)
	}
	if s := b.Status(); s.LinksUp != 1 || strings.Contains(b.logs.String(), "link down") {
		t.Errorf("%+v\n%s", s, b.logs)
	}
}
