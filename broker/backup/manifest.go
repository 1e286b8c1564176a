package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Manifest lies beside a backup, as <folder>.json. A backup that the nats command line
// made has none.
type Manifest struct {
	// Version of the manifest.
	Version int       `json:"manifest"`
	Begun   time.Time `json:"begun"`
	Ended   time.Time `json:"ended"`
	// Release of the broker's command that took it, and Server, of NATS.
	Release string `json:"release"`
	Server  string `json:"server"`
	// Formats that the records may be in: the floor when it was taken.
	Floor uint64 `json:"formatFloor"`
	// Streams in the order in which they were taken.
	Streams []Stream `json:"streams"`
}

// Stream is one saved stream.
type Stream struct {
	Name     string    `json:"name"`
	Taken    time.Time `json:"taken"`
	Messages uint64    `json:"messages"`
	First    uint64    `json:"firstSequence"`
	Last     uint64    `json:"lastSequence"`
	Archive  string    `json:"archive"` // in the stream's folder
	Bytes    int64     `json:"archiveBytes"`
	SHA256   string    `json:"archiveSha256"`
}

const manifestVersion = 1

// manifestOf is the file beside a backup's folder.
func manifestOf(dir string) string { return filepath.Clean(dir) + ".json" }

func (m *Manifest) write(dir string) error {
	return written(manifestOf(dir), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(m)
	})
}

// readManifest reads the manifest of a backup; nil if it has none.
func readManifest(dir string) (*Manifest, error) {
	text, err := os.ReadFile(manifestOf(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	m := new(Manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("read the manifest %s: %w", manifestOf(dir), err)
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("the manifest %s is of version %d, this release reads %d: use the release that took the backup, %s, or a later one", manifestOf(dir), m.Version, manifestVersion, m.Release)
	}
	return m, nil
}

// digest is the size and the SHA-256 of a file.
func digest(path string) (bytes int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	bytes, err = io.Copy(h, f)
	return bytes, hex.EncodeToString(h.Sum(nil)), err
}
