package prompts

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// passage is a text that may be cut, and the file that holds all of it if it is.
type passage struct {
	text  string
	total int // characters
	path  string
	whole string // what the file gets
}

func newPassage(text, path string) passage {
	return passage{text, utf8.RuneCountInString(text), path, text}
}

// newData is a passage that a model or a tool wrote, as it stands in a brief.
func newData(text, path string) passage {
	p := newPassage(quoted(text), path)
	p.whole = text
	return p
}

// quoted marks every line as data. Unlike a pair of fences this still holds where the text is cut, and no line of it can
// open a heading of the brief.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	return "> " + lineBreaks.Replace(text)
}

var lineBreaks = strings.NewReplacer("\r\n", "\n> ", "\n", "\n> ", "\r", "\n> ")

// fit gives the passage in at most room characters, or in those of the bare notice if these are more, and its file if
// something was cut.
func (p passage) fit(room int) (string, []boulder.File) {
	longest := utf8.RuneCountInString(notice(p.total, p.total, p.path)) // of a text that is missing altogether
	if p.total <= max(room, longest) {
		return p.text, nil
	}
	said := ""
	kept := max(0, room-longest-1)
	if kept > 0 {
		said = text.Head(p.text, kept) + "\n"
	}
	return said + notice(p.total-kept, p.total, p.path), []boulder.File{{Path: p.path, Text: p.whole}}
}

func notice(missing, total int, path string) string {
	return fmt.Sprintf("[cut: %d of %d characters; full text: %s]", missing, total, path)
}

// clean makes text valid UTF-8 without blank lines around it.
func clean(text string) string {
	return strings.TrimRight(strings.TrimLeft(strings.ToValidUTF8(text, "\uFFFD"), "\r\n"), " \t\r\n")
}
