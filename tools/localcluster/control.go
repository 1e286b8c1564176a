package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"maestrohub.io/uns/tools/localcluster/deployment"
)

// answer is what a command is told.
type answer struct {
	Text  string `json:"text,omitempty"`
	Error string `json:"error,omitempty"`
}

// control is the socket of a running cluster: one JSON array of words in, one
// answer out, one connection a command.
type control struct{ net.Listener }

// listen takes the socket. One that nobody listens on any more is removed.
func listen(path string) (control, error) {
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return control{}, fmt.Errorf("a cluster runs already and listens on %s: end it with `down`, or give another --socket", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return control{}, fmt.Errorf("take over %s: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return control{}, fmt.Errorf("listen for commands: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return control{}, fmt.Errorf("listen for commands: %w", err)
	}
	return control{l}, nil
}

// serve carries out commands until ctx ends or one is down.
func (c control) serve(ctx context.Context, d *deployment.Deployment) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { c.Close() })
	for {
		conn, err := c.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("listen for commands: %w", err)
		}
		// Commands may wait long, for a start; others go on beside them.
		go func() {
			defer conn.Close()
			if carryOut(ctx, conn, d) {
				cancel()
			}
		}()
	}
}

// carryOut does what one connection asks, and reports whether that is to end.
func carryOut(ctx context.Context, conn net.Conn, d *deployment.Deployment) (down bool) {
	var words []string
	if err := json.NewDecoder(conn).Decode(&words); err != nil || len(words) == 0 {
		return false // somebody who only looked whether anybody is there
	}
	words = append(words, "", "")
	var a answer
	if down = words[0] == "down"; down {
		a.Text = "ending"
	} else if words[0] == "place" {
		text, err := json.Marshal(placeOf(d))
		a.Text = string(text)
		if err != nil {
			a.Error = err.Error()
		}
	} else {
		fmt.Println("command:", words[0], words[1], words[2])
		text, err := d.Do(ctx, words[0], words[1], words[2])
		a.Text = text
		if err != nil {
			a.Error = err.Error()
		}
	}
	_ = json.NewEncoder(conn).Encode(a) // the asker may have left
	return down
}

// others names the sockets of other users' clusters: each user has its own.
func others(path string) string {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "localcluster-*.sock")) // the pattern is well-formed
	found = slices.DeleteFunc(found, func(f string) bool { return f == path })
	if len(found) == 0 {
		return ""
	}
	return ", which is this user's; there is " + strings.Join(found, ", ") + ", which its owner and root can use (--socket)"
}

// ask has a running cluster carry out a command.
func ask(ctx context.Context, path string, words []string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return "", fmt.Errorf("no cluster listens on %s%s: start one with `up` (%w)", path, others(path), err)
	}
	defer conn.Close()
	context.AfterFunc(ctx, func() { conn.Close() })
	if err := json.NewEncoder(conn).Encode(words); err != nil {
		return "", fmt.Errorf("send the command: %w", err)
	}
	var a answer
	if err := json.NewDecoder(conn).Decode(&a); err != nil {
		return "", fmt.Errorf("the cluster ended before it answered: %w", err)
	}
	if a.Error != "" {
		return a.Text, errors.New(a.Error)
	}
	return a.Text, nil
}
