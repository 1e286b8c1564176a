package control

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestWhoCannotReachAClusterIsToldWhatToDo(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	if _, err := Ask(t.Context(), none, "status"); err == nil || !strings.Contains(err.Error(), "no local cluster listens on "+none) || !strings.Contains(err.Error(), "`make cluster`") {
		t.Errorf("nobody listens: %v", err)
	}
	other := filepath.Join(filepath.Dir(none), "localcluster-7.sock")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(t.Context(), none, "status"); err == nil || !strings.Contains(err.Error(), "there is "+other+", which its owner and root can use (localcluster --socket=, drill --cluster=)") {
		t.Errorf("another user's cluster beside: %v", err)
	}
	denied := &net.OpError{Op: "dial", Err: syscall.EACCES}
	if err := unreachable("its.sock", denied); !strings.HasPrefix(err.Error(), "the local cluster on its.sock is another user's: be that user or root") {
		t.Errorf("another user's: %v", err)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Ask(interrupted, none, "status"); err == nil || strings.Contains(err.Error(), "make cluster") {
		t.Errorf("interrupted: %v, want nothing about a cluster that is not there", err)
	}
}
