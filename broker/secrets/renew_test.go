package secrets

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// fits says that everything of NATS and the mesh works together as it is.
func (w *world) fits() {
	w.t.Helper()
	if err := handshake(w.t, w.secret("server-tls"), w.secret("client-tls"), "nats"); err != nil {
		w.t.Errorf("client to server: %v", err)
	}
	if err := handshake(w.t, w.secret("mesh-tls"), w.secret("mesh-tls"), "uns-0.uns-headless"); err != nil {
		w.t.Errorf("replica to replica: %v", err)
	}
}

// written are the names of the Secrets that differ from before.
func (w *world) written(before map[Ref]*Secret) string {
	var names []string
	for r, s := range w.all() {
		if before[r] == nil || before[r].Revision != s.Revision {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestAWordRenewsOnce(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	for thing, secrets := range map[string]string{
		"mesh certificate": "mesh-tls", "NATS server certificate": "server-tls", "NATS client certificate": "client-tls",
		"NATS passwords": "auth auth-uns", "database password": "database",
	} {
		for _, word := range []string{"2027", "2028"} {
			before := w.all()
			if err := w.plan.RenewNow(thing, word); err != nil {
				t.Fatal(err)
			}
			w.ensure()
			if got := w.written(before); got != secrets {
				t.Errorf("renewing %s wrote %s", thing, got)
			}
			w.fits()
			after := w.all()
			w.ensure()
			if !w.same(after) {
				t.Errorf("%s was renewed again for the same word", thing)
			}
		}
	}
	// Without a word nothing is renewed: the last one is not forgotten for that.
	before := w.all()
	w.plan = w.newPlan()
	w.ensure()
	if !w.same(before) {
		t.Error("no word, and something was renewed")
	}
	if err := w.plan.RenewNow("mesh", "x"); err == nil || !strings.Contains(err.Error(), "mesh certificate") {
		t.Errorf("an unknown thing: %v", err)
	}
}

// Peers have the earlier and the renewed certificate for a while.
func TestARenewedCertificateWorksWithTheEarlierOne(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	before := w.all()
	for _, thing := range w.plan.Things() {
		if strings.HasSuffix(thing, "certificate") {
			if err := w.plan.RenewNow(thing, "now"); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.ensure()
	w.fits()
	for _, c := range []struct{ server, client, name string }{{"server-tls", "client-tls", "nats"}, {"mesh-tls", "mesh-tls", "uns-0.uns-headless"}, {"server-tls", "server-tls", "nats-0.nats-headless"}} {
		old, renewed := before[w.ref(c.server)], w.secret(c.server)
		if bytes.Equal(old.Data[keyPrivate], renewed.Data[keyPrivate]) {
			t.Errorf("%s kept its key", c.server)
		}
		if err := handshake(t, old, w.secret(c.client), c.name); err != nil {
			t.Errorf("the earlier %s with the renewed %s: %v", c.server, c.client, err)
		}
		if err := handshake(t, renewed, before[w.ref(c.client)], c.name); err != nil {
			t.Errorf("the renewed %s with the earlier %s: %v", c.server, c.client, err)
		}
	}
}

func TestTheLastThirdOfItsLifeRenewsACertificate(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	before := w.all()
	now := time.Now()
	if err := w.at(now.Add(3650 * 2 / 3 * day).Add(-10 * day)); err != nil {
		t.Fatal(err)
	}
	if !w.same(before) {
		t.Error("renewed before the last third")
	}
	if err := w.at(now.Add(3650 * 2 / 3 * day).Add(10 * day)); err != nil {
		t.Fatal(err)
	}
	if got := w.written(before); got != "client-tls mesh-tls server-tls" {
		t.Errorf("in the last third: wrote %s", got)
	}
	// An authority's end is the certificates' end too, and it is said long before.
	if err := w.at(now.Add(7000 * day)); err != nil {
		t.Fatal(err)
	}
	ca := w.secret("nats-ca").pair(t).Leaf
	if end := w.secret("server-tls").pair(t).Leaf.NotAfter; !end.Equal(ca.NotAfter) {
		t.Errorf("the certificate ends %v, its authority %v", end, ca.NotAfter)
	}
	if !w.heard("nats-ca (NATS authority) ends on") {
		t.Errorf("nothing said of the authority's end: %q", w.said)
	}
	if err := w.at(now.Add(7301 * day)); err == nil || !strings.Contains(err.Error(), "nats-ca (NATS authority): key tls.crt ended on") {
		t.Errorf("an authority that has ended: %v", err)
	}
}

// A certificate that has ended is renewed all the same: its authority still vouches for the new one.
func TestAnEndedCertificateIsRenewed(t *testing.T) {
	w := newWorld(t)
	for i := range w.plan.Certificates {
		w.plan.Certificates[i].Days = 1
	}
	w.ensure()
	before := w.all()
	if err := w.at(time.Now().Add(30 * day)); err != nil {
		t.Fatal(err)
	}
	if got := w.written(before); got != "client-tls mesh-tls server-tls" {
		t.Errorf("wrote %s", got)
	}
}

// The Job is ended between its two writes; the next one finishes what it began.
func TestARenewalOfPasswordsThatWasCutShortIsFinished(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	if err := w.plan.RenewNow("NATS passwords", "2027"); err != nil {
		t.Fatal(err)
	}
	writes, _, err := decide(w.plan, w.all(), time.Now())
	if err != nil || len(writes) != 2 {
		t.Fatalf("%d writes, %v", len(writes), err)
	}
	if err := apply(t.Context(), w.kube, writes[:1], 0, func(string) {}); err != nil {
		t.Fatal(err)
	}
	cut := w.all()
	w.ensure()
	if got := w.written(cut); got != "auth" {
		t.Errorf("finishing wrote %s", got)
	}
	before := w.all()
	w.ensure()
	if !w.same(before) {
		t.Error("not finished")
	}
	// It waits in between, and does not wait longer than it may.
	if err := w.plan.RenewNow("NATS passwords", "2028"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("time is over"))
	defer cancel()
	if err := Ensure(ctx, w.kube, w.plan, time.Hour, func(string) {}); err == nil || !strings.Contains(err.Error(), "time is over; the next run goes on from here") {
		t.Errorf("waiting: %v", err)
	}
	if got := w.written(before); got != "auth-uns" {
		t.Errorf("before the wait: wrote %s", got)
	}
}

func TestWhatIsNoSecretFollowsThePlan(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	before := w.all()
	w.plan.Passwords[2].Texts["url"] = "postgres://uns:${password}@elsewhere/uns"
	w.plan.Accounts[0].Accounts[0].JetStream = map[string]any{"max_file": "10GB", "max_streams": 100}
	w.ensure()
	if got := w.written(before); got != "auth database" {
		t.Errorf("wrote %s", got)
	}
	if url := string(w.secret("database").Data["url"]); url != "postgres://uns:"+string(before[w.ref("database")].Data["password"])+"@elsewhere/uns" {
		t.Errorf("url %s", url)
	}
	conf := string(w.secret("auth").Data["accounts.conf"])
	for _, m := range userLine.FindAllString(string(before[w.ref("auth")].Data["accounts.conf"]), -1) {
		if !strings.Contains(conf, m) {
			t.Errorf("the hash of %s changed", m)
		}
	}
	if !strings.Contains(conf, "max_file: 10GB\n      max_streams: 100\n") {
		t.Errorf("accounts:\n%s", conf)
	}
}

// An authority is replaced in stages. At each step some programs have what the stage wrote and others still what the
// one before wrote, and they all get on.
func TestReplacingAnAuthorityKeepsEverythingTogether(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	first := w.secret("nats-ca").Data[keyCertificate]
	before := w.all()
	authority := w.plan.authority(w.ref("nats-ca"))
	for _, stage := range []Stage{Introduce, Switch, Settled} {
		authority.Stage = stage
		w.ensure()
		if got := w.written(before); got != "client-tls nats-ca server-tls" {
			t.Errorf("stage %q wrote %s", stage, got)
		}
		w.fits()
		for _, c := range []struct{ server, client *Secret }{
			{before[w.ref("server-tls")], w.secret("client-tls")}, {w.secret("server-tls"), before[w.ref("client-tls")]},
			{before[w.ref("server-tls")], w.secret("server-tls")}, {w.secret("server-tls"), before[w.ref("server-tls")]},
		} {
			if err := handshake(t, c.server, c.client, "nats-0.nats-headless"); err != nil {
				t.Errorf("stage %q, %s with %s: %v", stage, c.server.Ref, c.client.Ref, err)
			}
		}
		before = w.all()
		w.ensure()
		if !w.same(before) {
			t.Errorf("stage %q twice changed something", stage)
		}
	}
	if now := w.secret("nats-ca"); bytes.Equal(now.Data[keyCertificate], first) || bytes.Contains(now.Data[keyAuthority], bytes.TrimSpace(first)) || len(now.Data) != 3 {
		t.Errorf("the first authority is not forgotten: %v", sortedKeys(now.Data))
	}
	if bundle := w.secret("client-tls").Data[keyAuthority]; bytes.Contains(bundle, bytes.TrimSpace(first)) {
		t.Error("clients still trust the first authority")
	}
}

func TestAnAuthoritysReplacementCanBeCalledOff(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	before := w.all()
	authority := w.plan.authority(w.ref("mesh-ca"))
	authority.Stage = Introduce
	w.ensure()
	w.fits()
	authority.Stage = Settled
	w.ensure()
	w.fits()
	for r, s := range w.all() {
		if !maps.EqualFunc(s.Data, before[r].Data, bytes.Equal) {
			t.Errorf("%s is not as it was", r)
		}
	}
}

func TestStagesOutOfOrderAreRefused(t *testing.T) {
	w := newWorld(t)
	authority := w.plan.authority(w.ref("mesh-ca"))
	authority.Stage = Switch
	w.ensure() // new: nothing to replace
	if !w.heard("mesh authority is new: its stage (switch) has nothing to replace") {
		t.Errorf("said %q", w.said)
	}
	w.refuses("mesh-ca", "switch comes after the stage introduce")
	for _, stage := range []Stage{Introduce, Switch} {
		authority.Stage = stage
		w.ensure()
	}
	authority.Stage = Introduce
	w.refuses("mesh-ca", "an earlier authority is still trusted", "set the stage to none first")
	authority.Stage = Settled
	w.ensure()
	authority.Stage = Introduce
	w.ensure()
	w.put("mesh-ca", map[string][]byte{keyNextPrivate: nil})
	w.refuses("mesh-ca", "half-filled", "has next.crt and lacks next.key")
}

// A run that was ended between the authority and what it signs is finished by the next one, at any write.
func TestAStageThatWasCutShortIsFinished(t *testing.T) {
	for cut := range 3 {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			w := newWorld(t)
			w.ensure()
			authority := w.plan.authority(w.ref("nats-ca"))
			for _, stage := range []Stage{Introduce, Switch, Settled} {
				authority.Stage = stage
				writes, _, err := decide(w.plan, w.all(), time.Now())
				if err != nil || len(writes) != 3 {
					t.Fatalf("stage %q: %d writes, %v", stage, len(writes), err)
				}
				if err := apply(t.Context(), w.kube, writes[:cut], 0, func(string) {}); err != nil {
					t.Fatal(err)
				}
				w.ensure()
				w.fits()
				before := w.all()
				w.ensure()
				if !w.same(before) {
					t.Errorf("stage %q: not finished", stage)
				}
			}
		})
	}
}

// Forgetting an authority that still signs something would cut it off.
func TestAnAuthorityThatStillSignsIsNotForgotten(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	old := w.secret("client-tls").Data
	authority := w.plan.authority(w.ref("nats-ca"))
	for _, stage := range []Stage{Introduce, Switch} {
		authority.Stage = stage
		w.ensure()
	}
	w.put("client-tls", map[string][]byte{keyCertificate: old[keyCertificate], keyPrivate: old[keyPrivate]}) // from a backup
	authority.Stage = Settled
	w.refuses("client-tls", "signed by another authority")
	authority.Stage = Switch
	w.ensure()
	authority.Stage = Settled
	w.ensure()
	w.fits()
}

func TestCertificatesSayWhatTheyAreFor(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	for name, usage := range map[string][]x509.ExtKeyUsage{
		"mesh-tls": {x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, "server-tls": {x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, "client-tls": {x509.ExtKeyUsageClientAuth},
	} {
		leaf := w.secret(name).pair(t).Leaf
		if fmt.Sprint(leaf.ExtKeyUsage) != fmt.Sprint(usage) || leaf.IsCA || leaf.KeyUsage != x509.KeyUsageDigitalSignature {
			t.Errorf("%s: usages %v, authority %v, key usage %v", name, leaf.ExtKeyUsage, leaf.IsCA, leaf.KeyUsage)
		}
	}
	for _, name := range []string{"mesh-ca", "nats-ca"} {
		leaf := w.secret(name).pair(t).Leaf
		if !leaf.IsCA || !leaf.MaxPathLenZero || leaf.KeyUsage&x509.KeyUsageCertSign == 0 || leaf.ExtKeyUsage != nil {
			t.Errorf("%s: %+v", name, leaf)
		}
	}
}
