package listener

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/pires/go-proxyproto"
)

const (
	longestProxyV1   = 107  // bytes of a version 1 header, by its definition
	longestProxyBody = 4096 // bytes after a version 2 header's first 16: addresses and TLVs
)

// readProxyHeader reads the PROXY protocol header, version 1 or 2, that opens nc, and nothing beyond it.
// The address is the device's; invalid when the proxy speaks for itself (LOCAL, a health check) or does
// not know it (UNKNOWN).
func readProxyHeader(nc net.Conn) (netip.Addr, error) {
	raw, err := proxyHeader(nc)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read PROXY header from %s: %w", nc.RemoteAddr(), err)
	}
	h, err := proxyproto.Read(bufio.NewReaderSize(bytes.NewReader(raw), len(raw)))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read PROXY header from %s: %w", nc.RemoteAddr(), err)
	}
	a, ok := h.SourceAddr.(*net.TCPAddr)
	if !ok || h.Command.IsLocal() {
		return netip.Addr{}, nil
	}
	addr, _ := netip.AddrFromSlice(a.IP)
	return addr.Unmap(), nil
}

// proxyHeader takes the bytes of one header off r, exactly: what follows stays in the socket, where the
// handler waits for it.
func proxyHeader(r io.Reader) ([]byte, error) {
	header := make([]byte, len(proxyproto.SIGV2), longestProxyV1) // a version 1 header is longer than this, too
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, err
	}
	switch {
	case bytes.Equal(header, proxyproto.SIGV2):
		rest := [4]byte{}
		if _, err := io.ReadFull(r, rest[:]); err != nil {
			return nil, err
		}
		length := int(binary.BigEndian.Uint16(rest[2:]))
		if length > longestProxyBody {
			return nil, fmt.Errorf("it claims %d bytes, at most %d are read", length, longestProxyBody)
		}
		header = append(append(header, rest[:]...), make([]byte, length)...)
		_, err := io.ReadFull(r, header[len(header)-length:])
		return header, err
	case bytes.HasPrefix(header, proxyproto.SIGV1):
		for header[len(header)-1] != '\n' {
			if len(header) == longestProxyV1 {
				return nil, errors.New("its line does not end")
			}
			next := header[len(header) : len(header)+1]
			if _, err := io.ReadFull(r, next); err != nil {
				return nil, err
			}
			header = header[:len(header)+1]
		}
		return header, nil
	}
	return nil, errors.New("there is none")
}
