package pebble

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"maestrohub.io/uns/broker/historian"
	"maestrohub.io/uns/broker/value"
)

// mount mounts a tmpfs of the given size, in bytes or as tmpfs takes it.
func mount(t *testing.T, size string, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, "size="+size); err != nil {
		t.Fatalf("mount a tmpfs of %s (needs root): %v", size, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

func TestRealFullDiskIsReportedAndRecoveredWithoutARestart(t *testing.T) {
	for name, sudden := range map[string]bool{"filled by its own values": false, "filled by others": true} {
		t.Run(name, func(t *testing.T) {
			dir := mount(t, "48m", 0)
			ballast := filepath.Join(dir, "ballast")
			if err := os.WriteFile(ballast, make([]byte, 16<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			h := open(t, filepath.Join(dir, "history"), Options{Logger: quiet()})
			defer func() { _ = h.Close() }()
			var sent []*value.Value
			var err error
			other := filepath.Join(dir, "other")
			for n := 0; err == nil; n++ {
				if n == 20 && sudden {
					fill(t, other)
				}
				batch := crashBatch(0, n)
				for _, v := range batch {
					// Does not compress.
					v.Body = incompressible(int(v.Timestamp), 32<<10)
				}
				if err = h.Append(t.Context(), batch); err == nil {
					sent = append(sent, batch...)
				}
			}
			if !errors.Is(err, historian.ErrUnavailable) || !strings.Contains(err.Error(), "is full") {
				t.Fatalf("append to a full disk: %v, want ErrUnavailable that says so", err)
			}
			waitFor(t, "check says so", func() bool { return errors.Is(h.Check(t.Context()), historian.ErrUnavailable) })
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(other)
			waitWritable(t, h)
			mustAppend(t, h, crashBatch(1, 0)...)
			for range 2 { // now, and after a restart
				if rows := readAll(t, h, "sender/0"); len(rows) < len(sent) {
					t.Fatalf("%d values were acknowledged, %d rows are there", len(sent), len(rows))
				}
				if err := h.Close(); err != nil {
					t.Fatalf("close: %v", err)
				}
				h = open(t, filepath.Join(dir, "history"), Options{})
			}
		})
	}
}

// fill writes a file until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for size := 1 << 20; size >= 4096; {
		if _, err := file.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadOnlyDiskIsReportedAndRecoveredWithoutARestart(t *testing.T) {
	dir := mount(t, "64m", unix.MS_RDONLY)
	h := open(t, filepath.Join(dir, "history"), Options{Logger: quiet()})
	defer func() { _ = h.Close() }()
	err := h.Append(t.Context(), crashBatch(0, 0))
	if !errors.Is(err, historian.ErrUnavailable) || !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "cannot be written") {
		t.Fatalf("append to a read-only disk: %v, want ErrUnavailable that says so", err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	waitWritable(t, h)
	mustAppend(t, h, crashBatch(0, 0)...)
}

// exchange swaps two directories at one instant.
func exchange(t *testing.T, a, b string) {
	t.Helper()
	if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
		t.Fatalf("exchange %s and %s: %v", a, b, err)
	}
}
