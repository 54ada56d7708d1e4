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

// cost is that of the result in the brief, with so much room for its body.
func (r result) cost(room int) int {
	return utf8.RuneCountInString(r.heading) + 1 + r.body.cost(room) + len(separator)
}

func (d dependencies) fit(room int) (string, []boulder.File) {
	var rest []string
	var files []boulder.File
	shown := d.shown(room)
	if shown < len(d.results) {
		total := characters(d.results)
		rest = append(rest, notice(characters(d.results[shown:]), total, d.path))
		files = append(files, boulder.File{Path: d.path, Text: join(d.results)})
		room -= noticeLen(total, d.path) + len(separator)
	}
	level := d.level(room, d.results[:shown])
	texts := make([]string, 0, shown+len(rest))
	for _, r := range d.results[:shown] {
		body, file := r.body.fit(level)
		texts = append(texts, r.heading+"\n"+body)
		files = append(files, file...)
	}
	return strings.Join(append(texts, rest...), separator), files
}

// characters are those of the results as they are joined.
func characters(results []result) int {
	sum := -len(separator)
	for _, r := range results {
		sum += r.cost(r.body.total)
	}
	return sum
}

// shown is how many results find room, if only with a notice.
func (d dependencies) shown(room int) int {
	collective := noticeLen(characters(d.results), d.path)
	sum := -len(separator)
	fits := 0
	for i, r := range d.results {
		sum += r.cost(0)
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
			sum += r.cost(level)
		}
		return sum > room
	}
	if !overflows(d.each) {
		return d.each
	}
	return max(0, sort.Search(d.each, func(level int) bool { return overflows(level + 1) }))
}

func join(results []result) string {
	texts := make([]string, len(results))
	for i, r := range results {
		texts[i] = r.heading + "\n" + r.body.text
	}
	return strings.Join(texts, separator)
}
