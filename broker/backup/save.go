package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"maestrohub.io/uns/broker/cluster"
	"maestrohub.io/uns/broker/state"
)

// SaveOptions say what to save.
type SaveOptions struct {
	// Dir is the backup's folder; it must not exist yet.
	Dir string
	// Logs: the session logs as well. Without them, sessions that were away miss what was
	// kept for them, which is in the historian.
	Logs bool
	// Release is that of the broker.
	Release string
}

// partial is the end of a backup's folder while it is taken.
const partial = ".partial"

// Save takes a backup. The replicas may serve meanwhile.
func (c *Client) Save(ctx context.Context, o SaveOptions) (*Manifest, error) {
	dir := filepath.Clean(o.Dir)
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("save a backup: %s exists already; a backup gets a folder of its own", dir)
	}
	m, err := c.save(ctx, dir+partial, o)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("save a backup: %w", err), os.RemoveAll(dir+partial))
	}
	if err := m.write(dir); err != nil {
		return nil, fmt.Errorf("save a backup: %w", err)
	}
	if err := os.Rename(dir+partial, dir); err != nil {
		return nil, fmt.Errorf("save a backup: %w", err)
	}
	return m, nil
}

func (c *Client) save(ctx context.Context, dir string, o SaveOptions) (*Manifest, error) {
	names, err := c.all(ctx, o.Logs)
	if err != nil {
		return nil, err
	}
	// What an attempt left that was killed.
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	m := &Manifest{Version: manifestVersion, Begun: time.Now().UTC(), Release: o.Release, Server: c.nc.ConnectedServerVersion()}
	for _, name := range names {
		taken := time.Now().UTC()
		err := c.snapshot(ctx, name, filepath.Join(dir, name))
		if isCode(err, codeNoStream) && strings.HasPrefix(name, state.LogStream) {
			continue // its workspace's last session ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		s, err := verify(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		s.Taken = taken
		m.Streams = append(m.Streams, s.Stream)
		if name == state.BucketStream+state.ClusterFloor {
			if m.Floor, err = floorOf(s.saved); err != nil {
				return nil, err
			}
		}
		c.say("saved %s: %d messages, sequences %d to %d, %d bytes", s.Name, s.Messages, s.First, s.Last, s.Bytes)
	}
	m.Ended = time.Now().UTC()
	return m, nil
}

// floorOf reads the format floor of a saved bucket; 0 if it has none.
func floorOf(s saved) (floor uint64, err error) {
	if strings.HasSuffix(s.data, tarFile) {
		return 0, nil
	}
	err = entries(s.data, func(e entry) error {
		f, err := cluster.DecodeFloor(e.body[e.header:])
		if err != nil {
			return fmt.Errorf("the format floor in the backup: %w", err)
		}
		floor = uint64(f.Format)
		return nil
	})
	return floor, err
}

// Prune deletes all but the newest keep finished backups of root, and what was left of
// unfinished ones. Backups are told by their manifests.
func Prune(root string, keep int) (deleted []string, err error) {
	manifests, err := filepath.Glob(filepath.Join(root, "*.json"))
	if err != nil {
		return nil, err
	}
	type dated struct {
		dir string
		at  time.Time
	}
	var all []dated
	for _, path := range manifests {
		dir := strings.TrimSuffix(path, ".json")
		m, err := readManifest(dir)
		if err != nil || m == nil {
			continue // not ours to judge
		}
		all = append(all, dated{dir, m.Begun})
	}
	slices.SortFunc(all, func(a, b dated) int { return b.at.Compare(a.at) })
	for _, d := range all[min(keep, len(all)):] {
		// The folder first: a manifest without one is deleted by the next run.
		if err := errors.Join(os.RemoveAll(d.dir), os.Remove(manifestOf(d.dir))); err != nil {
			return deleted, err
		}
		deleted = append(deleted, d.dir)
	}
	return deleted, nil
}

// Latest is the newest finished backup below root.
func Latest(root string) (string, error) {
	manifests, err := filepath.Glob(filepath.Join(root, "*.json"))
	if err != nil {
		return "", err
	}
	var latest string
	var at time.Time
	for _, path := range manifests {
		dir := strings.TrimSuffix(path, ".json")
		if m, err := readManifest(dir); err == nil && m != nil && m.Begun.After(at) {
			if _, err := os.Stat(dir); err == nil {
				latest, at = dir, m.Begun
			}
		}
	}
	if latest == "" {
		return "", fmt.Errorf("%s holds no finished backup", root)
	}
	return latest, nil
}
