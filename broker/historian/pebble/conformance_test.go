package pebble

import (
	"path/filepath"
	"testing"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/historian/historiantest"
)

func TestConformance(t *testing.T) {
	base := t.TempDir()
	historiantest.Run(t, func(t *testing.T, store string) historian.Historian {
		return open(t, filepath.Join(base, store), Options{})
	})
}

// open opens a store and ends the test on an error.
func open(t testing.TB, dir string, o Options) *Historian {
	t.Helper()
	h, err := Open(dir, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return h
}
