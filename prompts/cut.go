package prompts

import (
	"fmt"
	"math"
	"net/url"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const separator = "\n\n"

// length is in characters.
func length(s string) int { return utf8.RuneCountInString(s) }

// section is one part of a brief. With passages, its text and files are made by render.
type section struct {
	heading  string
	text     string
	passages []passage
	limit    int    // of the text
	each     int    // of a passage
	path     string // of the file for all passages together
	files    []boulder.File
}

// passage is a text that may be cut.
type passage struct {
	heading string // with its line break; empty: none
	text    string
	path    string // of the file that holds all of it if it is cut
	whole   string // what the file gets
}

// String is the section as it stands in the brief; nothing, if it has nothing to say.
func (s *section) String() string {
	switch {
	case s.text == "":
		return ""
	case s.heading == "":
		return s.text + separator
	}
	return s.heading + separator + s.text + separator
}

// render shows the passages, short ones whole and long ones equal, and returns the characters of the text. If there are so
// many that not even a notice for each finds room, they are cut as one.
func (s *section) render(room int) int {
	passages, all := s.passages, passage{path: s.path}
	all.text, _ = show(passages, math.MaxInt)
	all.whole = all.text
	overflows := func(level int) bool {
		text, _ := show(passages, level)
		return length(text) > room
	}
	room = min(room, s.limit)
	level := s.each
	if overflows(level) { // hardly ever, and the search is dear
		if overflows(0) {
			passages = []passage{all}
		}
		level = sort.Search(s.limit, func(level int) bool { return overflows(level + 1) })
	}
	s.text, s.files = show(passages, level)
	return length(s.text)
}

// show gives passages, each in at most level characters.
func show(passages []passage, level int) (string, []boulder.File) {
	var texts []string
	var files []boulder.File
	for _, p := range passages {
		said, file := p.fit(level)
		texts, files = append(texts, p.heading+said), append(files, file...)
	}
	return strings.Join(texts, separator), files
}

// fit gives the passage in at most room characters, or in those of the bare notice if these are more, and its file if
// something was cut.
func (p passage) fit(room int) (string, []boulder.File) {
	total := length(p.text)
	longest := length(notice(total, total, p.path)) // of a text that is missing altogether
	if total <= max(room, longest) {
		return p.text, nil
	}
	kept := max(0, room-longest-1)
	said := notice(total-kept, total, p.path)
	if kept > 0 {
		said = text.Head(p.text, kept) + "\n" + said
	}
	return said, []boulder.File{{Path: p.path, Text: p.whole}}
}

func notice(missing, total int, path string) string {
	return fmt.Sprintf("[cut: %d of %d characters; full text: %s]", missing, total, path)
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

// clean makes text valid UTF-8 without blank lines around it.
func clean(text string) string {
	return strings.TrimRight(strings.TrimLeft(strings.ToValidUTF8(text, "\uFFFD"), "\r\n"), " \t\r\n")
}

// dirName keeps an id that is not of letters, digits, - and _ from leading out of its directory, or to one of our
// files: a plan that a program made may not have been checked.
func dirName(id string) string { return strings.ReplaceAll(url.QueryEscape(id), ".", "%2E") }
