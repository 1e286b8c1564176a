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
	theirs, is := c.RemoteAddr().(*net.TCPAddr)
	ours, too := c.LocalAddr().(*net.TCPAddr)
	if !is || !too {
		return ""
	}
	socket := socketOf(theirs, ours)
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

// socketOf is the TCP socket from one address to another, as processes' open files name
// it. Both count: the kernel gives one port to several sockets that go to different
// addresses, so by its own alone it may be another's. The table has every socket of the
// machine: it is read once.
func socketOf(local, remote *net.TCPAddr) string {
	from, to := inTable(local), inTable(remote)
	table, err := os.ReadFile("/proc/self/net/tcp")
	if err != nil || from == nil || to == nil {
		return ""
	}
	for line := range bytes.Lines(table) {
		if !bytes.Contains(line, from) {
			continue
		}
		// sl local_address rem_address st queues timer retransmits uid timeout inode
		if f := bytes.Fields(line); len(f) > 9 && bytes.Equal(f[1], from) && bytes.Equal(f[2], to) {
			return "socket:[" + string(f[9]) + "]"
		}
	}
	return ""
}

// inTable is an IPv4 address as the kernel's table of sockets writes it; nil for others.
func inTable(a *net.TCPAddr) []byte {
	ip := a.IP.To4()
	if ip == nil {
		return nil
	}
	return fmt.Appendf(nil, "%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], a.Port)
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
