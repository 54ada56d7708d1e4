package page

import (
	"fmt"
	"html"
	"io"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// HTML is a stream of the same calls as parts of a page. Whatever is written is escaped, also by [io.Writer.Write]: only the
// calls make elements, and only the styles of [Paint] spans in them.
func HTML(w io.Writer) Out {
	return Out{Paint: Paint{On: true}, Writer: escaped{w}, raw: w}
}

type escaped struct{ io.Writer }

func (w escaped) Write(p []byte) (int, error) {
	_, err := io.WriteString(w.Writer, Markup(string(p)))
	return len(p), err
}

// element writes one with a clean or foreign text in it.
func (o Out) element(depth int, name, attributes, s string) {
	if depth > 0 {
		attributes += fmt.Sprintf(` class="d%d"`, min(depth, 6))
	}
	fmt.Fprintf(o.raw, "<%s%s>%s</%[1]s>\n", name, attributes, Markup(s))
}

// tags are what the styles of [Paint] become.
var tags = map[string]string{
	"1": "<b>", "2": `<span class="dim">`, "4": "<code>", "31": `<span class="bad">`, "32": `<span class="good">`,
	"33": `<span class="warn">`, "36": `<span class="live">`,
}

// Markup escapes a text for HTML. The styles of [Paint] become elements; nothing else that controls a terminal is left.
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
		case style == "": // the end of all styles
			b.WriteString(open)
			open, s = "", rest
		}
	}
}
