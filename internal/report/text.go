package report

import (
	"io"
	"strings"

	"github.com/bouldermgr/manager/internal/text"
)

// Style colours text for a terminal. A nil function leaves it as it is.
type Style struct {
	Strong, Faint, Code func(string) string
	Good, Bad, Waits    func(string) string
	// Width is that of a line, in columns; 0: lines are as long as they come.
	Width int
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer, style Style) error {
	var b strings.Builder
	for i, x := range r.layout().blocks {
		if x.kind == blockHeading || i == 1 {
			b.WriteByte('\n')
		}
		style.write(&b, x)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Style) write(b *strings.Builder, x block) {
	margin, label := "", ""
	switch x.kind {
	case blockOutput:
		margin = strings.Repeat("  ", x.level+2)
		for line := range strings.Lines(strings.TrimRight(text.Safe(x.spans[0].text), "\n ")) {
			b.WriteString(margin + paint(s.Faint, text.ClipLine(strings.TrimRight(line, "\n"), s.Width-len(margin))) + "\n")
		}
		return
	case blockTitle, blockHeading:
		b.WriteString(paint(s.Strong, text.OneLine(x.spans[0].text)) + "\n")
		return
	case blockItem:
		margin = strings.Repeat("  ", x.level+1)
		if label = s.mark(x.mark); label != "" {
			label += " "
		}
	case blockPara:
	}
	var line strings.Builder
	line.WriteString(label)
	for _, part := range x.spans {
		line.WriteString(s.span(part))
	}
	body := text.Indent(text.Wrap(strings.TrimRight(line.String(), " "), s.Width-len(margin)-2), margin+"  ")
	b.WriteString(margin + strings.TrimPrefix(body, margin+"  ") + "\n")
}

func (s Style) span(x span) string {
	t := squeeze(x.text)
	switch x.kind {
	case spanStrong:
		return paint(s.Strong, t)
	case spanCode:
		return paint(s.Code, t)
	case spanFaint:
		return paint(s.Faint, t)
	}
	return t
}

func (s Style) mark(m mark) string {
	switch m {
	case markGood:
		return paint(s.Good, m.String())
	case markBad:
		return paint(s.Bad, m.String())
	case markWaits, markSoSo:
		return paint(s.Waits, m.String())
	}
	return paint(s.Faint, m.String())
}

func paint(with func(string) string, s string) string {
	if with == nil || s == "" {
		return s
	}
	return with(s)
}
