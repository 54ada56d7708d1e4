package opencode

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// appendString appends at most limit bytes of what a string says, whose opening quote was taken.
func (s *scanner) appendString(dst []byte, limit int) (_ []byte, cut bool) {
	begin := len(dst)
	for s.err == nil {
		if limit-(len(dst)-begin) >= s.end-s.pos { // all that is here may be kept
			dst = s.appendPlain(dst)
		}
		chunk, c := s.chunk()
		if room := limit - (len(dst) - begin); len(chunk) <= room {
			dst = append(dst, chunk...)
		} else {
			return s.endCut(append(dst, chunk[:max(0, room)]...), begin, c), true
		}
		switch c {
		case '"':
			return validUTF8(dst, begin), false
		case '\\':
			r := s.escape()
			if len(dst)-begin+utf8.RuneLen(r) > limit {
				return s.endCut(dst, begin, 0), true
			}
			if r < utf8.RuneSelf {
				dst = append(dst, byte(r))
			} else {
				dst = utf8.AppendRune(dst, r)
			}
		}
	}
	return dst, false
}

// appendPlain is the fast way for what nearly all strings consist of. It stops in front
// of a quote or an escape that takes a closer look, or at the end of what is here.
func (s *scanner) appendPlain(dst []byte) []byte {
	here := s.buf[s.pos:s.end]
	for {
		i := stringEnd(here)
		if i < 0 {
			dst = append(dst, here...)
			here = nil
			break
		}
		dst = append(dst, here[:i]...)
		here = here[i:]
		if here[0] == '"' || len(here) == 1 {
			break
		}
		simple := simpleEscape(here[1])
		if simple == 0 {
			break
		}
		dst = append(dst, simple)
		here = here[2:]
	}
	s.pos = s.end - len(here)
	return dst
}

// endCut passes over the rest of a string that is kept in part. stopped is where chunk did.
func (s *scanner) endCut(dst []byte, begin int, stopped byte) []byte {
	switch stopped {
	case '"':
	case '\\':
		s.escape()
		fallthrough
	default:
		s.skipString()
	}
	return validUTF8(wholeCharacters(dst, begin), begin)
}

// skipString passes over a string, whose opening quote was taken. It does not look at what it says.
func (s *scanner) skipString() {
	escaped := false // the next byte is
	for s.err == nil {
		if escaped {
			s.next()
		}
		here := s.buf[s.pos:s.end]
		i := bytes.IndexByte(here, '"')
		if i < 0 {
			escaped = endsInEscape(here)
			s.pos = s.end
			s.fill()
			continue
		}
		escaped = endsInEscape(here[:i])
		s.pos += i
		if !escaped {
			s.pos++
			return
		}
	}
}

// endsInEscape reports whether the text ends with a backslash that escapes what follows.
func endsInEscape(text []byte) bool {
	n := len(text) - len(bytes.TrimRight(text, `\`))
	return n%2 == 1
}

// chunk consumes a string up to its next quote or backslash, that included, and says
// which it is; 0: the source has to be asked for more.
func (s *scanner) chunk() (text []byte, stop byte) {
	if s.pos == s.end && !s.fill() {
		return nil, 0
	}
	window := s.buf[s.pos:s.end]
	i := stringEnd(window)
	if i < 0 {
		s.pos = s.end
		return window, 0
	}
	s.pos += i + 1
	return window[:i], window[i]
}

// stringEnd finds the first quote or backslash, eight bytes at a time: looking for one of
// the two with bytes.IndexByte goes far past the other, again and again, since lines of
// code have one every few bytes.
func stringEnd(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		eight := binary.LittleEndian.Uint64(b[i:])
		quotes, slashes := eight^('"'*ones), eight^('\\'*ones)
		// A byte that is zero gets its high bit, and so may bytes above it: the lowest is right.
		if found := ((quotes-ones)&^quotes | (slashes-ones)&^slashes) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(b); i++ {
		if b[i] == '"' || b[i] == '\\' {
			return i
		}
	}
	return -1
}

// simpleEscape is what a letter after a backslash stands for; 0 for one that takes a closer look.
func simpleEscape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case '"', '\\', '/':
		return c
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	}
	return 0
}

// escape reads what follows a backslash.
func (s *scanner) escape() rune {
	if s.pos < s.end {
		if simple := simpleEscape(s.buf[s.pos]); simple != 0 {
			s.pos++
			return rune(simple)
		}
	}
	switch c := s.next(); {
	case c == 'u':
		return s.codePoint()
	case simpleEscape(c) != 0:
		return rune(simpleEscape(c))
	default:
		s.fail("\\%c is no escape", c)
		return utf8.RuneError
	}
}

// codePoint reads the digits after \u and, of a pair, the second one. Half a pair becomes U+FFFD.
func (s *scanner) codePoint() rune {
	r := hexRune(s.ahead(4))
	if r < 0 {
		s.fail("\\u has no four digits")
		return utf8.RuneError
	}
	s.pos += 4
	if !utf16.IsSurrogate(r) {
		return r
	}
	if follows := s.ahead(6); len(follows) == 6 && follows[0] == '\\' && follows[1] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(follows[2:])); pair != utf8.RuneError {
			s.pos += 6
			return pair
		}
	}
	return utf8.RuneError
}

// hexRune is negative for what are not four digits.
func hexRune(digits []byte) rune {
	if len(digits) != 4 {
		return -1
	}
	var r rune
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// wholeCharacters drops the beginning of a character at the end.
func wholeCharacters(dst []byte, begin int) []byte {
	for back := 1; back < utf8.UTFMax && len(dst)-back >= begin; back++ {
		if at := len(dst) - back; utf8.RuneStart(dst[at]) {
			if !utf8.FullRune(dst[at:]) {
				return dst[:at]
			}
			break
		}
	}
	return dst
}

// validUTF8 puts U+FFFD in the place of every byte that belongs to no character, as
// encoding/json does.
func validUTF8(dst []byte, begin int) []byte {
	if utf8.Valid(dst[begin:]) {
		return dst
	}
	text := string(dst[begin:])
	dst = dst[:begin]
	for _, r := range text {
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}
