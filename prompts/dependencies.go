package prompts

import (
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
)

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
