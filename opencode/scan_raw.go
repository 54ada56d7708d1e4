package opencode

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// raw reads a value of any kind as it is, without its white space. Strings in it are cut,
// and it is nil if it is longer than b.value all the same; cut tells of either. Keys for
// which drop says so are left out.
func (s *scanner) raw(b bounds, drop func(key string) bool) (_ json.RawMessage, cut bool) {
	s.cut = false
	var ok bool
	s.held, ok = s.appendRaw(s.held[:0], b, drop)
	if !ok || s.err != nil {
		return nil, !ok
	}
	s.kept += len(s.held)
	return slices.Clone(s.held), s.cut
}

// anyObject decodes an object that somebody else put there.
func (s *scanner) anyObject(b bounds) (value map[string]any) {
	raw, _ := s.raw(b, nil)
	if json.Unmarshal(raw, &value) != nil {
		return nil
	}
	return value
}

// appendRaw consumes the value in any case. It is not ok if the value is longer than b.value.
func (s *scanner) appendRaw(dst []byte, b bounds, drop func(key string) bool) (_ []byte, ok bool) {
	if len(dst) > b.value {
		s.skip()
		return dst, false
	}
	ok = true
	switch s.peek() {
	case '{':
		dst, ok = s.appendObject(dst, b, drop)
	case '[':
		dst = append(dst, '[')
		for i := range s.array() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if ok {
				dst, ok = s.appendRaw(dst, b, nil)
			}
		}
		dst = append(dst, ']')
	case '"':
		s.pos++
		dst = s.appendQuoted(dst, b.text)
	default:
		dst = append(dst, s.literal()...)
	}
	return dst, ok && len(dst) <= b.value
}

func (s *scanner) appendObject(dst []byte, b bounds, drop func(key string) bool) (_ []byte, ok bool) {
	ok = true
	dst = append(dst, '{')
	first := true
	for key := range s.object() {
		if !ok || drop != nil && drop(key) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, '"')
		for _, r := range key {
			dst = appendEscaped(dst, r)
		}
		dst = append(dst, '"', ':')
		dst, ok = s.appendRaw(dst, b, nil)
	}
	return append(dst, '}'), ok
}

// appendQuoted appends a string, whose opening quote was taken, as it is written, cut to
// limit bytes.
func (s *scanner) appendQuoted(dst []byte, limit int) []byte {
	dst = append(dst, '"')
	begin, cut := len(dst), false
	for s.err == nil {
		chunk, c := s.chunk()
		if room := limit - (len(dst) - begin); len(chunk) > room {
			dst, cut = append(dst, chunk[:max(0, room)]...), true
			limit = 0
		} else {
			dst = append(dst, chunk...)
		}
		switch c {
		case '"':
			if cut {
				s.cut = true
				dst = wholeCharacters(dst, begin)
			}
			return append(escapeControls(validUTF8(dst, begin), begin), '"')
		case '\\':
			r := s.escape()
			if len(dst)-begin >= limit {
				cut, limit = true, 0
				continue
			}
			dst = appendEscaped(dst, r)
		}
	}
	return dst
}

// appendEscaped appends a character as it stands between quotes.
func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, '\\', 'n')
	case '\t':
		return append(dst, '\\', 't')
	}
	if r < ' ' {
		return fmt.Appendf(dst, `\u%04x`, r)
	}
	return utf8.AppendRune(dst, r)
}

// escapeControls mends what the scanner takes and other readers do not.
func escapeControls(dst []byte, begin int) []byte {
	if !slices.ContainsFunc(dst[begin:], func(c byte) bool { return c < ' ' }) {
		return dst
	}
	out := slices.Clone(dst[:begin])
	for _, c := range dst[begin:] {
		if c < ' ' {
			out = appendEscaped(out, rune(c))
		} else {
			out = append(out, c)
		}
	}
	return out
}
