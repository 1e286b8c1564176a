package historian

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
)

func TestAnOutageTellsAnybodyWhatAndTheLogWhereAndWhy(t *testing.T) {
	cause := fmt.Errorf("open /data/history/000042.sst: %w\n<corruption detail carrier>\n", fs.ErrNotExist)
	err := fmt.Errorf("append: %w", &Outage{Words: "files are missing", Cause: cause})
	if !errors.Is(err, ErrUnavailable) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not what it wraps", err)
	}
	if got, want := err.Error(), "append: historian unavailable: files are missing"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	if got, want := Details(err), "append: historian unavailable: files are missing: open /data/history/000042.sst: file does not exist"; got != want {
		t.Errorf("logged %q, want %q", got, want)
	}
	var line bytes.Buffer
	slog.New(slog.NewTextHandler(&line, nil)).Warn("x", "error", errors.Unwrap(err))
	if !strings.Contains(line.String(), "000042.sst") || strings.Contains(line.String(), "carrier") {
		t.Errorf("logged %s", line.String())
	}
}
