package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// recordFormat is the first byte of every stored value. Formats are append-only:
// a field is added under a new number.
const recordFormat = 1

// What records are kept under.
const (
	clientKeys  = "client/"
	seedKeys    = "seed/"
	tokenKeyKey = "token-key"
)

var errRecord = errors.New("damaged record")

// clientRecord is a client as it is stored.
type clientRecord struct {
	ID         string    `json:"id"`
	Workspace  string    `json:"workspace"`
	Publish    []string  `json:"publish"`
	Subscribe  []string  `json:"subscribe"`
	Scopes     []string  `json:"scopes"`
	Disabled   bool      `json:"disabled"`
	SecretHash string    `json:"secretHash"`
	Generation uint64    `json:"generation"`
	Created    time.Time `json:"created"`
	Changed    time.Time `json:"changed"`
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // our own types, of strings, numbers and times in range
	}
	return append([]byte{recordFormat}, data...)
}

// decode reads a stored value into v. The error wraps errRecord.
func decode(data []byte, v any) error {
	if len(data) == 0 || data[0] != recordFormat {
		return fmt.Errorf("%w: format %d, this release reads %d", errRecord, data[:min(1, len(data))], recordFormat)
	}
	d := json.NewDecoder(bytes.NewReader(data[1:]))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", errRecord, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("%w: more than one value", errRecord)
	}
	return nil
}

func encodeClient(c Client) []byte { return encode(clientRecord(c)) }

// decodeClient reads a client that was stored under id.
func decodeClient(id string, data []byte) (Client, error) {
	var r clientRecord
	if err := decode(data, &r); err != nil {
		return Client{}, fmt.Errorf("API client %q: %w", id, err)
	}
	c := Client(r)
	c.complete()
	if err := c.check(); err != nil {
		return Client{}, fmt.Errorf("API client %q: %w: %w", id, errRecord, err)
	}
	if c.ID != id {
		return Client{}, fmt.Errorf("API client %q: %w: it is of %q", id, errRecord, c.ID)
	}
	if _, err := parseHash(c.SecretHash); err != nil {
		return Client{}, fmt.Errorf("API client %q: %w: %w", id, errRecord, err)
	}
	return c, nil
}
