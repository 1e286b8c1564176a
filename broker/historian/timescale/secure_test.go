package timescale

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"maestrohub.io/uns/broker/historian"
)

func TestPasswordIsReadAnewAndTheServerVerified(t *testing.T) {
	t.Parallel()
	url := database(t, shared)
	exec(t, url, "DROP ROLE IF EXISTS secured; CREATE ROLE secured LOGIN PASSWORD 'sesame-1'")
	exec(t, url, `GRANT CREATE ON DATABASE "`+databaseName(t)+`" TO secured`)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, trusted, 0o600); err != nil {
		t.Fatal(err)
	}
	url = strings.Replace(url, "postgres@", "secured@", 1)
	url = strings.Replace(url, "sslmode=disable", "sslmode=verify-full&sslrootcert="+ca, 1)
	var password atomic.Value
	password.Store("sesame-0")
	h := open(t, url, Options{Password: func() (string, error) { return password.Load().(string), nil }})
	err := h.Check(t.Context())
	if !errors.Is(err, historian.ErrUnavailable) || strings.Contains(err.Error(), "sesame") {
		t.Fatalf("check with a wrong password: %v, want ErrUnavailable without the password", err)
	}
	password.Store("sesame-1")
	if err := h.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, h, at("a", time.Now(), "1"))
	s, err := h.session(t.Context(), h.writes)
	if err != nil {
		t.Fatal(err)
	}
	defer s.release()
	var encrypted bool
	if err := s.QueryRow(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&encrypted); err != nil || !encrypted {
		t.Errorf("encrypted: %v, %v", encrypted, err)
	}
}

func TestServerOfAnotherAuthorityIsRefused(t *testing.T) {
	t.Parallel()
	url := strings.Replace(database(t, shared), "sslmode=disable", "sslmode=verify-full", 1) // the system's authorities
	h := open(t, url, Options{})
	if err := h.Check(t.Context()); !errors.Is(err, historian.ErrUnavailable) {
		t.Errorf("check: %v, want ErrUnavailable", err)
	}
}
