package jetstream

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"maestrohub.io/uns/broker/state"
)

// Subjects of a bucket are $KV.<bucket>.<key>, as the nats command line expects
// them, with the key's levels ("/") as the subject's tokens ("."). What a token
// cannot hold is written %XX; an empty level is a lone %. A key whose subject
// would be too long is hashed into %long.<hash> and stands before the value.
// Republished messages have watchPrefix or tailPrefix before the rest.
const (
	bucketPrefix = "$KV."
	logPrefix    = "LOG.mqtt-sessions."
	watchPrefix  = "mqtt-watch."
	tailPrefix   = "mqtt-tail."

	emptyLevel = "%"
	longKeys   = "%long"
	// maxKeySubject bounds an encoded key. The server closes a connection
	// whose control line is over 4 KiB, and answers repeat the subject.
	maxKeySubject = 1800
)

const upperHex = "0123456789ABCDEF"

// plain says whether a byte stands for itself in a token.
func plain(b byte) bool {
	switch b {
	case '*', '>', '.', '%', 0x7f:
		return false
	}
	return b > ' '
}

// appendKey appends the tokens of a key, or of the whole levels of a prefix.
func appendKey(dst []byte, key string) []byte {
	for i := 0; ; i++ {
		level, rest, more := strings.Cut(key, "/")
		if i > 0 {
			dst = append(dst, '.')
		}
		if level == "" {
			dst = append(dst, emptyLevel...)
		}
		valid := utf8.ValidString(level)
		for k := range len(level) {
			if b := level[k]; plain(b) && (b < utf8.RuneSelf || valid) {
				dst = append(dst, b)
			} else {
				dst = append(dst, '%', upperHex[b>>4], upperHex[b&15])
			}
		}
		if !more {
			return dst
		}
		key = rest
	}
}

// encodeKey returns the tokens a key is written under; long: they are a hash,
// and the key has to stand before the value.
func encodeKey(key string) (tokens string, long bool) {
	if len(key) <= maxKeySubject {
		if encoded := appendKey(make([]byte, 0, len(key)+16), key); len(encoded) <= maxKeySubject {
			return string(encoded), false
		}
	}
	sum := sha256.Sum256([]byte(key))
	return longKeys + "." + hex.EncodeToString(sum[:]), true
}

// decodeKey returns the key of tokens that are no hash.
func decodeKey(tokens string) (string, error) {
	key := make([]byte, 0, len(tokens))
	for i, token := range strings.Split(tokens, ".") {
		if i > 0 {
			key = append(key, '/')
		}
		if token == emptyLevel {
			continue
		}
		for k := 0; k < len(token); k++ {
			if token[k] != '%' {
				key = append(key, token[k])
				continue
			}
			if k+2 >= len(token) {
				return "", fmt.Errorf("subject %q: token %q has an unfinished escape", tokens, token)
			}
			b, err := hex.DecodeString(token[k+1 : k+3])
			if err != nil {
				return "", fmt.Errorf("subject %q: token %q has a wrong escape", tokens, token)
			}
			key = append(key, b[0])
			k += 2
		}
	}
	if err := state.CheckKey(string(key)); err != nil {
		return "", fmt.Errorf("subject %q: %w", tokens, err)
	}
	return string(key), nil
}

// prefixFilters returns filters that match the subjects of every key beginning
// with prefix, and perhaps of others, below base ("$KV.<bucket>.").
func prefixFilters(base, prefix string) []string {
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		levels := appendKey(nil, prefix[:i])
		if len(levels) <= maxKeySubject {
			return []string{base + string(levels) + ".>", base + longKeys + ".*"}
		}
		return []string{base + longKeys + ".*"}
	}
	return []string{base + ">"}
}
