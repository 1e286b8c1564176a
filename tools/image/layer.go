package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the numeric user and group the image runs as, so that Kubernetes'
// runAsNonRoot can check it.
const user = 65532

// file is one entry of a layer; a nil content is a directory.
type file struct {
	path    string // without a leading slash
	mode    int64
	owner   int
	content []byte
}

// pack makes a layer of files in the given order, every time stamp the same.
func pack(files []file, created time.Time) (v1.Layer, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range files {
		h := &tar.Header{
			Name: f.path, Mode: f.mode, Uid: f.owner, Gid: f.owner,
			ModTime: created, Format: tar.FormatPAX, Typeflag: tar.TypeReg, Size: int64(len(f.content)),
		}
		if f.content == nil {
			h.Typeflag, h.Name = tar.TypeDir, f.path+"/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.path, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack layer: %w", err)
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(buf.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("pack layer: %w", err)
	}
	return layer, nil
}

// baseFiles are what the program expects of a root file system.
func baseFiles(certificates []byte) []file {
	files := []file{
		{path: "etc", mode: 0o755},
		{path: "etc/passwd", mode: 0o644, content: fmt.Appendf(nil, "broker:x:%d:%d:broker:/var/lib/maestrohub:/sbin/nologin\n", user, user)},
		{path: "etc/group", mode: 0o644, content: fmt.Appendf(nil, "broker:x:%d:\n", user)},
		{path: "etc/maestrohub", mode: 0o755},
		{path: "tmp", mode: 0o1777},
		{path: "var", mode: 0o755},
		{path: "var/lib", mode: 0o755},
		{path: "var/lib/maestrohub", mode: 0o750, owner: user},
	}
	if certificates != nil {
		files = append(files,
			file{path: "etc/ssl", mode: 0o755},
			file{path: "etc/ssl/certs", mode: 0o755},
			file{path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: certificates})
	}
	return files
}
