package deployment

import (
	"fmt"
	"net"
	"syscall"
	"testing"
)

// One local port may belong to several sockets, each to another address. Mistaken for
// one of another replica, a connection goes by a way that nobody has cut.
func TestSocketsThatShareAPortAreToldApart(t *testing.T) {
	reuse := net.Dialer{Control: func(_, _ string, c syscall.RawConn) (err error) {
		if e := c.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
		}); e != nil {
			return e
		}
		return err
	}}
	for range 4 { // whichever comes first in the table
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		c, err := reuse.DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		reuse.LocalAddr = c.LocalAddr()
		if got, want := socketOf(c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)), inode(t, c); got != want {
			t.Errorf("%v to %v is %s, want %s", c.LocalAddr(), c.RemoteAddr(), got, want)
		}
	}
}

func inode(t *testing.T, c net.Conn) string {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var stat syscall.Stat_t
	if e := raw.Control(func(fd uintptr) { err = syscall.Fstat(int(fd), &stat) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return fmt.Sprintf("socket:[%d]", stat.Ino)
}
