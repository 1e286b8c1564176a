package replica

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"maestrohub.io/uns/broker/config"
)

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const oneClient = "clients:\n  - {id: press, secret: correct horse battery staple, workspace: plant, scopes: ['uns:read']}\n"

func TestTheClientsFileIsSeededAndFollowed(t *testing.T) {
	dir := t.TempDir()
	c := ephemeral(filepath.Join(dir, "data"))
	c.ClientsFile = write(t, filepath.Join(dir, "clients.yaml"), oneClient)
	r := start(t, c)
	path := "/api/v1/uns/plant/history"
	if status, body := r.get(t, path, "press", "correct horse battery staple"); status != 200 {
		t.Fatalf("sign in as the seeded client: %d %s", status, body)
	}
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); !ok(); {
			if time.Now().After(deadline) {
				t.Fatalf("not within 20 s: %s\n%s", what, r.log.String())
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	// Replaced by a rename, as editors and ConfigMaps do.
	swap := func(text string) {
		t.Helper()
		next := write(t, filepath.Join(dir, "next"), text)
		if err := os.Rename(next, c.ClientsFile); err != nil {
			t.Fatal(err)
		}
	}
	swap("clients: nonsense\n")
	eventually("a wrong file is reported", func() bool { return strings.Contains(r.log.String(), "clients file not taken") })
	if status, _ := r.get(t, path, "press", "correct horse battery staple"); status != 200 {
		t.Errorf("after a wrong file: %d, want what was there to stay", status)
	}
	swap(oneClient + "  - {id: drill, secret: another horse entirely here, workspace: plant, scopes: ['uns:read']}\n")
	eventually("a new client in the file is there", func() bool {
		_, err := r.Access().Get(t.Context(), "drill")
		return err == nil
	})
}

func TestAStartThatCannotBeNamesWhyAndLeavesNothingOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	bad := write(t, filepath.Join(dir, "bad.yaml"), "nonsense: [1\n")
	file := write(t, filepath.Join(dir, "file"), "")
	cases := map[string]struct {
		change func(*config.Config)
		word   string
	}{
		"clients file wrong":   {func(c *config.Config) { c.ClientsFile = bad }, bad},
		"clients file missing": {func(c *config.Config) { c.ClientsFile = filepath.Join(dir, "none.yaml") }, "none.yaml"},
		"model wrong":          {func(c *config.Config) { c.ModelFile = bad }, "bad.yaml"},
		"certificate missing":  {func(c *config.Config) { c.Broker.TLS.CertFile, c.Broker.TLS.KeyFile = file, file }, "embeddedBroker.tls"},
		"MQTT port taken":      {func(c *config.Config) { c.Broker.TCPListen = taken.Addr().String() }, taken.Addr().String()},
		"HTTP port taken":      {func(c *config.Config) { c.HTTP.Listen = taken.Addr().String() }, taken.Addr().String()},
		"data directory":       {func(c *config.Config) { c.DataDir = file }, file},
	}
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			c := ephemeral(filepath.Join(t.TempDir(), "data"))
			k.change(c)
			log := &lockedBuffer{}
			r, err := New(t.Context(), c, NewLogger(log, c.Log), "test")
			if err == nil {
				err = r.Run(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), k.word) {
				t.Fatalf("error %v, want one that names %s", err, k.word)
			}
			if c.DataDir != file { // and what it had opened is free for the next start
				start(t, ephemeral(c.DataDir))
			}
		})
	}
}

func TestCheckFilesListsEverythingThatIsWrong(t *testing.T) {
	dir := t.TempDir()
	c := ephemeral(dir)
	if err := CheckFiles(c); err != nil {
		t.Errorf("without files: %v", err)
	}
	c.ClientsFile = write(t, filepath.Join(dir, "clients.yaml"), oneClient)
	if err := CheckFiles(c); err != nil {
		t.Errorf("good clients file: %v", err)
	}
	c.ClientsFile = write(t, filepath.Join(dir, "bad.yaml"), "clients: 7\n")
	c.ModelFile = filepath.Join(dir, "model.yaml")
	c.HTTP.TLS.CertFile, c.HTTP.TLS.KeyFile = c.ClientsFile, c.ClientsFile
	err := CheckFiles(c)
	for _, want := range []string{"bad.yaml", "model.yaml", "modules.uns.http.tls"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s named", err, want)
		}
	}
}
