package page

import (
	"fmt"
	"html"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bouldermgr/manager/internal/text"
)

// HTML returns a stream that writes the same calls as parts of an HTML page. All text is escaped, also that of Write:
// only the calls make elements, and only the styles of [Paint] make spans.
func HTML(w io.Writer) Out {
	return Out{Paint: Paint{On: true}, Writer: escaped{w}, raw: w}
}

type escaped struct{ io.Writer }

func (w escaped) Write(p []byte) (int, error) {
	_, err := io.WriteString(w.Writer, Markup(string(p)))
	return len(p), err
}

func (o Out) element(depth int, name, attributes, s string) {
	if depth > 0 {
		attributes += fmt.Sprintf(` class="d%d"`, min(depth, 6))
	}
	fmt.Fprintf(o.raw, "<%s%s>%s</%[1]s>\n", name, attributes, Markup(s))
}

// tags maps the styles of [Paint] to HTML.
var tags = map[string]string{
	"1": "<b>", "2": `<span class="dim">`, "4": "<code>", "31": `<span class="bad">`, "32": `<span class="good">`,
	"33": `<span class="warn">`, "36": `<span class="live">`,
}

// Markup escapes a text for HTML. The styles of [Paint] become elements; other control sequences are removed.
func Markup(s string) string {
	var b strings.Builder
	open := ""
	for {
		plain, rest, styled := strings.Cut(s, "\x1b[")
		b.WriteString(html.EscapeString(text.Safe(plain)))
		if s = rest; !styled {
			return b.String() + open
		}
		style, rest, _ := strings.Cut(rest, "m")
		switch tag := tags[style]; {
		case tag != "":
			name, _, _ := strings.Cut(tag[1:len(tag)-1], " ")
			b.WriteString(tag)
			open, s = "</"+name+">"+open, rest
		case style == "": // resets all styles
			b.WriteString(open)
			open, s = "", rest
		}
	}
}

// escape escapes a line of text for Markdown, also at the start of a block: it contains no markup, HTML or entity.
func escape(s string) string {
	var b strings.Builder
	for i, r := range s {
		before, after := s[:i], s[i+utf8.RuneLen(r):]
		next, _ := utf8.DecodeRuneInString(after)
		means := false
		switch r {
		case '\\', '`', '*', '[', ']', '|', '~':
			means = true
		case '_': // inside a word it is literal
			last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(before, "_"))
			next, _ = utf8.DecodeRuneInString(strings.TrimLeft(after, "_"))
			means = !isWord(last) || !isWord(next)
		case '<': // HTML, or a link; not "<0.1s"
			means = after == "" || unicode.IsLetter(next) || strings.ContainsRune("/!?", next)
		case '&': // an entity
			means = after == "" || next == '#' || isWord(next)
		case '$': // a formula, but not a price
			means = next < '0' || next > '9'
		case '-', '+', '=', '#', '>':
			means = before == ""
		case '.', ')': // a numbered list
			means = before != "" && strings.Trim(before, "0123456789") == "" && (after == "" || next == ' ')
		}
		if means {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func isWord(r rune) bool { return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r)) }

// fence returns at least n backticks, more than any run in s.
func fence(s string, n int) string {
	for strings.Contains(s, strings.Repeat("`", n)) {
		n++
	}
	return strings.Repeat("`", n)
}
