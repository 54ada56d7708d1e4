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

// No text opens or closes an element, whatever its style.
func TestHTMLOfAnyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"<script>", "</p>", `"`, "'", "&", "&lt;", "\x1b[", "\x1b[m", "\x1b[31m", "\x1b[1;31m", "\x1b]0;x\x07", "\x9b31m", "m", "\x00", "]]>",
		})))
		foreign := strings.Join(pieces.Draw(t, "text"), "")
		var b strings.Builder
		o := page.HTML(&b)
		o.Item(1, o.Strong(foreign), o.Code(foreign), foreign, o.Dim(o.Green(foreign)))
		o.Text(1, foreign)
		o.Output(1, 3, foreign)
		o.Heading(foreign)
		_, _ = io.WriteString(o, foreign)
		known := map[string]bool{"page": true, "p": true, "b": true, "code": true, "span": true, "pre": true, "h2": true}
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
