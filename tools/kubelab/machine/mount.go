package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
)

// Unmount unmounts everything below a folder and makes sure that nothing is left, so
// that the folder can be deleted without reaching into somebody's files.
func Unmount(dir string) error {
	points, err := mounts(dir)
	if err != nil {
		return err
	}
	var errs []error
	for i := len(points) - 1; i >= 0; i-- { // what is mounted in another first
		if err := syscall.Unmount(points[i], syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", points[i], err))
		}
	}
	if points, err = mounts(dir); err == nil && len(points) > 0 {
		err = fmt.Errorf("still mounted: %s", strings.Join(points, ", "))
	}
	return errors.Join(append(errs, err)...)
}

// mounts lists the mount points below a folder, parents before children.
func mounts(dir string) ([]string, error) {
	content, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	return below(string(content), filepath.Clean(dir)), nil
}

// below picks the mount points below a folder from the text of /proc/self/mounts.
func below(table, dir string) (points []string) {
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for _, line := range strings.Split(table, "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if point := unescape.Replace(fields[1]); strings.HasPrefix(point, dir+"/") {
			points = append(points, point)
		}
	}
	// In the table's order a mount comes after what it was mounted on, but not always
	// after a longer path; sorting by path alone loses the order of two on one point,
	// where either order will do.
	sort.Strings(points)
	return points
}
