package backup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/s2"
)

// entry is one of an archive: the stream's state, a message under its subject and
// sequence, or the mark of the end.
type entry struct {
	name     string
	time     int64 // ns since 1970
	sequence uint64
	header   int64  // bytes of body that are its headers
	body     []byte // headers and payload, of messages
}

// magic is what the archives of servers from 2.15 begin with.
const magic = "NATSARC1"

// The longest subject and message that are believed.
const (
	maxName = 1 << 16
	maxBody = 128 << 20
)

var errCut = errors.New("it ends in the middle: the backup was not finished, or the file was cut")

// entries reads an archive to its end and hands every message over. It fails unless all is there
// that the server sent.
func entries(path string, each func(entry) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(s2.NewReader(f))
	if strings.HasSuffix(path, tarFile) {
		// Only its compression can be checked: the blocks in it are the server's own.
		_, err := io.Copy(io.Discard, r)
		return err
	}
	head := make([]byte, len(magic))
	if _, err := io.ReadFull(r, head); err != nil || string(head) != magic {
		return errors.New("it is no archive of NATS 2.15 or later")
	}
	for {
		e, err := next(r)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errCut
		case err != nil:
			return err
		case e.sequence > 0:
			if err := each(e); err != nil {
				return err
			}
		case e.time == 0 && len(e.body) == 0:
			return nil // the mark of the end
		}
	}
}

func next(r *bufio.Reader) (e entry, err error) {
	var length, header, payload uint64
	read := func(into *uint64) {
		if err == nil {
			*into, err = binary.ReadUvarint(r)
		}
	}
	read(&length)
	if err == nil {
		e.time, err = binary.ReadVarint(r)
	}
	read(&e.sequence)
	read(&header)
	read(&payload)
	if err != nil {
		return e, err
	}
	if length > maxName || header > maxBody || payload > maxBody {
		return e, fmt.Errorf("damaged: an entry claims %d bytes of name, %d of headers, %d of payload", length, header, payload)
	}
	e.header = int64(header)
	text := make([]byte, length+header+payload)
	if _, err := io.ReadFull(r, text); err != nil {
		return e, err
	}
	e.name, e.body = string(text[:length]), text[length:]
	return e, nil
}
