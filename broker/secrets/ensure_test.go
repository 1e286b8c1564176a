package secrets

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

func (s *Secret) pair(t *testing.T) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(s.Data[keyCertificate], s.Data[keyPrivate])
	if err != nil {
		t.Fatalf("%s: %v", s.Ref, err)
	}
	return c
}

func (s *Secret) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(s.Data[keyAuthority]) {
		t.Fatalf("%s: no authorities", s.Ref)
	}
	return pool
}

// handshake is a real one, mutual, of a server with a client that calls it by name.
func handshake(t *testing.T, server, client *Secret, name string) error {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	s := tls.Server(a, &tls.Config{Certificates: []tls.Certificate{server.pair(t)}, ClientCAs: server.roots(t), ClientAuth: tls.RequireAndVerifyClientCert})
	c := tls.Client(b, &tls.Config{Certificates: []tls.Certificate{client.pair(t)}, RootCAs: client.roots(t), ServerName: name})
	said := make(chan error, 1)
	go func() {
		err := s.Handshake()
		if err != nil {
			a.Close() // net.Pipe has no buffer for an alert nobody reads
		}
		said <- err
	}()
	err := c.Handshake()
	if err != nil {
		b.Close()
	}
	return errors.Join(err, <-said)
}

func TestWhatIsMissingIsMadeAndFitsTogether(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	for _, name := range []string{"nats", "nats." + w.deps + ".svc", "release-nats-1.nats-headless"} {
		if err := handshake(t, w.secret("server-tls"), w.secret("client-tls"), name); err != nil {
			t.Errorf("client to server %s: %v", name, err)
		}
	}
	if err := handshake(t, w.secret("server-tls"), w.secret("server-tls"), "release-nats-0.nats-headless"); err != nil {
		t.Errorf("server to server: %v", err)
	}
	if err := handshake(t, w.secret("mesh-tls"), w.secret("mesh-tls"), "uns-0.uns-headless"); err != nil {
		t.Errorf("replica to replica: %v", err)
	}
	for _, name := range []string{"localhost", "example.com"} {
		if handshake(t, w.secret("server-tls"), w.secret("client-tls"), name) == nil {
			t.Errorf("the server's certificate is valid for %s", name)
		}
	}
	if handshake(t, w.secret("client-tls"), w.secret("client-tls"), "nats") == nil {
		t.Error("a client's certificate serves")
	}
	if handshake(t, w.secret("server-tls"), w.secret("mesh-tls"), "nats") == nil {
		t.Error("the mesh's authority lets in to NATS")
	}
	mesh := w.secret("mesh-tls").pair(t).Leaf
	if days := int(time.Until(mesh.NotAfter)/day) + 1; days != 3650 {
		t.Errorf("the mesh certificate is valid for %d days", days)
	}
	form := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]{31}$`)
	seen := map[string]bool{}
	for _, x := range []struct{ secret, key, user string }{{"auth-uns", "broker", "uns-broker"}, {"auth-uns", "uns", "uns"}, {"auth-sys", "sys", "sys"}} {
		password := w.secret(x.secret).Data[x.key]
		if !form.Match(password) || seen[string(password)] {
			t.Errorf("password %s of %s: %q", x.key, x.secret, password)
		}
		seen[string(password)] = true
		m := regexp.MustCompile(`user: "` + x.user + `", password: "([^"]+)"`).FindSubmatch(w.secret("auth").Data["accounts.conf"])
		if m == nil || bcrypt.CompareHashAndPassword(m[1], password) != nil {
			t.Errorf("the accounts do not know the password of %s", x.user)
		}
	}
	database := w.secret("database")
	if want := "postgres://uns:" + string(database.Data["password"]) + "@db/uns"; string(database.Data["url"]) != want {
		t.Errorf("url %q", database.Data["url"])
	}
	for r, s := range w.all() {
		if s.Labels[Made] != MadeValue || s.Labels["app.kubernetes.io/part-of"] != "maestrohub" {
			t.Errorf("%s has the labels %v", r, s.Labels)
		}
		if _, certificate := s.Data[keyCertificate]; certificate != (s.Type == typeTLS) {
			t.Errorf("%s has the type %s", r, s.Type)
		}
	}
}

func TestWhatIsThereIsKeptByteForByte(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	before := w.all()
	w.ensure()
	if !w.same(before) {
		t.Error("a second run changed something")
	}
	for i := range w.plan.Certificates { // what a value says of new ones leaves those that are there alone
		w.plan.Certificates[i].Days = 30
	}
	w.ensure()
	if !w.same(before) {
		t.Error("another duration changed something")
	}
	// A part that was lost, with its authority or password still there, is made anew; all else is kept.
	for _, name := range []string{"client-tls", "mesh-tls", "auth"} {
		w.remove(name)
		w.ensure()
		for r, s := range w.all() {
			if r.Name != name && before[r].Revision != s.Revision {
				t.Errorf("making %s again changed %s", name, r)
			}
		}
		if err := handshake(t, w.secret("server-tls"), w.secret("client-tls"), "nats"); err != nil {
			t.Errorf("after %s was made again: %v", name, err)
		}
		before = w.all()
	}
}

func TestManyAtOnceMakeOneSet(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if err := Ensure(t.Context(), w.kube, w.plan, 0, func(string) {}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	before := w.all()
	w.ensure() // which checks that all fit together
	if !w.same(before) || len(before) != len(w.plan.refs()) {
		t.Errorf("%d Secrets of %d, or not the same", len(before), len(w.plan.refs()))
	}
	if err := handshake(t, w.secret("server-tls"), w.secret("client-tls"), "nats"); err != nil {
		t.Error(err)
	}
}

// The API does what it is asked and its answer is lost, or it is not ready, or somebody else is always in between.
func TestAnUnsureAPIStillGetsOneSet(t *testing.T) {
	w := fake(t)
	var n atomic.Int64
	w.api.after = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet || n.Add(1)%2 == 0 {
			return false
		}
		panic(http.ErrAbortHandler)
	}
	busy := map[string]int{}
	var mu sync.Mutex
	w.api.before = func(rw http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if busy[r.URL.Path]++; busy[r.URL.Path] > 2 {
			return false
		}
		rw.WriteHeader([]int{429, 503}[busy[r.URL.Path]%2])
		return true
	}
	w.ensure()
	w.api.before, w.api.after = nil, nil
	before := w.all()
	w.ensure()
	if !w.same(before) || len(before) != len(w.plan.refs()) {
		t.Errorf("%d Secrets of %d, or not the same", len(before), len(w.plan.refs()))
	}
}

func TestWhatTheAPIRefusesIsSaid(t *testing.T) {
	w := fake(t)
	w.api.before = func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		rw.WriteHeader(http.StatusForbidden)
		fmt.Fprint(rw, `{"kind":"Status","message":"secrets is forbidden: User \"x\" cannot create","reason":"Forbidden"}`)
		return true
	}
	if err := w.try(); err == nil || !strings.Contains(err.Error(), "forbids it: secrets is forbidden") || !strings.Contains(err.Error(), w.own+"/mesh-ca") {
		t.Errorf("forbidden: %v", err)
	}
	w.api.before = nil
	delete(w.api.namespaces, w.deps)
	if err := w.try(); err == nil || !strings.Contains(err.Error(), "namespace "+w.deps+" does not exist") {
		t.Errorf("no namespace: %v", err)
	}
}

func TestANamespaceIsMadeOnceAndKept(t *testing.T) {
	w := newWorld(t)
	if created, err := w.kube.Namespace(t.Context(), w.own, nil); err != nil || created {
		t.Errorf("again: created %v, %v", created, err)
	}
}

// Everything that is wrong is said at once, by Secret and key, with what to do; and then nothing is written.
func TestHalfFilledSecretsAreRefused(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	for name, keys := range map[string][]string{
		"mesh-ca": {keyCertificate, keyPrivate}, "nats-ca": {keyCertificate, keyPrivate},
		"mesh-tls": {keyCertificate, keyPrivate, keyAuthority}, "server-tls": {keyCertificate, keyPrivate, keyAuthority}, "client-tls": {keyCertificate, keyPrivate, keyAuthority},
		"auth-uns": {"broker", "uns"}, "auth-sys": {"sys"}, "auth": {"accounts.conf"}, "database": {"password", "url"},
	} {
		for _, key := range keys {
			kept := w.secret(name).Data[key]
			// Kubernetes keeps tls.crt and tls.key in a Secret of that type, but lets them be empty.
			w.put(name, map[string][]byte{key: {}})
			w.refuses(w.ref(name).String(), "half-filled", "lacks "+key, "restore it from a backup, or delete the whole Secret")
			w.put(name, map[string][]byte{key: kept})
		}
		before := w.all()
		w.ensure()
		if !w.same(before) {
			t.Errorf("%s: put right, and changed all the same", name)
		}
	}
}

func TestWhatDoesNotFitTogetherIsRefused(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	spare := newWorld(t) // another deployment's
	spare.ensure()
	good := map[string]map[string][]byte{}
	for r, s := range w.all() {
		good[r.Name] = s.Data
	}
	cases := []struct {
		name   string
		secret string
		data   map[string][]byte
		want   []string
	}{
		{"another key", "server-tls", map[string][]byte{keyPrivate: spare.secret("server-tls").Data[keyPrivate]}, []string{"server-tls", "tls.key", "private key does not match"}},
		{"another authority's key", "nats-ca", map[string][]byte{keyPrivate: spare.secret("nats-ca").Data[keyPrivate]}, []string{"nats-ca", "private key does not match"}},
		{"another authority", "nats-ca", spare.secret("nats-ca").Data, []string{"server-tls", "client-tls", "signed by another authority"}},
		{"another certificate", "client-tls", spare.secret("client-tls").Data, []string{"client-tls", "signed by another authority"}},
		{"another bundle", "mesh-tls", map[string][]byte{keyAuthority: spare.secret("mesh-tls").Data[keyAuthority]}, []string{"mesh-tls", "not signed by a certificate in key ca.crt"}},
		{"no PEM", "mesh-tls", map[string][]byte{keyAuthority: []byte("hello")}, []string{"mesh-tls", "ca.crt holds no PEM certificate"}},
		{"a key among authorities", "mesh-tls", map[string][]byte{keyAuthority: good["mesh-tls"][keyPrivate]}, []string{"mesh-tls", "holds a PRIVATE KEY"}},
		{"not an authority", "nats-ca", map[string][]byte{keyCertificate: good["server-tls"][keyCertificate], keyPrivate: good["server-tls"][keyPrivate]}, []string{"nats-ca", "not the certificate of an authority"}},
		{"a client for a server", "server-tls", good["client-tls"], []string{"server-tls", "not for use as a server", "not valid for the names nats"}},
		{"another password", "auth-uns", map[string][]byte{"broker": []byte("Another")}, []string{"the hash of user uns-broker is not that of the password in Secret " + w.ref("auth-uns").String() + ", key broker"}},
		{"a line break", "auth-uns", map[string][]byte{"broker": []byte("secret\n")}, []string{"auth-uns", "broker", "line breaks"}},
		{"too long", "auth-sys", map[string][]byte{"sys": bytes.Repeat([]byte("x"), 73)}, []string{"auth-sys", "73 bytes"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			w.put(c.secret, c.data)
			w.refuses(c.want...)
			w.put(c.secret, good[c.secret])
		})
	}
	w.t = t
	before := w.all()
	w.ensure()
	if !w.same(before) {
		t.Error("put right, and changed all the same")
	}
}

func TestOtherNamesAreRefusedUntilToldToRenew(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	server := w.certificate("NATS server certificate")
	server.DNS = append(server.DNS, "nats.example.com")
	w.refuses("server-tls", "not valid for the names nats.example.com (it names nats, ", "secrets.renew")
	server.Renew = "names"
	w.ensure()
	if err := handshake(t, w.secret("server-tls"), w.secret("client-tls"), "nats.example.com"); err != nil {
		t.Error(err)
	}
}

// An authority that is lost is not made anew beside what the lost one signed.
func TestALostAuthorityIsNotReplacedSilently(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	ca := w.secret("nats-ca")
	w.remove("nats-ca")
	before := w.all()
	w.ensure()
	if !w.same(before) || !w.heard("nats-ca (NATS authority) is missing: the certificates it signed are kept") {
		t.Errorf("without the authority: %q", w.said)
	}
	w.certificate("NATS client certificate").Renew = "now"
	w.refuses("client-tls", "its authority, Secret "+w.ref("nats-ca").String()+", is missing")
	w.certificate("NATS client certificate").Renew = ""
	w.remove("client-tls")
	w.refuses("nats-ca", "is missing", "client-tls is missing too", "server-tls, of the same authority, is there")
	if err := w.kube.Create(t.Context(), &Secret{Ref: ca.Ref, Type: ca.Type, Labels: ca.Labels, Data: ca.Data}); err != nil { // the backup
		t.Fatal(err)
	}
	w.ensure()
	if err := handshake(t, w.secret("server-tls"), w.secret("client-tls"), "nats"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"nats-ca", "client-tls", "server-tls"} {
		w.remove(name)
	}
	w.ensure()
	if err := handshake(t, w.secret("server-tls"), w.secret("client-tls"), "nats"); err != nil {
		t.Error(err)
	}
}

func TestLostPasswordsAreNotReplacedSilently(t *testing.T) {
	w := newWorld(t)
	w.ensure()
	w.remove("auth-uns")
	w.refuses(w.ref("auth-uns").String(), "with the password of user uns-broker in key broker, is missing", "delete "+w.ref("auth").String()+" as well")
	w.remove("auth")
	w.ensure()
}

func TestYourOwnAreCheckedAndNeverWritten(t *testing.T) {
	maker := newWorld(t)
	maker.ensure()
	w := newWorld(t)
	w.plan.Authorities = nil
	for i := range w.plan.Certificates {
		w.plan.Certificates[i].Existing = true
	}
	for i := range w.plan.Passwords {
		w.plan.Passwords[i].Existing = true
	}
	w.plan.Accounts[0].Existing = true
	w.refuses("mesh-tls (mesh certificate) does not exist, and the values say that it is yours", "auth-uns (NATS passwords) does not exist", "create it with the keys broker, uns", "auth-sys")
	w.certificate("NATS server certificate").DNS = []string{"nats"}
	w.certificate("mesh certificate").DNS = nil
	for r, s := range maker.all() {
		if !strings.HasSuffix(r.Name, "-ca") {
			w.bring(r.Name, s.Type, s.Data)
		}
	}
	before := w.all()
	w.ensure()
	// Everything that would have what the chart made changed.
	for i := range w.plan.Certificates {
		w.plan.Certificates[i].Renew = "now"
	}
	for i := range w.plan.Passwords {
		w.plan.Passwords[i].Renew = "now"
	}
	w.plan.Accounts[0].Renew = "now"
	if err := w.at(time.Now().Add(3000 * day)); err != nil {
		t.Error(err)
	}
	if !w.same(before) {
		t.Error("somebody else's Secret was written")
	}
	if !w.heard("renew it where it came from") {
		t.Errorf("nothing said of certificates in their last third: %q", w.said)
	}
	if err := w.at(time.Now().Add(3651 * day)); err == nil || !strings.Contains(err.Error(), "server-tls") || !strings.Contains(err.Error(), "ended on") {
		t.Errorf("ended: %v", err)
	}
	w.put("server-tls", map[string][]byte{keyAuthority: {}})
	w.refuses("half-filled", "lacks ca.crt", "complete it from where it came from")
}

// One of the plan's names may be taken by a Secret that somebody else made before: it counts as theirs.
func TestASecretWithoutTheLabelIsNotOurs(t *testing.T) {
	maker := newWorld(t)
	maker.ensure()
	w := newWorld(t)
	w.bring("nats-ca", typeTLS, map[string][]byte{keyCertificate: maker.secret("nats-ca").Data[keyCertificate], keyPrivate: maker.secret("nats-ca").Data[keyPrivate]})
	w.bring("auth-uns", typeOpaque, map[string][]byte{"broker": []byte("p@ss:word"), "uns": []byte("12345")})
	w.ensure()
	if err := handshake(t, w.secret("server-tls"), maker.secret("client-tls"), "nats"); err != nil {
		t.Errorf("the brought authority did not sign: %v", err)
	}
	if len(w.secret("nats-ca").Data) != 2 || len(w.secret("auth-uns").Data) != 2 {
		t.Error("a brought Secret was written")
	}
	w.plan.authority(w.ref("nats-ca")).Stage = Introduce
	w.refuses("nats-ca (NATS authority) was not made by this chart")
}

func TestAPlanIsReadStrictly(t *testing.T) {
	for text, want := range map[string]string{
		"certificate: []": "field certificate not found",
		"passwords: [{thing: x, secret: {namespace: a, name: b}}]":                                                                                                 "passwords[0].keys is empty",
		"passwords: [{thing: x, secret: {namespace: a, name: B}, keys: [k]}]":                                                                                      "passwords[0].secret (a/B)",
		"passwords: [{thing: x, secret: {namespace: a, name: b}, keys: [k/l]}]":                                                                                    "key (k/l)",
		"authorities: [{thing: x, secret: {namespace: a, name: b}, name: x, days: 0}]":                                                                             "authorities[0].days (0) must be 1 to 36500",
		"authorities: [{thing: x, secret: {namespace: a, name: b}, name: x, days: 1, stage: next}]":                                                                "stage (next) must be empty, introduce or switch",
		"certificates: [{thing: x, secret: {namespace: a, name: b}, name: x, days: 1, usages: [peer]}]":                                                            "usages (peer) must be server or client",
		"certificates: [{thing: x, secret: {namespace: a, name: b}, name: x, days: 1, usages: [client]}]":                                                          "authority (/) is none of the plan's",
		"accounts: [{thing: x, secret: {namespace: a, name: b}, key: k, accounts: [{name: A, user: 'a\"', password: {secret: {namespace: a, name: p}, key: k}}]}]": `user (a")`,
		"passwords: [{thing: x, secret: {namespace: a, name: b}, keys: [k]}, {thing: y, secret: {namespace: a, name: b}, keys: [k]}]":                              "is that of passwords[0] too",
		"passwords: [{thing: x, secret: {namespace: a, name: p}, keys: [k]}]\naccounts: [{thing: x, secret: {namespace: a, name: b}, key: k, accounts: [{name: A, user: a, password: {secret: {namespace: a, name: p}, key: k}, jetStream: {max_file: '1} evil {'}}]}]": "jetStream.max_file (1} evil {)",
	} {
		if _, err := ParsePlan([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %q", text, err, want)
		}
	}
	if p, err := ParsePlan(nil); err != nil || len(p.refs()) != 0 {
		t.Errorf("an empty plan: %v", err)
	}
}

func TestOfManyPasswordsNoneIsReadAsAnythingButText(t *testing.T) {
	first := map[byte]bool{}
	for range 5000 {
		p := newPassword()
		if len(p) != 32 || strings.ContainsFunc(p, func(r rune) bool { return !strings.ContainsRune(lettersDigits, r) }) || !strings.Contains(letters, p[:1]) {
			t.Fatalf("%q", p)
		}
		first[p[0]] = true
	}
	if len(first) != len(letters) {
		t.Errorf("%d different first letters of %d", len(first), len(letters))
	}
}
