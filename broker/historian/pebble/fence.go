package pebble

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fencedFS is the file system of one generation. Until it is raised everything
// passes. Once raised, nothing the generation does reaches the disk any more:
// files it makes are kept in memory, writes to older ones are dropped, files it
// removes stay. To the disk this is a crash at that instant, which Pebble is built
// to survive; to the generation it is a disk that works, so that it can end its
// flushes and be closed.
//
// It raises itself at the first change the disk refuses, and Pebble never sees
// that error. Pebble would end the process over some (Fatalf, or a panic where no
// recover helps: a write-ahead log that cannot be made) and hang or spin over
// others. Whoever was told nothing yet must look at raised before he says that
// something is durable.
type fencedFS struct {
	vfs.FS
	raised  atomic.Bool
	refused func(error) // is told of the first refusal
	memory  *vfs.MemFS
}

func newFencedFS(fs vfs.FS, refused func(error)) *fencedFS {
	return &fencedFS{FS: fs, refused: refused, memory: vfs.NewMem()}
}

func (f *fencedFS) raise() { f.raised.Store(true) }

// up reports whether the fence is raised, raising it if err is a refusal.
func (f *fencedFS) up(err error) bool {
	if err != nil && !f.raised.Swap(true) {
		f.refused(err)
	}
	return f.raised.Load()
}

// change makes a change without a result.
func (f *fencedFS) change(make func() error) error {
	if f.raised.Load() {
		return nil
	}
	err := make()
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return err // what Pebble asks and not what the disk refuses
	}
	f.up(err)
	return nil
}

// file makes a file for writing.
func (f *fencedFS) file(name string, category vfs.DiskWriteCategory, make func() (vfs.File, error)) (vfs.File, error) {
	if !f.raised.Load() {
		file, err := make()
		if err == nil {
			return &fencedFile{File: file, fs: f}, nil
		}
		f.up(err)
	}
	if err := f.memory.MkdirAll(f.PathDir(name), 0o755); err != nil {
		return nil, err
	}
	return f.memory.Create(name, category)
}

func (f *fencedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(name, category, func() (vfs.File, error) { return f.FS.Create(name, category) })
}

func (f *fencedFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return f.file(name, category, func() (vfs.File, error) { return f.FS.OpenReadWrite(name, category, opts...) })
}

func (f *fencedFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return f.file(newname, category, func() (vfs.File, error) { return f.FS.ReuseForWrite(oldname, newname, category) })
}

func (f *fencedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.raised.Load() {
		if file, err := f.memory.Open(name, opts...); err == nil {
			return file, nil
		}
	}
	return f.opened(f.FS.Open(name, opts...))
}

func (f *fencedFS) OpenDir(name string) (vfs.File, error) { return f.opened(f.FS.OpenDir(name)) }

func (f *fencedFS) opened(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &fencedFile{File: file, fs: f}, nil
}

func (f *fencedFS) Link(oldname, newname string) error {
	return f.change(func() error { return f.FS.Link(oldname, newname) })
}

func (f *fencedFS) Remove(name string) error {
	return f.change(func() error { return f.FS.Remove(name) })
}

func (f *fencedFS) RemoveAll(name string) error {
	return f.change(func() error { return f.FS.RemoveAll(name) })
}

func (f *fencedFS) Rename(oldname, newname string) error {
	return f.change(func() error { return f.FS.Rename(oldname, newname) })
}

func (f *fencedFS) MkdirAll(dir string, perm os.FileMode) error {
	return f.change(func() error { return f.FS.MkdirAll(dir, perm) })
}

func (f *fencedFS) Lock(name string) (io.Closer, error) { return f.FS.Lock(name) }

func (f *fencedFS) Unwrap() vfs.FS { return f.FS }

// fencedFile is a file of the disk behind the fence.
type fencedFile struct {
	vfs.File
	fs *fencedFS
}

func (f *fencedFile) Write(p []byte) (int, error) {
	if f.fs.raised.Load() {
		return len(p), nil
	}
	n, err := f.File.Write(p)
	if f.fs.up(err) {
		return len(p), nil
	}
	return n, err
}

func (f *fencedFile) WriteAt(p []byte, offset int64) (int, error) {
	if f.fs.raised.Load() {
		return len(p), nil
	}
	n, err := f.File.WriteAt(p, offset)
	if f.fs.up(err) {
		return len(p), nil
	}
	return n, err
}

// Preallocate is a hint: what follows says whether there is room.
func (f *fencedFile) Preallocate(offset, length int64) error {
	if !f.fs.raised.Load() {
		_ = f.File.Preallocate(offset, length)
	}
	return nil
}

func (f *fencedFile) Sync() error { return f.fs.change(f.File.Sync) }

func (f *fencedFile) SyncData() error { return f.fs.change(f.File.SyncData) }

func (f *fencedFile) SyncTo(length int64) (fullSync bool, err error) {
	if f.fs.raised.Load() {
		return true, nil
	}
	fullSync, err = f.File.SyncTo(length)
	if f.fs.up(err) {
		return true, nil
	}
	return fullSync, err
}
