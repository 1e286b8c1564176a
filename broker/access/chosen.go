package access

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// unguessable says whether a secret somebody handed in has the form of at least
// 32 random bytes. What a person makes up is not to pass; that a random secret
// fails now and then costs only time.
func unguessable(secret string) bool {
	if raw, err := hex.DecodeString(secret); err == nil {
		// 64 random digits show 15 or 16 of the 16 nearly always.
		return len(raw) >= generatedBytes && varied(secret, 14)
	}
	trimmed := strings.TrimRight(secret, "=")
	raw, err := base64.RawURLEncoding.DecodeString(trimmed)
	if err != nil {
		if raw, err = base64.RawStdEncoding.DecodeString(trimmed); err != nil {
			return false
		}
	}
	// 43 random characters of 64 show about 31 different ones; text of that
	// length shows some 20.
	return len(raw) >= generatedBytes && varied(trimmed, 27) && mixed(trimmed)
}

// varied: at least this many different characters, no half that repeats, and few
// neighbours that are equal or follow each other.
func varied(s string, different int) bool {
	var seen [256]bool
	count, steps := 0, 0
	for i := range len(s) {
		if !seen[s[i]] {
			seen[s[i]] = true
			count++
		}
		if i > 0 {
			if d := int(s[i]) - int(s[i-1]); d >= -1 && d <= 1 {
				steps++
			}
		}
	}
	return count >= different && steps*3 < len(s) && strings.Count(s, s[:8]) == 1
}

// mixed: upper case, lower case and digits, and no run of eight of one kind, as
// words and dates have.
func mixed(s string) bool {
	var upper, lower, digit bool
	run, last := 0, byte(0)
	for i := range len(s) {
		kind := byte(0)
		switch c := s[i]; {
		case c >= 'a' && c <= 'z':
			kind, lower = 'a', true
		case c >= 'A' && c <= 'Z':
			kind, upper = 'A', true
		case c >= '0' && c <= '9':
			kind, digit = '0', true
		}
		if kind != last {
			run, last = 0, kind
		}
		if run++; kind != 0 && run >= 8 {
			return false
		}
	}
	return upper && lower && digit
}
