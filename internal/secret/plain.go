package secret

import (
	"bytes"
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// plain is a text without the escapes of JSON, URLs, HTML, shells and programming languages, nested ones included, and
// without what they add: backslashes, quotes and line breaks, since long lines are folded. A plus is a space. A value
// and each of its printed forms have the same plain text, so one search finds them all.
type plain struct {
	text []byte
	// from and to are the place of each byte in the original.
	from, to []int
}

// maxNesting is how many encodings are taken off. Backslashes before backslashes do not count.
const maxNesting = 5

// escapes are the bytes without which a text is plain.
const escapes = "\\%&'\"+\r\n"

func plainOf(s string) string {
	if !strings.ContainsAny(s, escapes) {
		return s
	}
	return string(newPlain(s, false).text)
}

// newPlain returns the plain form of s, with the places only if they are asked for.
func newPlain(s string, places bool) plain {
	p := plain{text: []byte(s)}
	if places {
		p.from, p.to = make([]int, len(s)), make([]int, len(s))
		for i := range len(s) {
			p.from[i], p.to[i] = i, i+1
		}
	}
	for range maxNesting {
		if !bytes.ContainsAny(p.text, escapes) {
			break
		}
		next := p.peel(places)
		if len(next.text) == len(p.text) && bytes.Equal(next.text, p.text) {
			break
		}
		p = next
	}
	return p
}

// peel takes one encoding off.
func (p plain) peel(places bool) (next plain) {
	next.text = make([]byte, 0, len(p.text))
	for i := 0; i < len(p.text); {
		char, n := unescape(p.text[i:])
		if places {
			for range char {
				next.from, next.to = append(next.from, p.from[i]), append(next.to, p.to[i+n-1])
			}
		}
		next.text = append(next.text, char...)
		i += n
	}
	return next
}

// unescape returns what the first character of s or the escape there stands for, and its length in s.
func unescape(s []byte) (char []byte, n int) {
	switch s[0] {
	case '\'', '"', '\r', '\n':
		return nil, 1
	case '+':
		return []byte{' '}, 1
	case '%':
		if b, ok := hexByte(s[1:]); ok {
			return []byte{b}, 3
		}
	case '&':
		if end := bytes.IndexByte(s[:min(len(s), 40)], ';'); end > 0 {
			entity := string(s[:end+1])
			if char := html.UnescapeString(entity); char != entity {
				return []byte(char), len(entity)
			}
		}
	case '\\':
		return backslash(s)
	}
	return s[:1], 1
}

// backslash is unescape for any number of backslashes and what follows: each level of JSON doubles them.
func backslash(s []byte) (char []byte, n int) {
	for n < len(s) && s[n] == '\\' {
		n++
	}
	if n == len(s) {
		return nil, n
	}
	switch c := s[n]; c {
	case 'n', 'r', '\'', '"', '\n', '\r':
		return nil, n + 1
	case 't', 'b', 'f', 'v', 'a':
		return []byte{map[byte]byte{'t': '\t', 'b': '\b', 'f': '\f', 'v': '\v', 'a': '\a'}[c]}, n + 1
	case 'x':
		if b, ok := hexByte(s[n+1:]); ok {
			return []byte{b}, n + 3
		}
	case 'u', 'U':
		if r, length := codePoint(s[n:]); length > 0 {
			return utf8.AppendRune(nil, r), n + length
		}
	case '0', '1', '2', '3':
		if b, err := strconv.ParseUint(string(s[n:min(n+3, len(s))]), 8, 8); err == nil && n+3 <= len(s) {
			return []byte{byte(b)}, n + 3
		}
	}
	return nil, n // the next step takes the character
}

func hexByte(s []byte) (byte, bool) {
	if len(s) < 2 {
		return 0, false
	}
	b, err := strconv.ParseUint(string(s[:2]), 16, 8)
	return byte(b), err == nil
}

// codePoint reads u002B, U0000002B and u{2B}, and a pair of surrogates with its second backslash.
func codePoint(s []byte) (r rune, length int) {
	digits, length := 4, 5
	switch {
	case s[0] == 'U':
		digits, length = 8, 9
	case len(s) > 1 && s[1] == '{':
		digits = bytes.IndexByte(s[:min(len(s), 10)], '}') - 2
		s, length = slices.Concat([]byte{'u'}, s[2:]), digits+3
	}
	if digits < 1 || len(s) < digits+1 {
		return 0, 0
	}
	v, err := strconv.ParseUint(string(s[1:digits+1]), 16, 32)
	if err != nil {
		return 0, 0
	}
	r = rune(v)
	if !utf16.IsSurrogate(r) {
		return r, length
	}
	rest := bytes.TrimLeft(s[5:min(len(s), 64)], `\`)
	if len(rest) < 5 || rest[0] != 'u' {
		return utf8.RuneError, length
	}
	low, err := strconv.ParseUint(string(rest[1:5]), 16, 32)
	if pair := utf16.DecodeRune(r, rune(low)); err == nil && pair != utf8.RuneError {
		return pair, min(len(s), 64) - len(rest) + 5
	}
	return utf8.RuneError, length
}
