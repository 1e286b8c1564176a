package topic

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxBytes is the longest name or filter MQTT can carry [MQTT-4.7.3-3].
const MaxBytes = 65535

// ValidateName reports why name is not a topic name one may publish to: empty,
// too long, not UTF-8, or holding U+0000 or a wildcard. The error names the rule.
func ValidateName(name string) error {
	if err := validateText("topic name", name); err != nil {
		return err
	}
	if i := strings.IndexByte(name, '+'); i >= 0 {
		// [MQTT-4.7.0-1], [MQTT-3.3.2-2]
		return fmt.Errorf("topic name %s has the wildcard + at byte %d: only a topic filter may [MQTT-4.7.0-1]", quote(name), i)
	}
	if i := strings.IndexByte(name, '#'); i >= 0 {
		return fmt.Errorf("topic name %s has the wildcard # at byte %d: only a topic filter may [MQTT-4.7.0-1]", quote(name), i)
	}
	return nil
}

// ValidateFilter reports why filter is not a topic filter one may subscribe to.
// Of a shared subscription's filter it checks the share name (see ParseShare)
// and the filter behind it. The error names the rule.
func ValidateFilter(filter string) error {
	_, rest, shared, err := ParseShare(filter)
	if err != nil {
		return err
	}
	if err := validateText("topic filter", filter); err != nil {
		return err
	}
	if shared {
		if err := validateText("topic filter", rest); err != nil {
			return err
		}
	}
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		if c != '+' && c != '#' {
			continue
		}
		if i > 0 && rest[i-1] != '/' || i+1 < len(rest) && rest[i+1] != '/' {
			if c == '#' {
				// [MQTT-4.7.1-1]
				return fmt.Errorf("topic filter %s: the wildcard # must be a whole level and the last [MQTT-4.7.1-1]", quote(filter))
			}
			// [MQTT-4.7.1-2]
			return fmt.Errorf("topic filter %s: the wildcard + must be a whole level [MQTT-4.7.1-2]", quote(filter))
		}
		if c == '#' && i+1 < len(rest) {
			return fmt.Errorf("topic filter %s: the wildcard # must be the last level [MQTT-4.7.1-1]", quote(filter))
		}
	}
	return nil
}

// validateText checks what names and filters have in common.
func validateText(what, s string) error {
	if s == "" {
		return fmt.Errorf("%s is empty: it needs at least one character [MQTT-4.7.3-1]", what)
	}
	if len(s) > MaxBytes {
		return fmt.Errorf("%s has %d bytes: at most %d are allowed [MQTT-4.7.3-3]", what, len(s), MaxBytes)
	}
	if i := strings.IndexByte(s, 0); i >= 0 {
		return fmt.Errorf("%s %s has the character U+0000 at byte %d [MQTT-4.7.3-2]", what, quote(s), i)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s %s is not well-formed UTF-8 [MQTT-1.5.4-1]", what, quote(s))
	}
	return nil
}

// quote returns s for an error message, cut so that a hostile name does not
// fill a log line or a reason string.
func quote(s string) string {
	const most = 128
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q...", s[:most])
}

// Levels returns the number of levels of a name or filter, empty ones included.
func Levels(s string) int { return strings.Count(s, "/") + 1 }
