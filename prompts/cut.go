package prompts

import (
	"fmt"
	"sort"
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

const separator = "\n\n"

// dependencies are the results that a brief hands on. If there are so many that not even a notice for each finds room,
// the last ones share one notice.
type dependencies struct {
	results []result
	each    int    // characters for one result
	path    string // file for all of them together
}

// result is what one dependency has to hand on.
type result struct {
	heading string
	body    passage
}

// fit shows as many results as find room, short ones whole and long ones equal.
func (d dependencies) fit(room int) (string, []boulder.File) {
	overflows := func(shown, level int) bool {
		text, _ := d.show(shown, level)
		return utf8.RuneCountInString(text) > room
	}
	least, _ := d.show(0, 0)
	room = max(room, utf8.RuneCountInString(least))
	shown := len(d.results)
	if overflows(shown, 0) {
		shown = sort.Search(shown-1, func(n int) bool { return overflows(n+1, 0) })
	}
	return d.show(shown, sort.Search(d.each, func(level int) bool { return overflows(shown, level+1) }))
}

// show gives the first results, each in at most level characters, and one notice for the others.
func (d dependencies) show(shown, level int) (string, []boulder.File) {
	var texts []string
	var files []boulder.File
	for _, r := range d.results[:shown] {
		body, file := r.body.fit(level)
		texts, files = append(texts, r.heading+"\n"+body), append(files, file...)
	}
	if shown < len(d.results) {
		texts = append(texts, notice(characters(d.results[shown:]), characters(d.results), d.path))
		files = append(files, boulder.File{Path: d.path, Text: join(d.results)})
	}
	return strings.Join(texts, separator), files
}

func join(results []result) string {
	var texts []string
	for _, r := range results {
		texts = append(texts, r.heading+"\n"+r.body.text)
	}
	return strings.Join(texts, separator)
}

// characters are those of joined results.
func characters(results []result) int {
	sum := -len(separator)
	for _, r := range results {
		sum += utf8.RuneCountInString(r.heading) + 1 + r.body.total + len(separator)
	}
	return sum
}
