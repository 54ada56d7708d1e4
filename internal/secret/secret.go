// Package secret removes keys, tokens and passwords from text before it is stored, shown or passed on.
//
// A [Redactor] recognizes secrets by value, if it was told them or found them in the environment, also in the encodings
// in which programs print values (base64, URL and JSON escapes); and by form, such as sk-…, ghp_…, a private key, a
// password in an address, or API_KEY=…. When in doubt it leaves text alone: hashes, ids, encoded pictures and prose
// stay, so that a transcript remains readable.
//
// It misses a secret without a known form that is in no variable with a telling name, one that is split, and one that
// was transformed (reversed, encrypted, in hexadecimal). It guards against accidents, not against intent.
package secret

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Redacted replaces a secret. It needs no escape in JSON, YAML, a URL's query or a shell.
const Redacted = "[redacted]"

// Redactor removes secrets from text. Safe for concurrent use. The zero value and nil recognize forms only.
type Redactor struct {
	mu    sync.RWMutex
	known []known // each value once, in every encoding
}

type known struct{ value, kind string }

type span struct {
	from, to int
	kind     string
}

// Add makes further values known, except those too weak to be told from ordinary text, see [New].
func (r *Redactor) Add(kind string, values ...string) {
	for _, v := range values {
		if v = strings.TrimSpace(v); strong(v) {
			r.learn(kind, v)
		}
	}
}

func (r *Redactor) learn(kind, value string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range printed(value) {
		if !slices.ContainsFunc(r.known, func(old known) bool { return old.value == text }) {
			r.known = append(r.known, known{text, kind})
		}
	}
}

// find returns the secrets in s, in order. Overlapping ones are merged into the first, so that no part remains.
func (r *Redactor) find(s string) (merged []span) {
	var spans []span
	if r != nil {
		r.mu.RLock()
		defer r.mu.RUnlock()
		for _, k := range r.known {
			for at := 0; ; at++ { // occurrences may overlap
				next := strings.Index(s[at:], k.value)
				if next < 0 {
					break
				}
				at += next
				spans = append(spans, span{at, at + len(k.value), k.kind})
			}
		}
	}
	lower := strings.ToLower(s)
	for i := range forms {
		spans = append(spans, forms[i].find(s, lower)...)
	}
	spans = append(spans, findNamed(s, lower)...)
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	for _, sp := range spans {
		if last := len(merged) - 1; last >= 0 && sp.from < merged[last].to {
			merged[last].to = max(merged[last].to, sp.to)
		} else {
			merged = append(merged, sp)
		}
	}
	return merged
}

// Text replaces each secret in s by [Redacted]. Text without secrets is returned as is. Idempotent, even on bad UTF-8.
func (r *Redactor) Text(s string) string {
	spans := r.find(s)
	if len(spans) == 0 {
		return s
	}
	var out strings.Builder
	last := 0
	for _, sp := range spans {
		out.WriteString(s[last:sp.from])
		out.WriteString(Redacted)
		last = sp.to
	}
	out.WriteString(s[last:])
	return out.String()
}

// Kinds returns what secrets a text holds, in words that follow "it holds": "the value of OPENAI_API_KEY", "a GitHub
// token". Each comes once, in the order of the text.
func (r *Redactor) Kinds(s string) []string {
	var kinds []string
	for _, sp := range r.find(s) {
		if !slices.Contains(kinds, sp.kind) {
			kinds = append(kinds, sp.kind)
		}
	}
	return kinds
}
