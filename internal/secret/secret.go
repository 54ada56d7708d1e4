// Package secret removes keys, tokens and passwords from text before it is stored, shown or passed on.
//
// A [Redactor] recognizes secrets by value, if it was told them or found them in the environment, also in base64 and
// with the escapes of JSON, URLs, HTML, shells and programming languages; and by form, such as sk-…, ghp_…, a private
// key, a password in an address, or API_KEY=…. When in doubt it leaves text alone: hashes, ids, encoded pictures and
// prose stay, so that a transcript remains readable.
//
// It misses a secret without a known form that is in no variable with a telling name, one that is split, and one that
// was transformed (reversed, encrypted, in hexadecimal). It guards against accidents, not against intent.
package secret

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"
)

// Redacted replaces a secret. It needs no escape in JSON, YAML, a URL's query or a shell.
const Redacted = "[redacted]"

// Redactor removes secrets from text. Safe for concurrent use. The zero value and nil recognize forms only.
type Redactor struct {
	mu    sync.RWMutex
	known []known // each value once, also in base64
}

// known is a text that is always a secret.
type known struct {
	value, kind string
	plain       string // see [plain]; empty if that could be ordinary text
	open        bool   // plain leaves out the end
}

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
			p := newPlain(text, true)
			k := known{value: text, kind: kind}
			if strong(string(p.text)) {
				k.plain, k.open = string(p.text), p.to[len(p.to)-1] < len(text)
			}
			r.known = append(r.known, k)
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
			for at := range occurrences(s, k.value) {
				spans = append(spans, span{at, at + len(k.value), k.kind})
			}
		}
		spans = append(spans, r.escaped(s)...)
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

// escaped returns known values in s that are printed with escapes.
func (r *Redactor) escaped(s string) (spans []span) {
	bare := plainOf(s)
	if bare == s {
		return nil
	}
	var places plain
	for _, k := range r.known {
		if k.plain == "" {
			continue
		}
		for at := range occurrences(bare, k.plain) {
			if places.text == nil {
				places = newPlain(s, true)
			}
			end := at + len(k.plain)
			found := span{places.from[at], places.to[end-1], k.kind}
			if k.open { // what follows the last byte, such as \\, may belong to it
				found.to = append(places.from, len(s))[end]
			}
			if !strings.Contains(s[found.from:found.to], k.value) { // else it is found without, and more exactly
				spans = append(spans, found)
			}
		}
	}
	return spans
}

// occurrences returns where a value is in s. They may overlap.
func occurrences(s, value string) iter.Seq[int] {
	return func(yield func(int) bool) {
		for at := 0; ; at++ {
			next := strings.Index(s[at:], value)
			if next < 0 || !yield(at+next) {
				return
			}
			at += next
		}
	}
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
