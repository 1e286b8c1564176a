package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// The files of a stream's folder, as the nats command line names them.
const (
	metaFile    = "backup.json"
	archiveFile = "stream.arc.s2" // of servers from 2.15
	tarFile     = "stream.tar.s2" // of older ones
)

// chunkBytes is how much a message of a snapshot carries.
const chunkBytes = 128 << 10

// meta is backup.json.
type meta struct {
	Config json.RawMessage `json:"config"`
	State  json.RawMessage `json:"state"`
}

// snapshot saves one stream into a folder that is made for it.
func (c *Client) snapshot(ctx context.Context, stream, dir string) error {
	inbox := c.nc.NewRespInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1) // the server's window bounds it
	}
	if err != nil {
		return fmt.Errorf("save %s: %w", stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	var m meta
	// Consumers are left out: the broker keeps none.
	body := map[string]any{"deliver_subject": inbox, "no_consumers": true, "chunk_size": chunkBytes}
	if err := c.request(ctx, "$JS.API.STREAM.SNAPSHOT."+stream, body, &m); err != nil {
		return fmt.Errorf("save %s: %w", stream, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("save %s: %w", stream, err)
	}
	name := archiveFile
	if old(c.nc.ConnectedServerVersion()) {
		name = tarFile
	}
	if err := written(filepath.Join(dir, name), func(w io.Writer) error { return c.receive(ctx, sub, w) }); err != nil {
		return fmt.Errorf("save %s: %w", stream, err)
	}
	return written(filepath.Join(dir, metaFile), func(w io.Writer) error {
		text, err := json.MarshalIndent(m, "", "  ")
		if err == nil {
			_, err = w.Write(text)
		}
		return err
	})
}

// receive writes what the server sends until it says that this was all.
func (c *Client) receive(ctx context.Context, sub *nats.Subscription, w io.Writer) error {
	for {
		idle, cancel := context.WithTimeout(ctx, c.idle)
		m, err := sub.NextMsgWithContext(idle)
		cancel()
		if err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("NATS has sent nothing for %v", c.idle)
			}
			return err
		}
		if m.Reply != "" {
			// Before it is written: the server waits 2 s for it.
			if err := m.Respond(nil); err != nil {
				return err
			}
		}
		if len(m.Data) == 0 {
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				return fmt.Errorf("NATS gave up: %s %s", status, m.Header.Get("Description"))
			}
			return nil
		}
		if _, err := w.Write(m.Data); err != nil {
			return err
		}
	}
}

// old: a server before 2.15 sends another archive.
func old(version string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major < 2 || major == 2 && minor < 15
}

// written writes a file that is on the disk when it returns.
func written(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// upload gives a saved stream back to NATS, with as many copies as copies says; 0: as it was.
func (c *Client) upload(ctx context.Context, s saved, copies int) error {
	request := map[string]any{"state": s.meta.State, "config": s.meta.Config}
	if copies > 0 {
		var config map[string]json.RawMessage
		if err := json.Unmarshal(s.meta.Config, &config); err != nil {
			return err
		}
		config["num_replicas"] = json.RawMessage(fmt.Sprint(copies))
		request["config"] = config
	}
	var place struct {
		Subject string `json:"deliver_subject"`
	}
	if err := c.request(ctx, "$JS.API.STREAM.RESTORE."+s.stream, request, &place); err != nil {
		return err
	}
	f, err := os.Open(s.data)
	if err != nil {
		return err
	}
	defer f.Close()
	chunk := make([]byte, min(chunkBytes, c.nc.MaxPayload()))
	for {
		n, err := io.ReadFull(f, chunk)
		if n > 0 {
			if err := c.deliver(ctx, place.Subject, chunk[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	// The server makes the stream now, however long that takes.
	m, err := c.nc.RequestWithContext(ctx, place.Subject, nil)
	if err != nil {
		return err
	}
	return answer(m.Data, nil)
}

// deliver sends a piece of the archive, again while the servers do not know yet where it
// is to go.
func (c *Client) deliver(ctx context.Context, subject string, chunk []byte) error {
	ctx, cancel := context.WithTimeout(ctx, c.idle)
	defer cancel()
	for {
		m, err := c.nc.RequestWithContext(ctx, subject, chunk)
		if errors.Is(err, nats.ErrNoResponders) && wait(ctx, 100*time.Millisecond) == nil {
			continue
		}
		if err != nil {
			return err
		}
		if len(m.Data) == 0 {
			return nil
		}
		return answer(m.Data, nil)
	}
}
