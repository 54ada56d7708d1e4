package providers

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/text"
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

// maxMessage is the longest text of a provider that is kept in an [Error], in characters. Gateways answer with whole
// HTML pages.
const maxMessage = 600

// loose matches what is a key in the error of a provider, and may be none elsewhere. Vendors echo keys partly starred,
// hence the * in the classes; what is a key anywhere is known to package secret.
var loose = []struct {
	pattern func() *regexp.Regexp
	with    string
}{
	{text.Regexp(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=*-]{6,}`), "$1 " + redacted},
	{text.Regexp(`\b(?:sk|xai|gsk|pk|rk)[-_][A-Za-z0-9_*-]{8,}`), redacted},
	{text.Regexp(`\bAIza[A-Za-z0-9_*-]{6,}`), redacted},
	{text.Regexp(`(?i)([?&\s"']|^)((?:api[-_]?)?key|access_token|token)=[^&\s"'<>]+`), "$1$2=" + redacted},
	{
		text.Regexp(`(?i)\b((?:x-)?(?:goog-)?api[-_]?key["']?\s*[:=]\s*["']?)[A-Za-z0-9._~+/=*-]{6,}`),
		"${1}" + redacted,
	},
}

// byForm knows no values: a provider's own key is known to its [Key].
var byForm *secret.Redactor

// Redact replaces what looks like a key in a text that is about to be logged, stored or shown: sk-…, xai-…, AIza…,
// "Bearer …", "key=…" and their kin. It knows keys by form only; [Key.Scrub] also knows the key itself.
func Redact(s string) string {
	s = byForm.Text(s)
	for _, l := range loose {
		s = l.pattern().ReplaceAllString(s, l.with)
	}
	return s
}
