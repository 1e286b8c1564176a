package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"maestrohub.io/uns/broker/state"
)

// saved is the folder of one stream.
type saved struct {
	stream string
	data   string // path of the archive
	meta   meta
	state  streamState
}

// read looks at a stream's folder, the archive's contents left out.
func read(dir string) (s saved, err error) {
	text, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err != nil {
		return s, fmt.Errorf("%s is no backup of a stream: %w", dir, err)
	}
	var config struct {
		Name string `json:"name"`
	}
	if len(text) == 0 {
		err = errCut
	} else if err = json.Unmarshal(text, &s.meta); err == nil {
		err = errors.Join(json.Unmarshal(s.meta.Config, &config), json.Unmarshal(s.meta.State, &s.state))
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", filepath.Join(dir, metaFile), err)
	}
	s.stream = config.Name
	for _, name := range []string{archiveFile, tarFile} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			if s.data != "" {
				return s, fmt.Errorf("%s holds both %s and %s: only one is of this backup", dir, archiveFile, tarFile)
			}
			s.data = path
		}
	}
	if s.data == "" {
		return s, fmt.Errorf("%s has neither %s nor %s", dir, archiveFile, tarFile)
	}
	return s, nil
}

// checked is a stream that was read from end to end.
type checked struct {
	saved
	Stream
}

// verify reads a stream's archive from end to end and compares it with what the server
// said it held.
func verify(dir string) (checked, error) {
	s, err := read(dir)
	if err != nil {
		return checked{}, err
	}
	out := checked{s, Stream{Name: s.stream, First: s.state.First, Last: s.state.Last, Archive: filepath.Base(s.data)}}
	if err := entries(s.data, func(entry) error { out.Messages++; return nil }); err != nil {
		return out, fmt.Errorf("%s: %w", s.data, err)
	}
	if strings.HasSuffix(s.data, tarFile) {
		out.Messages = s.state.Messages
	}
	// Some may have expired between the answer and the snapshot; none can be added.
	if out.Messages > s.state.Messages {
		return out, fmt.Errorf("%s holds %d messages, of %d that the server had", s.data, out.Messages, s.state.Messages)
	}
	if out.Bytes, out.SHA256, err = digest(s.data); err != nil {
		return out, fmt.Errorf("%s: %w", s.data, err)
	}
	return out, nil
}

// Report is what Check found.
type Report struct {
	Dir string
	// Manifest is nil if the nats command line made the backup.
	Manifest *Manifest
	Streams  []Stream
	// Missing says what a restore of it would lose; empty: nothing.
	Missing []string
	folders []checked
}

// Check reads a backup from end to end. Everything that is wrong with it is in the error.
func Check(dir string) (*Report, error) {
	r := &Report{Dir: filepath.Clean(dir)}
	m, err := readManifest(dir)
	if err != nil {
		return nil, fmt.Errorf("check the backup %s: %w", dir, err)
	}
	r.Manifest = m
	folders, err := os.ReadDir(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("there is no such folder")
		}
		return nil, fmt.Errorf("check the backup %s: %w", dir, err)
	}
	var wrong []error
	var others []string
	for _, f := range folders {
		if !f.IsDir() {
			continue
		}
		s, err := verify(filepath.Join(dir, f.Name()))
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		if !ours(s.Name) {
			others = append(others, s.Name)
			continue
		}
		r.folders, r.Streams = append(r.folders, s), append(r.Streams, s.Stream)
	}
	if m != nil {
		wrong = append(wrong, compare(m, r.Streams)...)
	}
	if len(r.Streams) == 0 && len(wrong) == 0 {
		wrong = append(wrong, fmt.Errorf("it holds none of the broker's streams: %s", listed(others)))
	}
	for _, b := range buckets {
		name := state.BucketStream + b.name
		if !b.optional && !slices.ContainsFunc(r.Streams, func(s Stream) bool { return s.Name == name }) {
			r.Missing = append(r.Missing, fmt.Sprintf("%s: %s", name, b.loses))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, fmt.Errorf("check the backup %s: %w", dir, err)
	}
	return r, nil
}

// compare holds what is there to the manifest.
func compare(m *Manifest, there []Stream) (wrong []error) {
	for _, want := range m.Streams {
		i := slices.IndexFunc(there, func(s Stream) bool { return s.Name == want.Name })
		switch {
		case i < 0:
			wrong = append(wrong, fmt.Errorf("%s is in the manifest and not there", want.Name))
		case there[i].SHA256 != want.SHA256:
			wrong = append(wrong, fmt.Errorf("%s has changed since it was taken: its archive's SHA-256 is %s, the manifest has %s", want.Name, there[i].SHA256, want.SHA256))
		}
	}
	return wrong
}
