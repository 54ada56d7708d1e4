package handoff

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

// least is the cost of the result with nothing but a notice for a body.
func (r result) least() int {
	return utf8.RuneCountInString(r.heading) + 1 + r.body.cost(0) + len(separator)
}

func (d dependencies) fit(room int) (string, []boulder.File) {
	if len(d.results) == 0 {
		return "", nil
	}
	rest := passage{text: d.join(d.results), path: d.path}
	shown := d.shown(room, rest)
	var parts []string
	var files []boulder.File
	if shown < len(d.results) {
		total := utf8.RuneCountInString(rest.text)
		missing := utf8.RuneCountInString(d.join(d.results[shown:]))
		parts = append(parts, notice(missing, total, d.path))
		files = append(files, boulder.File{Path: d.path, Text: rest.text})
		room -= rest.noticeLen(total) + len(separator)
	}
	level := d.level(room, d.results[:shown])
	var texts []string
	for _, r := range d.results[:shown] {
		body, file := r.body.fit(level)
		texts = append(texts, r.heading+"\n"+body)
		if file != nil {
			files = append(files, *file)
		}
	}
	return strings.Join(append(texts, parts...), separator), files
}

// shown is how many results find room, if only with a notice.
func (d dependencies) shown(room int, rest passage) int {
	collective := rest.noticeLen(utf8.RuneCountInString(rest.text))
	sum := -len(separator)
	fits := 0
	for i, r := range d.results {
		sum += r.least()
		if sum+len(separator)+collective <= room {
			fits = i + 1
		}
	}
	if sum <= max(room, collective) {
		return len(d.results)
	}
	return fits
}

// level is the greatest length of one result at which all of them find room: short ones are whole, long ones equal.
func (d dependencies) level(room int, results []result) int {
	overflows := func(level int) bool {
		sum := -len(separator)
		for _, r := range results {
			sum += r.least() - r.body.cost(0) + r.body.cost(level)
		}
		return sum > room
	}
	return max(0, sort.Search(d.each, func(level int) bool { return overflows(level + 1) }))
}

func (d dependencies) join(results []result) string {
	var texts []string
	for _, r := range results {
		texts = append(texts, r.heading+"\n"+r.body.text)
	}
	return strings.Join(texts, separator)
}
