package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// parseDuration reads "10s", "1h30m", "250ms", "7d", "1d12h" or "0". A bare number has no unit and is refused.
func parseDuration(s string) (time.Duration, error) {
	bad := errors.New(`must be a duration with a unit, such as "10s", "15m", "1h30m" or "7d"`)
	whole, rest, hasDays := strings.Cut(s, "d")
	if !hasDays {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, bad
		}
		return d, nil
	}
	days, err := strconv.ParseUint(whole, 10, 32)
	if err != nil || days > uint64(math.MaxInt64/day) {
		return 0, bad
	}
	total := time.Duration(days) * day
	if rest == "" {
		return total, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || total+d < total {
		return 0, bad
	}
	return total + d, nil
}

// formatDuration writes what parseDuration reads, without parts that are zero: "15m", "1h30m", "7d".
func formatDuration(d time.Duration) string {
	if d != 0 && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// byteUnits, largest first within its kind, so that formatting finds the largest that divides.
var byteUnits = [...]struct {
	name string
	size int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// parseBytes reads "256MiB", "256 MiB", "1.5 GiB", "64KB" or a plain number of bytes.
func parseBytes(s string) (int64, error) {
	bad := errors.New(`must be a size such as "64KiB", "256MiB" or "1GiB", or a number of bytes`)
	number, size := strings.TrimSpace(s), int64(1)
	for _, u := range byteUnits {
		if len(number) > len(u.name) && strings.EqualFold(number[len(number)-len(u.name):], u.name) {
			number, size = strings.TrimSpace(number[:len(number)-len(u.name)]), u.size
			break
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n < 0 || n > math.MaxInt64/size {
			return 0, bad
		}
		return n * size, nil
	}
	if strings.Trim(number, "0123456789.") != "" {
		return 0, bad
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f*float64(size) >= math.MaxInt64 || f*float64(size) != math.Trunc(f*float64(size)) {
		return 0, bad
	}
	return int64(f * float64(size)), nil
}

// formatBytes writes n in the largest binary unit that divides it: "256MiB", "8176KiB", "1000".
func formatBytes(n int64) string {
	for _, u := range byteUnits[:4] {
		if n != 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
