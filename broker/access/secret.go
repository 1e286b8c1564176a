package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

const (
	generatedBytes = 32
	saltBytes      = 16
	hashBytes      = 32
	// minSecretBytes and maxSecretBytes bound a chosen secret.
	minSecretBytes = 8
	maxSecretBytes = 1024
)

// The cost of argon2id for new hashes, as OWASP recommends it, and the most a
// hash given from outside may ask for.
const (
	argonMemory, argonTime, argonThreads          = 19 << 10, 2, 1 // KiB, passes, lanes
	maxArgonMemory, maxArgonTime, maxArgonThreads = 256 << 10, 16, 4
)

// fastDomain separates these digests from any other use of SHA-256.
const fastDomain = "maestrohub API client secret\x00"

var base64Raw = base64.RawStdEncoding.Strict()

// newSecret makes a secret of 256 random bits.
func newSecret() string {
	var b [generatedBytes]byte
	rand.Read(b[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// hash is a secret's stored form taken apart.
type hash struct {
	slow         bool
	memory, time uint32 // of argon2id
	threads      uint8
	salt, sum    []byte
}

// fastHash is the stored form of a secret nobody can guess.
func fastHash(secret string) string {
	h := hash{salt: make([]byte, saltBytes)}
	rand.Read(h.salt)
	return "$sha256$" + base64Raw.EncodeToString(h.salt) + "$" + base64Raw.EncodeToString(h.compute(secret))
}

// slowHash is the stored form of a secret somebody made up.
func slowHash(secret string) string {
	h := hash{slow: true, memory: argonMemory, time: argonTime, threads: argonThreads, salt: make([]byte, saltBytes)}
	h.sum = make([]byte, hashBytes)
	rand.Read(h.salt)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.memory, h.time, h.threads,
		base64Raw.EncodeToString(h.salt), base64Raw.EncodeToString(h.compute(secret)))
}

func (h *hash) compute(secret string) []byte {
	if h.slow {
		return argon2.IDKey([]byte(secret), h.salt, h.time, h.memory, h.threads, uint32(len(h.sum)))
	}
	d := sha256.New()
	d.Write([]byte(fastDomain))
	d.Write(h.salt)
	d.Write([]byte(secret))
	return d.Sum(nil)
}

// matches compares in constant time.
func (h *hash) matches(secret string) bool {
	return subtle.ConstantTimeCompare(h.compute(secret), h.sum) == 1
}

// parseHash takes a stored form apart and says what is wrong with it.
func parseHash(s string) (*hash, error) {
	parts := strings.Split(s, "$")
	if len(parts) < 2 || parts[0] != "" {
		return nil, errors.New("a secret hash begins with $sha256$ or $argon2id$")
	}
	h := &hash{}
	switch parts[1] {
	case "sha256":
		if len(parts) != 4 {
			return nil, errors.New("a sha256 hash is $sha256$<salt>$<hash>")
		}
	case "argon2id":
		h.slow = true
		if len(parts) != 6 {
			return nil, errors.New("an argon2id hash is $argon2id$v=19$m=<KiB>,t=<passes>,p=<lanes>$<salt>$<hash>")
		}
		if parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
			return nil, fmt.Errorf("an argon2id hash of version %q: allowed is v=%d", parts[2], argon2.Version)
		}
		var m, t, p uint32
		if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &m, &t, &p); err != nil || fmt.Sprintf("m=%d,t=%d,p=%d", m, t, p) != parts[3] {
			return nil, fmt.Errorf("an argon2id hash with the parameters %q: want m=<KiB>,t=<passes>,p=<lanes>", parts[3])
		}
		if m < 8*p || m > maxArgonMemory || t < 1 || t > maxArgonTime || p < 1 || p > maxArgonThreads {
			return nil, fmt.Errorf("an argon2id hash with the parameters %q: allowed are m up to %d, t 1 to %d, p 1 to %d", parts[3], maxArgonMemory, maxArgonTime, maxArgonThreads)
		}
		h.memory, h.time, h.threads = m, t, uint8(p)
	default:
		return nil, errors.New("a secret hash begins with $sha256$ or $argon2id$")
	}
	var err error
	if h.salt, err = base64Raw.DecodeString(parts[len(parts)-2]); err != nil || len(h.salt) < 8 || len(h.salt) > 64 {
		return nil, errors.New("the salt of a secret hash is 8 to 64 bytes in base64 without padding")
	}
	if h.sum, err = base64Raw.DecodeString(parts[len(parts)-1]); err != nil || len(h.sum) != hashBytes {
		return nil, fmt.Errorf("the hash of a secret hash is %d bytes in base64 without padding", hashBytes)
	}
	return h, nil
}

// checkSecret says why a secret cannot be chosen.
func checkSecret(secret string) error {
	switch {
	case len(secret) < minSecretBytes || len(secret) > maxSecretBytes:
		return fmt.Errorf("has %d bytes: allowed are %d to %d", len(secret), minSecretBytes, maxSecretBytes)
	case looksLikeToken([]byte(secret)):
		return errors.New("has the form of an access token, which is not looked up as a secret")
	}
	return nil
}
