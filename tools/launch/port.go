package launch

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// The ports Reserve hands out: below the range the kernel takes the local ports
// of outgoing connections from (32768 up, ip_local_port_range), above the well
// known ones.
const (
	firstPort = 20000
	lastPort  = 32000
)

// Reserve returns n free loopback TCP ports that no other caller of Reserve on
// this machine gets while this process lives.
func Reserve(n int) ([]int, error) {
	dir := filepath.Join(os.TempDir(), "loopback-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("reserve ports: %w", err)
	}
	var ports []int
	for range 10 * (lastPort - firstPort) {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if !lock(filepath.Join(dir, strconv.Itoa(port))) {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue // someone who does not ask Reserve has it
		}
		l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("reserve %d ports: none free in %d to %d", n, firstPort, lastPort)
}

// lock takes a lock file for the rest of the process's life. The file stays
// open on purpose: the kernel lets go of the lock when the process ends.
func lock(path string) bool {
	fd, err := syscall.Open(path, syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o666)
	if err != nil {
		return false
	}
	if syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		syscall.Close(fd)
		return false
	}
	return true
}
