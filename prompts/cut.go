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

func length(s string) int { return utf8.RuneCountInString(s) }

// section is one part of a brief. With passages, render makes its text and files.
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
	path    string // of the file with the whole text, if it is cut
	whole   string // content of that file
}

func (s *section) String() string {
	switch {
	case s.text == "":
		return ""
	case s.heading == "":
		return s.text + separator
	}
	return s.heading + separator + s.text + separator
}

// render cuts the passages to room, short ones whole and long ones equal, and returns the length of the text. If not
// even a notice for each fits, they are cut as one.
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
	if overflows(level) { // rare, and the search is expensive
		if overflows(0) {
			passages = []passage{all}
		}
		level = sort.Search(s.limit, func(level int) bool { return overflows(level + 1) })
	}
	s.text, s.files = show(passages, level)
	return length(s.text)
}

func show(passages []passage, level int) (string, []boulder.File) {
	var texts []string
	var files []boulder.File
	for _, p := range passages {
		said, file := p.fit(level)
		texts, files = append(texts, p.heading+said), append(files, file...)
	}
	return strings.Join(texts, separator), files
}

// fit returns the passage in at most room characters, or in those of the bare notice, and its file if it was cut.
func (p passage) fit(room int) (string, []boulder.File) {
	total := length(p.text)
	longest := length(notice(total, total, p.path)) // if the whole text is missing
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

// clean makes text valid UTF-8 without blank lines around it.
func clean(text string) string {
	return strings.TrimRight(strings.TrimLeft(strings.ToValidUTF8(text, "\uFFFD"), "\r\n"), " \t\r\n")
}

// dirName keeps unchecked ids, as of a program's plan, from leading out of their directory or to one of our files.
func dirName(id string) string { return strings.ReplaceAll(url.QueryEscape(id), ".", "%2E") }
