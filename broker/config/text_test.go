package config

import (
	"testing"
	"time"
)

func TestDurationsAreReadAndWrittenForPeople(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "10s": 10 * time.Second, "15m": 15 * time.Minute, "1h30m": 90 * time.Minute, "250ms": 250 * time.Millisecond,
		"7d": 7 * day, "1d12h": 36 * time.Hour, "1h": time.Hour, "1.5h": 90 * time.Minute,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q reads as %v (%v), want %v", text, got, err, want)
		}
		if back, err := parseDuration(formatDuration(want)); err != nil || back != want {
			t.Errorf("%v is written %s, which reads as %v (%v)", want, formatDuration(want), back, err)
		}
	}
	for want, d := range map[string]time.Duration{"15m": 15 * time.Minute, "1h": time.Hour, "1h30m": 90 * time.Minute, "1h0m5s": time.Hour + 5*time.Second, "30d": 30 * day, "0s": 0, "1m40s": 100 * time.Second} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
	for _, text := range []string{"", "10", "-", "d", "1d-1h", "1dx", "-1d", "99999999999d", "4294967295d", "106751d24h", "1 s", "ten"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is accepted as %v", text, got)
		}
	}
}

func TestSizesAreReadAndWrittenForPeople(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "65536": 65536, "64KiB": 65536, "256 MiB": 256 << 20, "256mib": 256 << 20, "1.5GiB": 3 << 29, "10GB": 10e9, "1TiB": 1 << 40, "512B": 512, "1kb": 1000,
	} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%q reads as %d (%v), want %d", text, got, err, want)
		}
		if back, err := parseBytes(formatBytes(want)); err != nil || back != want {
			t.Errorf("%d is written %s, which reads as %d (%v)", want, formatBytes(want), back, err)
		}
	}
	for _, text := range []string{"", "MiB", "B", "-1", "-1KiB", "1.5", "0.1KiB", "1e3", "99999999TiB", "9223372036854775808", "NaN", "Inf", "0x10", "1 Mi", "++1", "1..5KiB"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q is accepted as %d", text, got)
		}
	}
}

func TestDistanceCountsEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"same", "same", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
