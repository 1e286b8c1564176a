package deployment

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// Link is the way between two replicas, whichever of them dials.
func (d *Deployment) Link(i, j int) Way {
	a, b := d.Replicas[i], d.Replicas[j]
	if d.options.Direct {
		return nil
	}
	return Way{b.entrance.Of(a.ID), a.entrance.Of(b.ID)}
}

// Mesh is every way between replicas.
func (d *Deployment) Mesh() (w Way) {
	for j := range d.Replicas {
		for i := range j {
			w = append(w, d.Link(i, j)...)
		}
	}
	return w
}

// link gives each replica its links.
func (d *Deployment) link() {
	for i, r := range d.Replicas {
		for j := range d.Replicas {
			if i != j {
				r.Mesh = append(r.Mesh, d.Link(i, j)...)
			}
		}
	}
}

// dialer says which replica a connection is from, "" if it has gone already: the one
// whose process has the socket at its other end. Replicas advertise one address to all
// others, so nothing else tells them apart.
func (d *Deployment) dialer(c net.Conn) string {
	remote, is := c.RemoteAddr().(*net.TCPAddr)
	if !is {
		return ""
	}
	for _, r := range d.Replicas {
		if r.Alive() && holds(r.Process().PID(), remote) {
			return r.ID
		}
	}
	return ""
}

// holds reports whether a process has the TCP socket with this local address.
func holds(pid int, local *net.TCPAddr) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	table, err := os.ReadFile(filepath.Join(dir, "net/tcp"))
	if err != nil {
		return false
	}
	ip := local.IP.To4()
	if ip == nil {
		return false
	}
	address := fmt.Appendf(nil, "%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], local.Port)
	for line := range bytes.Lines(table) {
		// sl local_address rem_address st queues timer retransmits uid timeout inode
		f := bytes.Fields(line)
		if len(f) < 10 || !bytes.Equal(f[1], address) {
			continue
		}
		socket := "socket:[" + string(f[9]) + "]"
		files, err := filepath.Glob(filepath.Join(dir, "fd/*"))
		if err != nil {
			return false
		}
		for _, file := range files {
			if to, err := os.Readlink(file); err == nil && to == socket {
				return true
			}
		}
	}
	return false
}
