package providers

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/bouldermgr/manager/internal/secret"
)

const redacted = secret.Redacted

// Key is a provider's secret. However it is printed, logged or marshalled, it reads "[redacted]"; only [Key.Reveal]
// gives the secret. The zero value is "no key".
type Key struct {
	// A function and not a string: fmt reaches unexported fields of an enclosing struct by reflection, past every
	// String method, and would print a string; of a function it prints the address.
	reveal func() string
}

// NewKey wraps a secret. Surrounding white space, which comes along when keys are read from files, is cut off.
func NewKey(key string) Key {
	key = strings.TrimSpace(key)
	if key == "" {
		return Key{}
	}
	return Key{reveal: func() string { return key }}
}

// Reveal gives the secret, for the header of a request and nothing else.
func (k Key) Reveal() string {
	if k.reveal == nil {
		return ""
	}
	return k.reveal()
}

// IsZero reports that there is no key.
func (k Key) IsZero() bool { return k.reveal == nil }

// Scrub replaces the secret itself in s, whatever it looks like, and then what [Redact] knows. A secret shorter than
// eight bytes is a placeholder for a server that wants none ("none", "ollama"): replacing it would only mangle words.
func (k Key) Scrub(s string) string {
	if key := k.Reveal(); len(key) >= 8 {
		s = strings.ReplaceAll(s, key, redacted)
	}
	return Redact(s)
}

// Format implements [fmt.Formatter] for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue implements [slog.LogValuer].
func (k Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText covers JSON and YAML.
func (k Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }
