package config

import "log/slog"

// Secret is a value that does not print: not with fmt, not in logs, not as JSON or YAML.
type Secret struct{ value string }

const hidden = "(hidden)"

// NewSecret wraps a secret that does not come from a file, such as a test's.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal is the secret itself, for the one call that needs it.
func (s Secret) Reveal() string { return s.value }

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
