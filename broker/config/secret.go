package config

import (
	"log/slog"
	"os"
	"strings"
)

// Secret is a value that does not print: not with fmt, not in logs, not as JSON or YAML.
type Secret struct {
	value string
	file  string // it was read from; "" = it stood in the configuration
}

const hidden = "(hidden)"

// NewSecret wraps a secret that does not come from a file, such as a test's.
func NewSecret(value string) Secret { return Secret{value: value} }

// Reveal is the secret itself, for the one call that needs it.
func (s Secret) Reveal() string { return s.value }

// Renewed is the secret as its file has it now: a mounted Secret changes while the program runs. While the file cannot
// be read or is empty it is what it was at the start.
func (s Secret) Renewed() string {
	if s.file != "" {
		if data, err := os.ReadFile(s.file); err == nil && fileText(data) != "" {
			return fileText(data)
		}
	}
	return s.value
}

// fileText is the secret that a file's content is: without the last line's end.
func fileText(data []byte) string { return strings.TrimRight(string(data), "\r\n") }

// Set reports whether there is a secret.
func (s Secret) Set() bool { return s.value != "" }

// String is "(hidden)", or "" when there is no secret.
func (s Secret) String() string {
	if !s.Set() {
		return ""
	}
	return hidden
}

// GoString keeps %#v from printing the secret.
func (s Secret) GoString() string { return `config.Secret("` + s.String() + `")` }

// MarshalText keeps encoders (JSON, YAML) from printing the secret.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue keeps log/slog from printing the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
