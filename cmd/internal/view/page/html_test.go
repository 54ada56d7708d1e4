package page_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/cmd/internal/view/page"
)

func TestHTML(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	o := page.HTML(&b)
	o.Heading("Gates & <more>")
	o.Item(2, o.Mark(page.Good), " ", o.Strong("a\nb"), " ", o.Code("<x>"), " ", o.Bold("→ "+o.As(page.Bad, "red")), " ", o.Dim("rest"))
	o.Output(1, 1, "one\ntwo <b>\x1b[31m")
	o.Say()
	_, _ = io.WriteString(o, "<i>")
	want := `<h2>Gates &amp; &lt;more&gt;</h2>
<p class="d2"><span class="good">✓</span> <b>a b</b> <code>&lt;x&gt;</code> <b>→ <span class="bad">red</span></b> <span class="dim">rest</span></p>
<pre tabindex="0" class="d1">one
two &lt;b&gt;</pre>
&lt;i&gt;`
	if got := b.String(); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// TestProse: Markdown of agents reads as such, and brings no HTML, no picture, no heading of the page, and no link but to the web.
func TestProse(t *testing.T) {
	t.Parallel()
	for of, want := range map[string]string{
		"# Done\nAll **three** in `a.go`:\n- one\n- two\n\n3 < 4 & <b>bold</b>": "<p><b>Done</b></p>\n<p>All <strong>three</strong> in <code>a.go</code>:</p>\n" +
			"<ul>\n<li>one</li>\n<li>two</li>\n</ul>\n<p>3 &lt; 4 &amp; &lt;b&gt;bold&lt;/b&gt;</p>\n",
		"line\nline": "<p>line<br />\nline</p>\n",
		"<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>": "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>\n<p>&lt;img src=x onerror=alert(1)&gt;</p>\n",
		"![plan](https://h/p.png) [a](src/a.go) [b](javascript:x) [c](https://h/\"x)": `<p><a rel="nofollow noreferrer" href="https://h/p.png">plan</a> a b ` +
			`<a rel="nofollow noreferrer" href="https://h/%22x">c</a></p>` + "\n",
		"|a|b|\n|-|-:|\n|1|2|":     "<table>\n<thead>\n<tr>\n<th>a</th>\n<th>b</th>\n</tr>\n</thead>\n<tbody>\n<tr>\n<td>1</td>\n<td>2</td>\n</tr>\n</tbody>\n</table>\n",
		"```go\nx := \"<b>\"\n```": "<pre><code class=\"language-go\">x := &quot;&lt;b&gt;&quot;\n</code></pre>\n",
	} {
		if got := page.Prose(of); got != want {
			t.Errorf("%q:\n%s\nwant:\n%s", of, got, want)
		}
	}
}

// No text opens or closes an element, whatever its style.
func TestHTMLOfAnyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"<script>", "</p>", `"`, "'", "&", "&lt;", "\x1b[", "\x1b[m", "\x1b[31m", "\x1b[1;31m", "\x1b]0;x\x07", "\x9b31m", "m", "\x00", "]]>",
			"\n", "# ", "- ", "```", "| a | b |\n|-|-|\n", "[x](javascript:x)", "![x](https://h/p.png)", "<https://h>", "<!-- ", "**", "> ", "[x](//h)",
		})))
		foreign := strings.Join(pieces.Draw(t, "text"), "")
		var b strings.Builder
		o := page.HTML(&b)
		o.Item(1, o.Strong(foreign), o.Code(foreign), foreign, o.Dim(o.Green(foreign)))
		o.Text(1, foreign)
		o.Output(1, 3, foreign)
		o.Heading(foreign)
		_, _ = io.WriteString(o, foreign)
		known := map[string]bool{"page": true, "p": true, "b": true, "code": true, "span": true, "pre": true, "h2": true,
			"div": true, "a": true, "em": true, "strong": true, "ul": true, "ol": true, "li": true, "blockquote": true, "hr": true, "br": true,
			"table": true, "thead": true, "tbody": true, "tr": true, "th": true, "td": true}
		for d := xml.NewDecoder(strings.NewReader("<page>" + b.String() + "</page>")); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatalf("%v in:\n%s", err, b.String())
			}
			if e, is := token.(xml.StartElement); is && !known[e.Name.Local] {
				t.Fatalf("<%s> in:\n%s", e.Name.Local, b.String())
			}
		}
	})
}
