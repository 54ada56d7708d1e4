// Package secret takes keys, tokens and passwords out of text before it is stored, shown or handed on.
//
// A [Redactor] knows secrets in two ways: by their value, which it was told or found in the environment, together
// with the forms in which programs print values (base64, URL and JSON escapes); and by their form, for those that it
// was never told (sk-…, ghp_…, a private key, a password in an address, API_KEY=…). It errs on the side of leaving
// text alone: hashes, ids, encoded pictures and prose come out as they went in, so that a transcript stays worth
// reading.
//
// What it cannot know: a secret without a form that is in no variable whose name says so, one that is cut in two, and
// one that was changed on purpose (reversed, encrypted, in hexadecimal). It guards against accidents, not against an
// agent that wants to leak.
package secret

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// Redacted stands where a secret was. It needs no escape in JSON, YAML, a URL's query or a shell.
const Redacted = "[redacted]"

// Redactor takes secrets out of text. Its methods may be called from any goroutine. The zero value and nil know
// secrets by their form only.
type Redactor struct {
	mu    sync.RWMutex
	known []known // each value once, in every form in which it is printed
}

// known is a secret and what people call it.
type known struct{ value, kind string }

type span struct {
	from, to int
	kind     string
}

// Add makes further values known. Those that are too weak to be told from ordinary text are left out, see [New].
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

// find gives the secrets in s, in order and without overlap: no end of one may be left beside the mark that replaces
// another. The surest finding of those in the same place names it.
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

// Text replaces each secret in s by [Redacted]. Text without any is returned as it is, without a copy. A second pass
// changes nothing. Invalid UTF-8 is no fault and stays.
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

// Kinds says what secrets a text holds, in words that follow "it holds": "the value of OPENAI_API_KEY", "a GitHub
// token". Each is told once, in the order of the text.
func (r *Redactor) Kinds(s string) []string {
	var kinds []string
	for _, sp := range r.find(s) {
		if !slices.Contains(kinds, sp.kind) {
			kinds = append(kinds, sp.kind)
		}
	}
	return kinds
}
