package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Socket is where commands find the cluster of this user.
func Socket() string {
	return filepath.Join(os.TempDir(), "localcluster-"+strconv.Itoa(os.Getuid())+".sock")
}

// Answer is what a command is told.
type Answer struct {
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

// Place is what a device must know of a running cluster.
type Place struct {
	MQTT      string   `json:"mqtt"` // of all replicas
	HTTP      []string `json:"http"` // of each
	NATS      []string `json:"nats"` // what each server says of itself, over HTTP
	Client    string   `json:"client"`
	Secret    string   `json:"secret"`
	Workspace string   `json:"workspace"`
}

// Ask has the cluster that listens on a socket carry out a command.
func Ask(ctx context.Context, socket string, words ...string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", unreachable(socket, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := json.NewEncoder(conn).Encode(words); err != nil {
		return "", fmt.Errorf("send the command: %w", err)
	}
	var a Answer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fmt.Errorf("the cluster ended before it answered: %w", err)
	}
	if a.Error != "" {
		return a.Text, errors.New(a.Error)
	}
	return a.Text, nil
}

// unreachable says why nobody answers on a socket, and what to do.
func unreachable(socket string, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("the local cluster on %s is another user's: be that user or root, or start your own with `make cluster` (%w)", socket, err)
	}
	return fmt.Errorf("no local cluster listens on %s: start one with `make cluster`%s (%w)", socket, others(socket), err)
}

// Find asks where the cluster is.
func Find(ctx context.Context, socket string) (p Place, err error) {
	text, err := Ask(ctx, socket, "place")
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("where the cluster on %s is: %w", socket, err)
	}
	return p, nil
}

// others names the sockets of other users' clusters: each user has its own.
func others(path string) string {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "localcluster-*.sock")) // the pattern is well-formed
	found = slices.DeleteFunc(found, func(f string) bool { return f == path })
	if len(found) == 0 {
		return ""
	}
	return "; there is " + strings.Join(found, ", ") + ", which its owner and root can use (localcluster --socket=, drill --cluster=)"
}
