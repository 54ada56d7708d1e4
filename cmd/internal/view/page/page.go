// Package page writes text for people to a terminal, a Markdown document or an HTML page, from the same calls. Text of
// agents and models must go through [Out.Plain], [Out.Strong], [Out.Faint] or [Out.Code], so that it cannot become
// markup or a control sequence.
package page

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/bouldermgr/manager/internal/text"
)

// Paint colours sanitized text if On. It uses the terminal's 16 colours, which its user chose to be readable.
type Paint struct{ On bool }

func (p Paint) style(s string, style ansi.Style) string {
	if p.On && s != "" {
		s = style.Styled(s)
	}
	return s
}

func (p Paint) color(s string, c ansi.BasicColor) string {
	return p.style(s, ansi.NewStyle().ForegroundColor(c))
}

// Bold is for the subject of a line.
func (p Paint) Bold(s string) string { return p.style(s, ansi.NewStyle().Bold()) }

// Dim is for secondary text.
func (p Paint) Dim(s string) string { return p.style(s, ansi.NewStyle().Faint()) }

// Green is for success.
func (p Paint) Green(s string) string { return p.color(s, ansi.Green) }

// Red is for failure.
func (p Paint) Red(s string) string { return p.color(s, ansi.Red) }

// Yellow is for what waits or needs attention.
func (p Paint) Yellow(s string) string { return p.color(s, ansi.Yellow) }

// Cyan is for running work, and for commands to type.
func (p Paint) Cyan(s string) string { return p.color(s, ansi.Cyan) }

// Out is a stream for people.
type Out struct {
	Paint
	io.Writer
	File     any  // the terminal, or nil
	Columns  int  // of the terminal; 0: that of File
	Markdown bool // write a CommonMark document instead of text for a terminal

	raw io.Writer // not nil: write HTML, see [HTML]
}

// Widest is the maximum width of lines: longer ones are hard to read.
const Widest = 120

// Width returns the width of the terminal in columns, or a default without one.
func (o Out) Width() int { return cmp.Or(o.Columns, SizeOf(o.File).Width) }

// Lines returns the maximum width of lines of text, or 0 if there is no limit, as in a file.
func (o Out) Lines() int {
	if o.Markdown || o.raw != nil || o.File == nil && o.Columns == 0 {
		return 0
	}
	return min(o.Width(), Widest) - 1
}

// Size is the size of a terminal in characters.
type Size struct{ Width, Height int }

// Room returns the maximum height of a picture at the bottom: two thirds of the terminal. Lines that scroll away need
// the rest: a picture that they push out of the terminal cannot be redrawn.
func (s Size) Room() int { return s.Height * 2 / 3 }

// SizeOf returns the size of a terminal, or a default for other streams.
func SizeOf(stream any) Size {
	if f, ok := stream.(interface{ Fd() uintptr }); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return Size{Width: w, Height: h}
		}
	}
	return Size{Width: 100, Height: 30}
}

// Plain returns sanitized text on one line, without markup.
func (o Out) Plain(s string) string {
	if s = text.OneLine(s); o.Markdown {
		return escape(s)
	}
	return s
}

// Strong is [Out.Plain] in bold, for the subject of an item.
func (o Out) Strong(s string) string {
	if s = o.Plain(s); o.Markdown && s != "" {
		return "**" + s + "**"
	}
	return o.Bold(s)
}

// Faint is [Out.Plain], dimmed for secondary text.
func (o Out) Faint(s string) string { return o.Dim(o.Plain(s)) }

// Code formats text to type, or to search for, literally.
func (o Out) Code(s string) string {
	s = text.OneLine(s)
	switch {
	case o.raw != nil:
		return o.style(s, ansi.NewStyle().Underline(true))
	case !o.Markdown || s == "":
		return o.Cyan(s)
	}
	ticks := fence(s, 1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") {
		s = " " + s + " "
	}
	return ticks + s + ticks
}

// Title writes the title of a document.
func (o Out) Title(s string) { o.heading("h1", "", "# ", s, "\n") }

// Heading writes the heading of a section.
func (o Out) Heading(s string) { o.heading("h2", "\n", "## ", s, "") }

func (o Out) heading(element, above, mark, s, below string) {
	switch {
	case o.raw != nil:
		o.element(0, element, "", s)
	case o.Markdown:
		fmt.Fprintf(o, "%s%s%s\n\n", above, mark, o.Plain(s))
	default:
		fmt.Fprintf(o, "%s%s\n%s", above, o.Strong(s), below)
	}
}

// Say writes an [Out.Item] without a margin, or an empty line without parts.
func (o Out) Say(parts ...string) { o.Item(0, parts...) }

// Item writes a list item at a depth from 1, or a line without a margin at depth 0. Terminals get it wrapped with a
// hanging indent. The parts are concatenated and must be sanitized.
func (o Out) Item(depth int, parts ...string) {
	line := strings.TrimRight(strings.Join(parts, ""), " ")
	margin := strings.Repeat("  ", depth)
	switch {
	case o.raw != nil && line == "":
		return
	case o.raw != nil:
		o.element(depth, "p", "", line)
		return
	case o.Markdown && depth > 0:
		line = margin[2:] + "- " + line
	case !o.Markdown:
		line = margin + strings.ReplaceAll(text.Wrap(line, o.Lines()-len(margin)-2), "\n", "\n"+margin+"  ")
	}
	fmt.Fprintln(o, line)
}

// Field writes an item with a name, unless value is empty.
func (o Out) Field(depth int, name, value string) {
	if value = o.Plain(value); value != "" {
		o.Item(depth, o.Faint(name+":"), " ", value)
	}
}

// Fields writes several fields, given as alternating names and values.
func (o Out) Fields(depth int, namesAndValues ...string) {
	for f := range slices.Chunk(namesAndValues, 2) {
		o.Field(depth, f[0], f[1])
	}
}

// Block writes a field. Except in Markdown, a value with several lines goes below the name.
func (o Out) Block(depth int, name, value string) {
	if value = strings.TrimSpace(text.Safe(value)); o.Markdown || !strings.Contains(value, "\n") {
		o.Field(depth, name, value)
		return
	}
	o.Item(depth, o.Faint(name+":"))
	o.Text(depth+1, value)
}

// Text writes a text of any number of lines at a depth, unless it is empty. For Markdown only at depth 0.
func (o Out) Text(depth int, s string) {
	switch s = strings.TrimSpace(text.Safe(s)); {
	case s == "":
	case o.raw != nil:
		fmt.Fprintf(o.raw, `<div class="prose d%d">%s</div>`+"\n", min(depth, 6), Prose(s))
	case o.Markdown && depth == 0: // a quotation whose lines stay lines, and are no markup
		for line := range strings.SplitSeq(s, "\n") {
			fmt.Fprintf(o, "> %s  \n", o.Plain(line))
		}
	default:
		margin := strings.Repeat("  ", depth)
		for line := range strings.SplitSeq(text.Wrap(s, o.Lines()-len(margin)), "\n") {
			fmt.Fprintln(o, strings.TrimRight(margin+line, " "))
		}
	}
}

// Output writes the last lines of a program's output below an item, each cut to 160 characters. HTML gets all of it.
func (o Out) Output(depth, lines int, s string) {
	s = strings.TrimSpace(text.Safe(s))
	switch {
	case s == "":
		return
	case o.raw != nil: // the element scrolls
		o.element(depth, "pre", ` tabindex="0"`, s)
		return
	}
	all := strings.Split(s, "\n")
	all = all[max(0, len(all)-lines):]
	margin := strings.Repeat("  ", depth)
	for i, line := range all {
		if all[i] = text.Cut(line, 160); !o.Markdown {
			all[i] = o.Dim(text.ClipLine(all[i], o.Lines()-len(margin)))
		}
	}
	if o.Markdown {
		margin = margin[2:]
		ticks := fence(strings.Join(all, "\n"), 3)
		all = append(append([]string{ticks + "text"}, all...), ticks)
	}
	for _, line := range all {
		fmt.Fprintln(o, strings.TrimRight(margin+line, " "))
	}
}
