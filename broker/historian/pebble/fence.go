package pebble

import (
	"io"
	"os"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fencedFS is the file system of one generation. Until it is raised everything
// passes. Once raised, nothing the generation does reaches the disk any more:
// files it makes are kept in memory, writes to older ones are dropped, files it
// removes stay. To the disk this is a crash at that instant, which Pebble is built
// to survive; to the generation it is a disk that works, so that it can end its
// flushes and be closed instead of hanging in them.
//
// It is needed because Pebble treats some errors as the end of the process: what
// it does after Fatalf returns must not harm the files the next generation opens.
type fencedFS struct {
	vfs.FS
	raised atomic.Bool
	memory *vfs.MemFS
}

func newFencedFS(fs vfs.FS) *fencedFS { return &fencedFS{FS: fs, memory: vfs.NewMem()} }

func (f *fencedFS) raise() { f.raised.Store(true) }

func (f *fencedFS) wrap(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &fencedFile{File: file, fs: f}, nil
}

func (f *fencedFS) create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.memory.MkdirAll(f.PathDir(name), 0o755); err != nil {
		return nil, err
	}
	return f.memory.Create(name, category)
}

func (f *fencedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.raised.Load() {
		return f.create(name, category)
	}
	return f.wrap(f.FS.Create(name, category))
}

func (f *fencedFS) Link(oldname, newname string) error {
	if f.raised.Load() {
		return nil
	}
	return f.FS.Link(oldname, newname)
}

func (f *fencedFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.raised.Load() {
		if file, err := f.memory.Open(name, opts...); err == nil {
			return file, nil
		}
	}
	return f.wrap(f.FS.Open(name, opts...))
}

func (f *fencedFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if f.raised.Load() {
		return f.create(name, category)
	}
	return f.wrap(f.FS.OpenReadWrite(name, category, opts...))
}

func (f *fencedFS) OpenDir(name string) (vfs.File, error) {
	return f.wrap(f.FS.OpenDir(name))
}

func (f *fencedFS) Remove(name string) error {
	if f.raised.Load() {
		return nil
	}
	return f.FS.Remove(name)
}

func (f *fencedFS) RemoveAll(name string) error {
	if f.raised.Load() {
		return nil
	}
	return f.FS.RemoveAll(name)
}

func (f *fencedFS) Rename(oldname, newname string) error {
	if f.raised.Load() {
		return nil
	}
	return f.FS.Rename(oldname, newname)
}

func (f *fencedFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if f.raised.Load() {
		return f.create(newname, category)
	}
	return f.wrap(f.FS.ReuseForWrite(oldname, newname, category))
}

func (f *fencedFS) MkdirAll(dir string, perm os.FileMode) error {
	if f.raised.Load() {
		return nil
	}
	return f.FS.MkdirAll(dir, perm)
}

func (f *fencedFS) Lock(name string) (io.Closer, error) { return f.FS.Lock(name) }

func (f *fencedFS) Unwrap() vfs.FS { return f.FS }

// fencedFile drops writes once the fence is raised.
type fencedFile struct {
	vfs.File
	fs *fencedFS
}

func (f *fencedFile) Write(p []byte) (int, error) {
	if f.fs.raised.Load() {
		return len(p), nil
	}
	return f.File.Write(p)
}

func (f *fencedFile) WriteAt(p []byte, offset int64) (int, error) {
	if f.fs.raised.Load() {
		return len(p), nil
	}
	return f.File.WriteAt(p, offset)
}

func (f *fencedFile) Preallocate(offset, length int64) error {
	if f.fs.raised.Load() {
		return nil
	}
	return f.File.Preallocate(offset, length)
}

func (f *fencedFile) Sync() error {
	if f.fs.raised.Load() {
		return nil
	}
	return f.File.Sync()
}

func (f *fencedFile) SyncTo(length int64) (bool, error) {
	if f.fs.raised.Load() {
		return true, nil
	}
	return f.File.SyncTo(length)
}

func (f *fencedFile) SyncData() error {
	if f.fs.raised.Load() {
		return nil
	}
	return f.File.SyncData()
}
