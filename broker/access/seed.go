package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"maestrohub.io/uns/broker/state"
)

// seedRecord is what clients.yaml said of a client when it was last applied.
type seedRecord struct {
	// Secret is the stored form made of the declared secret, or the declared
	// secretHash itself: never a digest that would make a chosen secret
	// cheaper to guess than its stored form does.
	Secret string `json:"secret"`
	// Grants is a digest of everything else in the entry.
	Grants string `json:"grants"`
}

// seedsAtOnce is how many clients are seeded side by side.
const seedsAtOnce = 16

// Seed applies a clients.yaml. Declared clients are added, or changed where their
// entry says something else than when it was last applied. So what was done over
// REST since, a rotation or a deletion, stays done until the entry changes; a
// disabled client stays disabled until it is enabled. Clients that are not declared are never touched. A file with a mistake
// is refused as a whole, with all its mistakes; after any other error the clients
// seeded so far stay, and seeding again completes it.
//
// Entries with a chosen secret cost one argon2id computation each (about 20 ms);
// where there are thousands, give secretHash, or secrets of 32 random bytes.
func (a *Access) Seed(ctx context.Context, clientsYAML []byte) error {
	clients, err := parseSeed(clientsYAML)
	if err != nil {
		return fmt.Errorf("clients.yaml: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(seedsAtOnce)
	for _, d := range clients {
		group.Go(func() error {
			if err := a.seed(ctx, d); err != nil {
				return fmt.Errorf("seed API client %q: %w", d.client.ID, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// seed applies one entry.
func (a *Access) seed(ctx context.Context, d declared) error {
	last, revision, err := a.lastSeed(ctx, d.client.ID)
	if err != nil {
		return err
	}
	now := seedRecord{Grants: grantsDigest(&d.client)}
	newSecret, err := a.secretChanged(ctx, &d, last.Secret)
	if err != nil {
		return err
	}
	now.Secret = last.Secret
	if newSecret {
		now.Secret = d.client.SecretHash
	}
	if now == last {
		return nil
	}
	if err := a.applySeed(ctx, d.client, newSecret, now.Secret, now.Grants != last.Grants); err != nil {
		return err
	}
	// Last, so that what was cut short is done again.
	value := encode(now)
	if revision == 0 {
		_, err = a.bucket.Create(ctx, seedKeys+d.client.ID, value)
	} else {
		_, err = a.bucket.Update(ctx, seedKeys+d.client.ID, value, revision)
	}
	if errors.Is(err, state.ErrConflict) {
		return nil // another replica is seeding the same file
	}
	return err
}

// lastSeed reads what the file said last time. A damaged record counts as none.
func (a *Access) lastSeed(ctx context.Context, id string) (seedRecord, uint64, error) {
	r, err := a.bucket.Get(ctx, seedKeys+id)
	if errors.Is(err, state.ErrNotFound) {
		return seedRecord{}, 0, nil
	}
	if err != nil {
		return seedRecord{}, 0, err
	}
	var last seedRecord
	if decode(r.Value, &last) != nil {
		last = seedRecord{}
	}
	return last, r.Revision, nil
}

// secretChanged says whether the entry's credential is another than last time's,
// and then completes its stored form.
func (a *Access) secretChanged(ctx context.Context, d *declared, last string) (bool, error) {
	if d.secret == "" {
		return d.client.SecretHash != last, nil
	}
	if last != "" {
		same, err := a.verifier.verify(ctx, last, d.secret)
		if err != nil || same {
			return false, err
		}
	}
	stored, err := a.verifier.hash(ctx, d.secret)
	d.client.SecretHash = stored
	return true, err
}

// applySeed writes the client. secret is what the entry's credential is stored
// as, whether it changed or not.
func (a *Access) applySeed(ctx context.Context, c Client, newSecret bool, secret string, newGrants bool) error {
	generation := newGeneration()
	for {
		err := a.change(ctx, "seed", c.ID, func(is *Client) bool {
			if newSecret {
				is.SecretHash, is.Generation = secret, generation
			}
			if newGrants {
				is.Workspace, is.Publish, is.Subscribe, is.Scopes = c.Workspace, c.Publish, c.Subscribe, c.Scopes
			}
			return newSecret || newGrants
		})
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		fresh := c
		fresh.SecretHash = secret
		if _, err := a.Add(ctx, fresh, ""); !errors.Is(err, ErrExists) {
			return err
		}
	}
}

// grantsDigest covers an entry but for its credential. The order of lists means
// nothing.
func grantsDigest(c *Client) string {
	list := func(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }
	data, err := json.Marshal([][]string{{c.ID, c.Workspace}, list(c.Publish), list(c.Subscribe), list(c.Scopes)})
	if err != nil {
		panic(err) // strings
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
