package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"

	"maestrohub.io/uns/tools/localcluster/control"
	"maestrohub.io/uns/tools/localcluster/deployment"
)

// commands is the socket of a running cluster: one JSON array of words in, one
// answer out, one connection a command.
type commands struct{ net.Listener }

// longest is how many bytes a Unix socket's path may have on Linux.
const longest = 107

// listen takes the socket. One that nobody listens on any more is removed.
func listen(path string) (commands, error) {
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return commands{}, fmt.Errorf("a cluster runs already and listens on %s: end it with `down`, or give another --socket", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return commands{}, fmt.Errorf("take over %s: %w", path, err)
	}
	if n := len(path); n > longest {
		return commands{}, fmt.Errorf("--socket %s: %d bytes; the path of a Unix socket may have %d", path, n, longest)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return commands{}, fmt.Errorf("listen for commands: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return commands{}, fmt.Errorf("listen for commands: %w", err)
	}
	return commands{l}, nil
}

// serve carries out commands until ctx ends or one is down.
func (c commands) serve(ctx context.Context, d *deployment.Deployment) error {
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
	var a control.Answer
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
