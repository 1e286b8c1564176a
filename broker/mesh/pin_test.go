package mesh

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// authority signs mesh certificates.
type authority struct{ tls.Certificate }

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	return authority{signed(t, nil, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})}
}

// issue signs a certificate for a name; edit may change it.
func (a authority) issue(t *testing.T, name string, edit func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "mesh"}, DNSNames: []string{name}}
	if edit != nil {
		edit(template)
	}
	return signed(t, &a.Certificate, template)
}

// signed makes a key and has the template signed, by itself if there is no parent.
func signed(t *testing.T, parent *tls.Certificate, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	if template.NotAfter.IsZero() {
		template.NotAfter = time.Now().Add(time.Hour)
	}
	by, with := template, any(key)
	if parent != nil {
		by, with = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by, key.Public(), with)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

func (a authority) identity(c tls.Certificate, others ...authority) Identity {
	i := Identity{Certificate: c, Authorities: []*x509.Certificate{a.Leaf}}
	for _, o := range others {
		i.Authorities = append(i.Authorities, o.Leaf)
	}
	return i
}

// renewable is two replicas whose identities can be changed while they run.
func renewable(t *testing.T, first Identity) (p *proxy, a, b *replica, of map[string]*atomic.Pointer[Identity]) {
	of = map[string]*atomic.Pointer[Identity]{"a": {}, "b": {}}
	for _, i := range of {
		i.Store(&first)
	}
	p, a, b = real(t, func(o *Options) {
		now := of[o.Replica]
		o.Identity = func() Identity { return *now.Load() }
	})
	return p, a, b, of
}

// Renewals roll through: for a while one replica shows the new certificate and the other still the old one. Every
// link that is made then stands, and nothing that was sent is lost or doubled.
func TestReplicasLinkWhileARenewalRollsThrough(t *testing.T) {
	ca, next := newAuthority(t, "mesh authority"), newAuthority(t, "the next one")
	old, renewed, switched := ca.issue(t, "uns", nil), ca.issue(t, "uns", nil), next.issue(t, "uns", nil)
	leaf := func(c tls.Certificate) Identity { // a bundle of certificates that sign themselves
		return Identity{Certificate: c, Authorities: []*x509.Certificate{old.Leaf, switched.Leaf}}
	}
	for name, states := range map[string][]Identity{
		"certificate":         {ca.identity(old), ca.identity(renewed)},
		"authority":           {ca.identity(old), ca.identity(old, next), next.identity(switched, ca), next.identity(switched)},
		"without authorities": {leaf(old), leaf(switched)},
	} {
		t.Run(name, func(t *testing.T) {
			p, a, b, of := renewable(t, states[0])
			a.waitLinked(t, 1)
			sent := 0
			publish := func() {
				for range 20 {
					sent++
					a.send("b", fmt.Sprint(sent))
					b.send("a", fmt.Sprint(sent))
				}
			}
			for _, state := range states[1:] {
				for _, replica := range []string{"b", "a"} {
					publish()
					of[replica].Store(&state)
					p.reset() // a new handshake, with the two as they are now
					publish()
					a.waitLinked(t, 1)
					b.waitLinked(t, 1)
				}
			}
			var want []string
			for i := range sent {
				want = append(want, fmt.Sprint(i+1))
			}
			b.wait(t, "all of a's", func() bool { return len(b.values["a/1"]) >= sent })
			a.wait(t, "all of b's", func() bool { return len(a.values["b/2"]) >= sent })
			if !slices.Equal(b.got("a/1"), want) || !slices.Equal(a.got("b/2"), want) {
				t.Errorf("b has %d, a has %d values, want %d in order", len(b.got("a/1")), len(a.got("b/2")), sent)
			}
		})
	}
}

// What is in Authorities lets in whom they sign for this deployment, and nobody else.
func TestAnAuthorityLetsInItsDeploymentAlone(t *testing.T) {
	ca, other := newAuthority(t, "mesh authority"), newAuthority(t, "mesh authority")
	own := ca.issue(t, "uns", nil)
	now := ca.identity(own)
	between := authority{signed(t, &ca.Certificate, &x509.Certificate{Subject: pkix.Name{CommonName: "between"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})}
	below := between.issue(t, "uns", nil)
	below.Certificate = append(below.Certificate, between.Certificate.Certificate[0])
	ended := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	for name, c := range map[string]struct {
		shown  tls.Certificate
		reason string // "" = taken
	}{
		"its own":                              {own, ""},
		"renewed":                              {ca.issue(t, "uns", nil), ""},
		"renewed for more names":               {ca.issue(t, "more", func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "uns") }), ""},
		"signed through an intermediate":       {below, ""},
		"the authority itself":                 {ca.Certificate, ""},
		"another authority of the same name":   {other.issue(t, "uns", nil), "unknown authority"},
		"another service's":                    {ca.issue(t, "historian", nil), "historian"},
		"self-signed":                          {signed(t, nil, &x509.Certificate{DNSNames: []string{"uns"}}), "unknown authority"},
		"ended":                                {ca.issue(t, "uns", ended), "expired"},
		"signed by a certificate that may not": {signed(t, &own, &x509.Certificate{DNSNames: []string{"uns"}}), "unknown authority"},
	} {
		chain := []*x509.Certificate{}
		for _, der := range c.shown.Certificate {
			parsed, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			chain = append(chain, parsed)
		}
		switch err := now.takes(chain); {
		case c.reason == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.reason != "" && (err == nil || !strings.Contains(err.Error(), c.reason) || !strings.Contains(err.Error(), "not this deployment's")):
			t.Errorf("%s: %v, want a refusal with %q", name, err, c.reason)
		}
	}
	if err := now.takes(nil); err == nil {
		t.Error("no certificate at all is taken")
	}
	// Nobody's clock keeps replicas with the same certificate apart.
	over := ca.issue(t, "uns", ended)
	if err := ca.identity(over).takes([]*x509.Certificate{over.Leaf}); err != nil {
		t.Errorf("the own certificate once it has ended: %v", err)
	}
}

// A foreign certificate is refused by both ends of a real handshake while renewals are allowed for.
func TestAForeignCertificateIsRefusedDuringARenewal(t *testing.T) {
	ca := newAuthority(t, "mesh authority")
	p, a, b, of := renewable(t, ca.identity(ca.issue(t, "uns", nil)))
	a.waitLinked(t, 1)
	renewed := ca.identity(ca.issue(t, "uns", nil))
	of["a"].Store(&renewed)
	foreign := newAuthority(t, "mesh authority")
	c := foreign.issue(t, "uns", nil)
	raw, err := net.Dial("tcp", b.Status().Address)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(20 * time.Second))
	conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{c}, NextProtos: []string{protocolName}})
	conn.Write(appendHello(nil, hello{versions: Spoken, from: "a", incarnation: 1, to: "b", attempt: 1 << 40}))
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("the mesh answers a foreign certificate")
	}
	b.waitLog(t, "mesh: a connection was refused", "not this deployment's")
	odd := foreign.identity(c, ca)
	of["b"].Store(&odd) // b shows it; a takes only its own
	p.reset()
	a.waitLog(t, "mesh: no link", "not this deployment's")
}
