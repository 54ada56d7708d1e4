// Package page writes what people read, on a terminal or as a Markdown document, from the same calls. What agents and
// models wrote goes through [Out.Plain], [Out.Strong], [Out.Faint] or [Out.Code]: no text can become a heading, an item,
// a link or a terminal's command.
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

// Paint colours clean text, or leaves it as it is. The colours are the sixteen of the terminal, which its owner chose to
// be readable.
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

// Bold is for what a line is about.
func (p Paint) Bold(s string) string { return p.style(s, ansi.NewStyle().Bold()) }

// Dim is for what can be skipped.
func (p Paint) Dim(s string) string { return p.style(s, ansi.NewStyle().Faint()) }

// Green is for what is done.
func (p Paint) Green(s string) string { return p.color(s, ansi.Green) }

// Red is for what failed.
func (p Paint) Red(s string) string { return p.color(s, ansi.Red) }

// Yellow is for what waits.
func (p Paint) Yellow(s string) string { return p.color(s, ansi.Yellow) }

// Cyan is for what is at work, and for commands to type.
func (p Paint) Cyan(s string) string { return p.color(s, ansi.Cyan) }

// As colours a text like the sign of what it tells.
func (p Paint) As(sign, s string) string {
	switch sign {
	case "✓":
		return p.Green(s)
	case "✗":
		return p.Red(s)
	case "!", "?", "≈", "↻", "✎":
		return p.Yellow(s)
	case "●":
		return p.Cyan(s)
	}
	return p.Dim(s)
}

// Mark is a sign in its colour.
func (p Paint) Mark(sign string) string { return p.As(sign, sign) }

// Out is a stream that people read.
type Out struct {
	Paint
	io.Writer
	File     any  // the terminal behind it; nil: it is none
	Columns  int  // of the terminal; 0: File is asked
	Markdown bool // not for a terminal: a document in CommonMark that GitHub and others show alike

	raw io.Writer // not nil: not for a terminal, but parts of a page, see [HTML]
}

// Widest is how wide lines are at most: what is farther apart is hard to read together.
const Widest = 120

// Width is that of the terminal, in columns; a common one if it is none.
func (o Out) Width() int { return cmp.Or(o.Columns, SizeOf(o.File).Width) }

// Lines is how wide lines of text may be; 0: a file has lines of any length.
func (o Out) Lines() int {
	if o.Markdown || o.raw != nil || o.File == nil && o.Columns == 0 {
		return 0
	}
	return min(o.Width(), Widest) - 1
}

// Size of a terminal, in characters.
type Size struct{ Width, Height int }

// Room is how many lines a picture at the bottom may have: two thirds of the terminal. The rest is for lines that scroll
// away above it: what they push out of the terminal cannot be drawn over any more.
func (s Size) Room() int { return s.Height * 2 / 3 }

// SizeOf is that of a terminal, or a common one if the stream is none.
func SizeOf(stream any) Size {
	if f, ok := stream.(interface{ Fd() uintptr }); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return Size{Width: w, Height: h}
		}
	}
	return Size{Width: 100, Height: 30}
}

// Plain is a text on one line that means nothing but itself.
func (o Out) Plain(s string) string {
	if s = text.OneLine(s); o.Markdown {
		return escape(s)
	}
	return s
}

// Strong is what an item is about.
func (o Out) Strong(s string) string {
	if s = o.Plain(s); o.Markdown && s != "" {
		return "**" + s + "**"
	}
	return o.Bold(s)
}

// Faint is what can be skipped.
func (o Out) Faint(s string) string { return o.Dim(o.Plain(s)) }

// Code is to be typed or found as it is.
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

// Title is the first line of a document.
func (o Out) Title(s string) { o.heading("h1", "", "# ", s, "\n") }

// Heading begins a part of a document.
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

// Say is an [Out.Item] without a margin; nothing is an empty line.
func (o Out) Say(parts ...string) { o.Item(0, parts...) }

// Item is a line at a depth from 1, or without an item's margin at depth 0. On a terminal it is broken between words, and
// goes on a bit deeper. The parts stand behind each other and are clean.
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

// Field is an item with a name; one without a value is left out.
func (o Out) Field(depth int, name, value string) {
	if value = o.Plain(value); value != "" {
		o.Item(depth, o.Faint(name+":"), " ", value)
	}
}

// Fields are several: names and values in turn.
func (o Out) Fields(depth int, namesAndValues ...string) {
	for f := range slices.Chunk(namesAndValues, 2) {
		o.Field(depth, f[0], f[1])
	}
}

// Block is a field whose value may have several lines, which then stand below the name.
func (o Out) Block(depth int, name, value string) {
	if value = strings.TrimSpace(text.Safe(value)); o.Markdown || !strings.Contains(value, "\n") {
		o.Field(depth, name, value)
		return
	}
	o.Item(depth, o.Faint(name+":"))
	o.Text(depth+1, value)
}

// Text is a text of any number of lines at a depth, for terminals; an empty one is left out.
func (o Out) Text(depth int, s string) {
	switch s = strings.TrimSpace(text.Safe(s)); {
	case s == "":
	case o.raw != nil:
		o.element(depth, "pre", "", s)
	default:
		margin := strings.Repeat("  ", depth)
		for line := range strings.SplitSeq(text.Wrap(s, o.Lines()-len(margin)), "\n") {
			fmt.Fprintln(o, strings.TrimRight(margin+line, " "))
		}
	}
}

// Output are the last lines of what a program wrote, each cut to 160 characters, below an item.
func (o Out) Output(depth, lines int, s string) {
	s = strings.TrimSpace(text.Safe(s))
	switch {
	case s == "":
		return
	case o.raw != nil: // all of it: it scrolls
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
