package access

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"maestrohub.io/uns/broker/state"
)

// newGeneration is random, so that a client made again under an old id does not
// revive its tokens, and of 53 bits, so that JSON readers keep it.
func newGeneration() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])>>11 | 1
}

// HashSecret returns the stored form of a secret, as clients.yaml takes it for
// secretHash: a fast hash if the secret has the form of 32 random bytes or more,
// argon2id if not.
func HashSecret(secret string) (string, error) {
	if err := checkSecret(secret); err != nil {
		return "", fmt.Errorf("%w: secret: %w", ErrInvalid, err)
	}
	if unguessable(secret) {
		return fastHash(secret), nil
	}
	return slowHash(secret), nil
}

// Add adds a client and returns its secret: the given one, or if that is empty a
// new one, unless c.SecretHash is set; then none. Errors: ErrExists, ErrInvalid,
// or the store's.
func (a *Access) Add(ctx context.Context, c Client, secret string) (string, error) {
	var err error
	switch {
	case c.SecretHash != "" && secret != "":
		return "", fmt.Errorf("%w: secret and its hash are both given", ErrInvalid)
	case c.SecretHash != "":
		if _, err := parseHash(c.SecretHash); err != nil {
			return "", fmt.Errorf("%w: secret hash: %w", ErrInvalid, err)
		}
	case secret != "":
		if c.SecretHash, err = HashSecret(secret); err != nil {
			return "", err
		}
	default:
		secret = newSecret()
		c.SecretHash = fastHash(secret)
	}
	c.complete()
	if err := c.check(); err != nil {
		return "", err
	}
	c.Generation = newGeneration()
	c.Created = time.Now().UTC()
	c.Changed = c.Created
	return secret, a.create(ctx, c)
}

// create writes a client there is not yet.
func (a *Access) create(ctx context.Context, c Client) error {
	value := encodeClient(c)
	landed, err := a.settle(ctx, c.ID, value, func() (uint64, error) {
		return a.bucket.Create(ctx, clientKeys+c.ID, value)
	})
	switch {
	case err != nil:
		return fmt.Errorf("add API client %q: %w", c.ID, err)
	case !landed:
		return fmt.Errorf("%w: %q", ErrExists, c.ID)
	}
	return nil
}

// settle makes a conditional write until it has landed or lost. A value is never
// written twice, as each has a generation or time of its own, so after a conflict
// the value that stands there tells whose write it was. What has landed is known here
// at once, not only when the watch repeats it: until then the store may go away, and
// the client would be let look as it was before.
func (a *Access) settle(ctx context.Context, id string, value []byte, write func() (uint64, error)) (landed bool, err error) {
	unknown := false
	for {
		revision, err := write()
		switch {
		case err == nil:
			a.changed(id, state.Record{Key: clientKeys + id, Value: value, Revision: revision})
			return true, nil
		case errors.Is(err, state.ErrUnknown) && ctx.Err() == nil:
			unknown = true
		case errors.Is(err, state.ErrConflict):
			if !unknown {
				return false, nil
			}
			r, err := a.bucket.Get(ctx, clientKeys+id)
			if err != nil && !errors.Is(err, state.ErrNotFound) {
				return false, err
			}
			if err != nil || !bytes.Equal(r.Value, value) {
				return false, nil
			}
			a.changed(id, r)
			return true, nil
		default:
			return false, err
		}
	}
}

// change applies edit to a client and writes it, again if another write came
// between. edit returns false if there is nothing to do.
func (a *Access) change(ctx context.Context, doing, id string, edit func(c *Client) bool) error {
	for {
		c, revision, err := a.read(ctx, id)
		if err != nil {
			return fmt.Errorf("%s API client %q: %w", doing, id, err)
		}
		if !edit(&c) {
			return nil
		}
		c.Changed = time.Now().UTC()
		value := encodeClient(c)
		landed, err := a.settle(ctx, id, value, func() (uint64, error) {
			return a.bucket.Update(ctx, clientKeys+id, value, revision)
		})
		if err != nil {
			return fmt.Errorf("%s API client %q: %w", doing, id, err)
		}
		if landed {
			return nil
		}
	}
}

func (a *Access) read(ctx context.Context, id string) (Client, uint64, error) {
	if checkName(id) != nil {
		return Client{}, 0, ErrNotFound
	}
	r, err := a.bucket.Get(ctx, clientKeys+id)
	if errors.Is(err, state.ErrNotFound) {
		return Client{}, 0, ErrNotFound
	}
	if err != nil {
		return Client{}, 0, err
	}
	c, err := decodeClient(id, r.Value)
	return c, r.Revision, err
}

// Rotate gives a client a new secret and returns it. What is signed in or issued
// with the old one holds no longer.
func (a *Access) Rotate(ctx context.Context, id string) (string, error) {
	secret := newSecret()
	stored, generation := fastHash(secret), newGeneration()
	err := a.change(ctx, "rotate", id, func(c *Client) bool {
		c.SecretHash, c.Generation = stored, generation
		return true
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// Disable refuses a client from now on. Its tokens stay void when it is enabled
// again; its secret does not.
func (a *Access) Disable(ctx context.Context, id string) error {
	generation := newGeneration()
	return a.change(ctx, "disable", id, func(c *Client) bool {
		if c.Disabled {
			return false
		}
		c.Disabled, c.Generation = true, generation
		return true
	})
}

// Enable lets a disabled client sign in again.
func (a *Access) Enable(ctx context.Context, id string) error {
	return a.change(ctx, "enable", id, func(c *Client) bool {
		was := c.Disabled
		c.Disabled = false
		return was
	})
}

// Delete removes a client. An unchanged clients.yaml does not bring it back. What it had
// kept, its sessions, ends by Deleted.
func (a *Access) Delete(ctx context.Context, id string) error {
	for {
		_, revision, err := a.read(ctx, id)
		if errors.Is(err, errRecord) {
			// What cannot be read can be removed.
			var r state.Record
			if r, err = a.bucket.Get(ctx, clientKeys+id); err == nil {
				revision = r.Revision
			}
		}
		if err != nil {
			return fmt.Errorf("delete API client %q: %w", id, err)
		}
		removed, err := a.bucket.Delete(ctx, clientKeys+id, revision)
		switch {
		case err == nil:
			a.deleted(id, removed)
			return nil
		case errors.Is(err, state.ErrUnknown) && ctx.Err() == nil, errors.Is(err, state.ErrConflict):
			// Read again: it may be gone, by us or by another.
			if r, err := a.bucket.Get(ctx, clientKeys+id); errors.Is(err, state.ErrNotFound) {
				a.deleted(id, r.Revision)
				return nil
			}
		default:
			return fmt.Errorf("delete API client %q: %w", id, err)
		}
	}
}

// Deleted reports whether a client was deleted, within state.TombstoneAge, and not made
// again. It takes a deletion in the store for that and nothing less: a store that has lost
// its clients, or has them from a backup, has deleted none.
func (a *Access) Deleted(ctx context.Context, id string) (bool, error) {
	a.mu.Lock()
	known, told := a.clients[id] != nil || a.strangers[id], a.deletions
	a.mu.Unlock()
	if known || checkName(id) != nil {
		return false, nil
	}
	r, err := a.bucket.Get(ctx, clientKeys+id)
	switch {
	case errors.Is(err, state.ErrNotFound) && r.Revision != 0:
		return true, nil
	case errors.Is(err, state.ErrNotFound):
		a.mu.Lock()
		defer a.mu.Unlock()
		if told == a.deletions {
			if len(a.strangers) >= maxStrangers {
				clear(a.strangers)
			}
			a.strangers[id] = true
		}
		return false, nil
	case err != nil:
		return false, unavailable("read API client", err)
	}
	return false, nil
}

// maxStrangers bounds what is kept of identities that the store knows nothing of, about
// 100 bytes each.
const maxStrangers = 100_000

// Get returns a client. ErrNotFound if there is none.
func (a *Access) Get(ctx context.Context, id string) (Client, error) {
	c, _, err := a.read(ctx, id)
	if err != nil {
		return Client{}, fmt.Errorf("read API client %q: %w", id, err)
	}
	return c, nil
}

// List returns all clients, ordered by id. A damaged record fails it, named.
func (a *Access) List(ctx context.Context) ([]Client, error) {
	records, err := a.bucket.List(ctx, clientKeys)
	if err != nil {
		return nil, fmt.Errorf("list API clients: %w", err)
	}
	clients := make([]Client, 0, len(records))
	for _, r := range records {
		c, err := decodeClient(strings.TrimPrefix(r.Key, clientKeys), r.Value)
		if err != nil {
			return nil, fmt.Errorf("list API clients: %w", err)
		}
		clients = append(clients, c)
	}
	return clients, nil
}
