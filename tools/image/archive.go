package main

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeLayout writes the index as an OCI layout, replacing what is at dir.
func writeLayout(dir string, index v1.ImageIndex, o options) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	names := map[string]string{
		"org.opencontainers.image.ref.name": o.Reference,
		"io.containerd.image.name":          o.Reference,
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return fmt.Errorf("write layout: %w", err)
	}
	return nil
}

// writeArchive writes the index as an OCI archive: a layout in a tar file. The
// file appears under its name only when it is whole.
func writeArchive(archive string, index v1.ImageIndex, o options) error {
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(archive), ".layout-")
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	defer os.RemoveAll(dir)
	if err := writeLayout(dir, index, o); err != nil {
		return err
	}
	partial := dir + ".tar"
	defer os.Remove(partial)
	if err := packFolder(partial, dir, o); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	if err := os.Rename(partial, archive); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

// packFolder writes dir's files as a tar, in the order of their names.
func packFolder(archive, dir string, o options) (err error) {
	out, err := os.Create(archive)
	if err != nil {
		return err
	}
	defer func() {
		if e := out.Close(); err == nil {
			err = e
		}
	}()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: o.Created})
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: info.Size(), ModTime: o.Created}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = io.Copy(w, in)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
