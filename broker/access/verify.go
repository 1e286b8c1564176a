package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"sync"
)

// verifier checks secrets: fast ones at once, slow ones a few at a time.
type verifier struct {
	slots chan struct{} // one per argon2id computation
	// decoys bounds the computations for clients there are not, so that a flood
	// of made-up names cannot take every slot.
	decoys chan struct{}
	key    [32]byte // of this process's digests

	mu sync.Mutex
	// verified are the digests of secrets that argon2id has accepted, one per
	// stored hash.
	verified map[string][sha256.Size]byte
}

// maxVerified bounds verified, at about 250 bytes each.
const maxVerified = 1 << 16

func newVerifier() *verifier {
	v := &verifier{slots: make(chan struct{}, 2), decoys: make(chan struct{}, 1), verified: map[string][sha256.Size]byte{}}
	rand.Read(v.key[:])
	return v
}

// verify says whether the secret is the one of the stored form. ErrUnavailable:
// no slot became free before ctx was done.
func (v *verifier) verify(ctx context.Context, stored, secret string) (bool, error) {
	h, err := parseHash(stored)
	if err != nil {
		return false, unavailable("read secret hash", err)
	}
	long := len(secret) > maxSecretBytes
	secret = secret[:min(len(secret), maxSecretBytes)]
	if !h.slow {
		return h.matches(secret) && !long, nil
	}
	digest := v.digest(stored, secret)
	v.mu.Lock()
	known, ok := v.verified[stored]
	v.mu.Unlock()
	if ok && hmac.Equal(known[:], digest[:]) {
		return !long, nil
	}
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		return false, unavailable("wait for a slow secret's turn", ctx.Err())
	}
	if !h.matches(secret) || long {
		return false, nil
	}
	v.remember(stored, secret)
	return true, nil
}

// hash makes the stored form of a secret that was checked.
func (v *verifier) hash(ctx context.Context, secret string) (string, error) {
	if unguessable(secret) {
		return fastHash(secret), nil
	}
	select {
	case v.slots <- struct{}{}:
		defer func() { <-v.slots }()
	case <-ctx.Done():
		return "", unavailable("wait for a slow secret's turn", ctx.Err())
	}
	stored := slowHash(secret)
	v.remember(stored, secret)
	return stored, nil
}

func (v *verifier) remember(stored, secret string) {
	digest := v.digest(stored, secret)
	v.mu.Lock()
	defer v.mu.Unlock()
	for old := range v.verified {
		if len(v.verified) < maxVerified {
			break
		}
		delete(v.verified, old) // any: it is computed again when needed
	}
	v.verified[stored] = digest
}

// digest is a secret's digest in this process.
func (v *verifier) digest(stored, secret string) (sum [sha256.Size]byte) {
	m := hmac.New(sha256.New, v.key[:])
	m.Write([]byte(stored))
	m.Write([]byte{0})
	m.Write([]byte(secret))
	m.Sum(sum[:0])
	return sum
}

// decoy does for a client there is not what verify would do for one there is.
// slow is the share of the clients whose secret is a slow one; whether a name is
// among them is always the same for that name.
func (v *verifier) decoy(ctx context.Context, id, secret string, slow float64) error {
	digest := v.digest(id, "decoy")
	secret = secret[:min(len(secret), maxSecretBytes)]
	h := hash{salt: digest[:saltBytes], sum: digest[:]}
	if float64(binary.BigEndian.Uint32(digest[16:]))/(1<<32) >= slow {
		h.matches(secret)
		return nil
	}
	h.slow, h.memory, h.time, h.threads = true, argonMemory, argonTime, argonThreads
	for _, gate := range []chan struct{}{v.decoys, v.slots} {
		select {
		case gate <- struct{}{}:
			defer func() { <-gate }()
		case <-ctx.Done():
			return unavailable("wait for a slow secret's turn", ctx.Err())
		}
	}
	h.matches(secret)
	return nil
}
