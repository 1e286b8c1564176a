package pebble

import (
	"math/rand/v2"
	"os"
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

// incompressible returns size bytes that no compression makes smaller.
func incompressible(seed, size int) []byte {
	random := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24), byte(seed >> 32)})
	data := make([]byte, size)
	_, _ = random.Read(data)
	return data
}
