package providers

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// lenient rewrites a balanced value so that slips which have exactly one reading become JSON: trailing commas,
// comments, other languages' words for true, false and null, single-quoted strings, raw line breaks and tabs inside of
// strings, escapes that JSON does not know, typographic blanks and full-width colons and commas outside of strings.
// Everything else is left as it is, for the decoder to refuse. Valid JSON keeps its meaning.
func lenient(src []byte) []byte {
	out := make([]byte, 0, len(src)+16)
	for i := 0; i < len(src); {
		c := src[i]
		if c == '"' || c == '\'' {
			end := stringLen(src[i:])
			if end < 0 {
				return append(out, src[i:]...)
			}
			out = appendString(out, src[i+1:i+end-1])
			i += end
			continue
		}
		if n := commentLen(src[i:]); n > 0 {
			i += n
			continue
		}
		if c == '}' || c == ']' {
			out = dropTrailingComma(out)
		}
		if word, n := constant(src[i:]); n > 0 && (i == 0 || !isWord(src[i-1])) {
			out = append(out, word...)
			i += n
			continue
		}
		if mark, n := foreignMark(src[i:]); n > 0 {
			out = append(out, mark)
			i += n
			continue
		}
		out = append(out, c)
		i++
	}
	return out
}

// appendString writes the inside of a string of either quote as a JSON string.
func appendString(out, inside []byte) []byte {
	out = append(out, '"')
	for i := 0; i < len(inside); i++ {
		switch c := inside[i]; {
		case c == '\\':
			n := escapeLen(inside[i:])
			if n == 0 { // \d, \_ or C:\Users: nothing but a literal backslash can be meant
				out = append(out, `\\`...)
				continue
			}
			if i+1 < len(inside) && inside[i+1] == '\'' { // \' is an escape in Python only
				out = append(out, '\'')
			} else {
				out = append(out, inside[i:i+n]...)
			}
			i += n - 1
		case c == '"': // only possible inside of single quotes
			out = append(out, `\"`...)
		case c < 0x20:
			out = appendControl(out, c)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}

// escapeLen gives the length of the escape that src begins with, or 0 if neither JSON nor Python knows it.
func escapeLen(src []byte) int {
	if len(src) < 2 {
		return 0
	}
	switch src[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't', '\'':
		return 2
	case 'u':
		if len(src) >= 6 && isHex(src[2:6]) {
			return 6
		}
	}
	return 0
}

func isHex(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

func appendControl(out []byte, c byte) []byte {
	switch c {
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	default:
		return fmt.Appendf(out, `\u%04x`, c)
	}
}

// dropTrailingComma removes one comma at the end of out, which stands before a closing bracket. A comma that follows an
// opening bracket or another comma stays: something is missing there.
func dropTrailingComma(out []byte) []byte {
	trimmed := bytes.TrimRight(out, " \t\r\n")
	head, ok := bytes.CutSuffix(trimmed, []byte(","))
	if !ok {
		return out
	}
	before := bytes.TrimRight(head, " \t\r\n")
	if len(before) == 0 || bytes.IndexByte([]byte("[{,:"), before[len(before)-1]) >= 0 {
		return out
	}
	return head
}

// constant gives the JSON word for the constant of Python, SQL or a shout that src begins with, and its length.
func constant(src []byte) (word string, length int) {
	for _, c := range [...]struct{ other, json string }{
		{"True", "true"}, {"False", "false"}, {"None", "null"}, {"TRUE", "true"}, {"FALSE", "false"}, {"NULL", "null"},
	} {
		if rest, ok := bytes.CutPrefix(src, []byte(c.other)); ok && (len(rest) == 0 || !isWord(rest[0])) {
			return c.json, len(c.other)
		}
	}
	return "", 0
}

// foreignMark gives the JSON mark for the one that src begins with, if it is typed on another keyboard, and its length.
func foreignMark(src []byte) (mark byte, length int) {
	if src[0] < utf8.RuneSelf {
		return 0, 0
	}
	switch r, n := utf8.DecodeRune(src); {
	case r == '\uFF1A': // :
		return ':', n
	case r == '\uFF0C' || r == '\u3001': // , and the enumeration comma
		return ',', n
	case isForeignSpace(r):
		return ' ', n
	}
	return 0, 0
}

// isForeignSpace reports whether r is invisible outside of strings, and still nothing that JSON knows.
func isForeignSpace(r rune) bool {
	switch r {
	case '\u200B', '\u200C', '\u200D', '\u2060', '\uFEFF':
		return true
	}
	return r >= utf8.RuneSelf && unicode.IsSpace(r)
}

func isWord(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
