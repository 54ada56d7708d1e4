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
	var texts, all []string
	var files []boulder.File
	for i, r := range d.results {
		all = append(all, r.heading+"\n"+r.body.text)
		if i < shown {
			body, file := r.body.fit(level)
			texts, files = append(texts, r.heading+"\n"+body), append(files, file...)
		}
	}
	if shown < len(all) {
		whole := strings.Join(all, separator)
		missing := utf8.RuneCountInString(strings.Join(all[shown:], separator))
		texts = append(texts, notice(missing, utf8.RuneCountInString(whole), d.path))
		files = append(files, boulder.File{Path: d.path, Text: whole})
	}
	return strings.Join(texts, separator), files
}
