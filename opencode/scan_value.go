package opencode

import (
	"encoding/json"
	"iter"
	"strconv"
)

// object goes through the keys of an object. The caller reads the value of each; one that
// it leaves is passed over.
func (s *scanner) object() iter.Seq[string] {
	return func(yield func(string) bool) {
		if !s.open('{') {
			return
		}
		defer func() { s.nesting-- }()
		for first := true; !s.closes('}', first); first = false {
			if !s.take('"') {
				s.fail("a key is missing")
				return
			}
			var cut bool
			s.scratch, cut = s.appendString(s.scratch[:0], maxKey)
			key := string(s.scratch)
			if cut {
				key = ""
			}
			if !s.take(':') {
				s.fail("a colon is missing")
				return
			}
			s.peek()
			before := s.offset()
			if !yield(key) {
				return
			}
			if s.err == nil && s.offset() == before {
				s.skip()
			}
		}
	}
}

// array goes through the elements of an array in the same way.
func (s *scanner) array() iter.Seq[int] {
	return func(yield func(int) bool) {
		if !s.open('[') {
			return
		}
		defer func() { s.nesting-- }()
		for i := 0; !s.closes(']', i == 0); i++ {
			s.peek()
			before := s.offset()
			if !yield(i) {
				return
			}
			if s.err == nil && s.offset() == before {
				s.skip()
			}
		}
	}
}

// open enters an object or array. Another value is passed over.
func (s *scanner) open(bracket byte) bool {
	if !s.take(bracket) {
		if s.err == nil {
			s.skip()
		}
		return false
	}
	if s.nesting++; s.nesting > maxNesting {
		s.nesting--
		s.fail("it is nested more than %d deep", maxNesting)
		return false
	}
	return true
}

// closes reports whether an object or array ends here, or the scanner has.
func (s *scanner) closes(bracket byte, first bool) bool {
	switch c := s.peek(); {
	case s.err != nil:
		return true
	case c == bracket:
		s.pos++
		return true
	case first:
		return false
	case c == ',':
		s.pos++
		return false
	default:
		s.fail("%q stands where a comma or %q should", c, bracket)
		return true
	}
}

// skip passes over a value.
func (s *scanner) skip() {
	switch s.peek() {
	case '{':
		for range s.object() {
		}
	case '[':
		for range s.array() {
		}
	case '"':
		s.pos++
		s.skipString()
	default:
		s.literal()
	}
}

// literal reads a number, true, false or null. What it returns is valid until the next call.
func (s *scanner) literal() []byte {
	token := s.scratch[:0]
	for s.err == nil {
		i := s.pos
		for i < s.end && !delimiter(s.buf[i]) {
			i++
		}
		token = append(token, s.buf[s.pos:i]...)
		s.pos = i
		if len(token) > maxLiteral {
			s.fail("a number has more than %d digits", maxLiteral)
		}
		if i < s.end || s.source == nil || !s.fillOrEnd() {
			break
		}
	}
	s.scratch = token
	if s.err == nil && !json.Valid(token) {
		s.fail("%.20q is no value", token)
	}
	return token
}

func delimiter(c byte) bool {
	switch c {
	case ',', ']', '}', ':', ' ', '\t', '\r', '\n', '"', '[', '{':
		return true
	}
	return false
}

// number reads a number.
func (s *scanner) number() float64 {
	c := s.peek()
	if c != '-' && (c < '0' || c > '9') {
		s.skip()
		return 0
	}
	n, err := strconv.ParseFloat(string(s.literal()), 64)
	if err != nil {
		return 0 // out of range
	}
	return n
}

// isTrue reads a boolean.
func (s *scanner) isTrue() bool {
	if c := s.peek(); c != 't' && c != 'f' {
		s.skip()
		return false
	}
	return string(s.literal()) == "true"
}

// text reads a string of at most limit bytes, and says whether there was more.
func (s *scanner) text(limit int) (text string, cut bool) {
	if !s.take('"') {
		s.skip()
		return "", false
	}
	s.scratch, cut = s.appendString(s.scratch[:0], limit)
	s.kept += len(s.scratch)
	return string(s.scratch), cut
}

// texts reads a list of strings.
func (s *scanner) texts(b bounds) []string {
	var list []string
	for range s.array() {
		text, _ := s.text(b.text)
		list = append(list, text)
	}
	return list
}

// id reads a string that has to be one.
func (s *scanner) id() string {
	if c := s.peek(); c != '"' && c != 'n' {
		s.fail("%q stands where an id should", c)
	}
	id, _ := s.text(maxKey)
	return id
}
