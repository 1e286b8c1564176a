package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// floor is what the disk under the broker's data takes for the least a durable
// acknowledgment can do: append a value to a file and fdatasync it, one at a time.
type floor struct {
	P50, P99 time.Duration
}

const (
	floorWrites = 500
	floorBytes  = 280 // a value of 256 bytes with its key
)

func measureFloor(dir string) (floor, error) {
	f, err := os.Create(filepath.Join(dir, "floor"))
	if err != nil {
		return floor{}, fmt.Errorf("measure fdatasync: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	h := hdrhistogram.New(1, int64(time.Minute), 3)
	record := make([]byte, floorBytes)
	for i := range floorWrites {
		began := time.Now()
		if _, err := f.Write(record); err != nil {
			return floor{}, fmt.Errorf("measure fdatasync: %w", err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return floor{}, fmt.Errorf("measure fdatasync: %w", err)
		}
		if i >= floorWrites/10 { // the file's first blocks cost more
			_ = h.RecordValue(min(int64(time.Since(began)), h.HighestTrackableValue()))
		}
	}
	return floor{time.Duration(h.ValueAtQuantile(50)), time.Duration(h.ValueAtQuantile(99))}, nil
}
