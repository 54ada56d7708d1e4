package providers

import (
	"regexp"

	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/text"
)

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
