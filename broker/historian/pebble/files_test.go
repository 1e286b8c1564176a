package pebble

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// editFile changes a file in place.
func editFile(t *testing.T, name string, change func([]byte)) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	change(data)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// restore replaces the files of a directory by a copy of another's.
func restore(t *testing.T, from, to string) {
	t.Helper()
	for _, dir := range []string{to, from} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name := filepath.Join(to, e.Name())
			if dir == to {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
				continue
			}
			data, err := os.ReadFile(filepath.Join(from, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// incompressible returns size bytes that no compression makes smaller.
func incompressible(seed, size int) []byte {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24), byte(seed >> 32)})
	data := make([]byte, size)
	_, _ = random.Read(data)
	return data
}
