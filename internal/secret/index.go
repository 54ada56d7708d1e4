package secret

import (
	"cmp"
	"slices"
)

// needle is something to look for: a text, and what around it is the secret.
type needle struct {
	text string // at least two bytes
	fold bool   // text is in lower case, and stands for any case
	kind string
	rank rank
	// find looks at an occurrence of text at s[at:] and says which part of s is the secret; nothing if from == to.
	// What it does on a miss must not depend on the length of s. Nil: the text itself is.
	find func(s string, at int) (from, to int)
}

// rank says how much it is worth to know a secret by a needle: of several, the lowest names it.
type rank int

const (
	byValue rank = iota
	byForm
	byName // of what holds it
	ranks
)

// span is a secret in a text.
type span struct {
	from, to int
	kind     string
	rank     rank
}

// index finds needles in one pass: by the first two bytes it tells whether any can begin at a place. Of ordinary text
// most places are passed over by that alone.
type index struct {
	bucket  [1 << 16]uint16 // by two bytes: which of buckets, from 1; 0: none begins so
	buckets [][]needle
}

func newIndex(needles []needle) *index {
	ix := &index{}
	for _, n := range needles {
		for _, pair := range n.pairs() {
			b := &ix.bucket[pair]
			if *b == 0 {
				ix.buckets = append(ix.buckets, nil)
				*b = uint16(len(ix.buckets))
			}
			ix.buckets[*b-1] = append(ix.buckets[*b-1], n)
		}
	}
	return ix
}

func pairOf(a, b byte) uint16 { return uint16(a)<<8 | uint16(b) }

// pairs are the first two bytes of a needle, in each case if that does not matter.
func (n needle) pairs() []uint16 {
	a, b := n.text[0], n.text[1]
	pairs := []uint16{pairOf(a, b)}
	if n.fold {
		pairs = append(pairs, pairOf(upper(a), b), pairOf(a, upper(b)), pairOf(upper(a), upper(b)))
		slices.Sort(pairs)
		pairs = slices.Compact(pairs)
	}
	return pairs
}

// find gives the secrets in s, in order and without overlap. Values are looked for inside of forms as well, and what
// overlaps is one secret: no end of one may be left beside the mark that replaces the other.
func (ix *index) find(s string) []span {
	var spans []span
	var ends [ranks]int // where the newest of each rank ends: no other of that rank is looked for inside of it
	for i := 0; i+1 < len(s); i++ {
		b := ix.bucket[pairOf(s[i], s[i+1])]
		if b == 0 {
			continue
		}
		needles := ix.buckets[b-1]
		for k := range needles {
			n := &needles[k]
			if i < ends[n.rank] || !n.at(s, i) {
				continue
			}
			from, to := i, i+len(n.text)
			if n.find != nil {
				if from, to = n.find(s, i); from >= to {
					continue
				}
				ends[n.rank] = max(ends[n.rank], to)
			}
			spans = append(spans, span{from, to, n.kind, n.rank})
		}
	}
	return merge(spans)
}

func (n *needle) at(s string, i int) bool {
	if len(s)-i < len(n.text) {
		return false
	}
	s = s[i : i+len(n.text)]
	if !n.fold {
		return s == n.text
	}
	return foldsTo(s, n.text)
}

func merge(spans []span) []span {
	if len(spans) < 2 {
		return spans
	}
	slices.SortStableFunc(spans, func(a, b span) int { return cmp.Or(a.from-b.from, b.to-a.to) })
	merged := spans[:1]
	for _, sp := range spans[1:] {
		if last := &merged[len(merged)-1]; sp.from < last.to {
			last.to = max(last.to, sp.to)
			if sp.rank < last.rank {
				last.kind, last.rank = sp.kind, sp.rank
			}
			continue
		}
		merged = append(merged, sp)
	}
	return merged
}

// foldsTo compares ASCII without regard to case; lower is in lower case and as long as s.
func foldsTo(s, lower string) bool {
	for i := range len(s) {
		if lowerOf(s[i]) != lower[i] {
			return false
		}
	}
	return true
}

func lowerOf(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

func upper(b byte) byte {
	if 'a' <= b && b <= 'z' {
		return b - 'a' + 'A'
	}
	return b
}
