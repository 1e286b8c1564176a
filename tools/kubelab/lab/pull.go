package lab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// PullFrom has nodes pull what is named after a registry (host:port) from it, over
// HTTP, and not from the lab's own, which stands in for every other. It holds from the
// next pull on, until the lab is down.
func (l *Lab) PullFrom(registry string) error {
	if _, _, err := net.SplitHostPort(registry); err != nil {
		return fmt.Errorf("have nodes pull from a registry: %w", err)
	}
	content, err := l.renderFor(registry, "hosts.toml", Node{})
	if err != nil {
		return err
	}
	folder := l.file("registries", registry)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("have nodes pull from %s: %w", registry, err)
	}
	return os.WriteFile(filepath.Join(folder, "hosts.toml"), content, 0o644)
}
