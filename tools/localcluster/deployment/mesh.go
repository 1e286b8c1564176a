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
	socket := socketAt(remote)
	if socket == "" {
		return ""
	}
	for _, r := range d.Replicas {
		if r.Alive() && holds(r.Process().PID(), socket) {
			return r.ID
		}
	}
	return ""
}

// socketAt is the TCP socket with this local address, as processes' open files name it.
// The table has every socket of the machine: it is read once.
func socketAt(local *net.TCPAddr) string {
	ip := local.IP.To4()
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil || ip == nil {
		return ""
	}
	address := fmt.Appendf(nil, " %02X%02X%02X%02X:%04X ", ip[3], ip[2], ip[1], ip[0], local.Port)
	for line := range bytes.Lines(table) {
		if !bytes.Contains(line, address) {
			continue
		}
		// sl local_address rem_address st queues timer retransmits uid timeout inode
		if f := bytes.Fields(line); len(f) > 9 && bytes.Equal(f[1], bytes.TrimSpace(address)) {
			return "socket:[" + string(f[9]) + "]"
		}
	}
	return ""
}

// holds reports whether a process has a socket open.
func holds(pid int, socket string) bool {
	files, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "fd/*"))
	if err != nil {
		return false
	}
	for _, file := range files {
		if to, err := os.Readlink(file); err == nil && to == socket {
			return true
		}
	}
	return false
}
