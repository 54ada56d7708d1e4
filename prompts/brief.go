package prompts

import (
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
)

// Input is what a brief is made from: stored records only.
type Input struct {
	BoulderID string
	RunsDir   string // absolute; the files of cuts go below it
	Plan      boulder.Plan
	SubTask   boulder.SubTask
	// Dependencies are the direct ones, all completed, or skipped by a person. When there is not room for every one, the
	// first ones win.
	Dependencies []*boulder.SubTask
	// NewFacts are what judges noted since the plan was made, oldest first.
	NewFacts []string
	// Notes are what people noted while the job was under way, oldest first.
	Notes []string
	// Answers are what people said about blockers of this sub-task, oldest first, see [Answers].
	Answers []string
	// BlockerTool is the name of the tool with which the agent can report what only a person can answer; empty: there is none.
	BlockerTool string
	// Finished are other sub-tasks that are over. When there is not room for every one, the first ones win.
	Finished []*boulder.SubTask
}

// Build writes the brief of an attempt. Its Files are those that the cuts in its text name, and no others. They lie in
// RunsDir/BoulderID; what belongs to a sub-task, in a directory of its id there (api/output.md). A path that the briefs
// of several sub-tasks name has the same text in all of them, so it does not matter which one writes it.
func Build(in Input, limits Limits) boulder.Brief {
	b := builder{in: in, limits: limits, dir: filepath.Join(in.RunsDir, dirName(in.BoulderID))}
	request, results, failures := b.request(), b.results(), b.failures()
	notes, answers := b.notes(), b.answers()
	learned, finished, facts := b.learned(), b.finished(), b.facts()
	brief := layout{
		sections: []*section{
			b.opening(), b.goal(), b.constraints(), request, b.work(), b.triage(), answers, notes, results, b.before(),
			failures, learned, finished, facts, b.closing(),
		},
		// Without what it builds on an attempt cannot succeed; without the list of what else was done it usually can.
		urgency: []*section{answers, notes, results, failures, request, learned, facts, finished},
	}
	return brief.write(limits.Total)
}

// section is one part of a brief. Where fit is set, it gives the text and the files for the room that there is.
type section struct {
	heading string
	text    string
	fit     func(room int) (string, []boulder.File)
	limit   int // of what fit gives
	files   []boulder.File
}

// writeTo writes the section as it stands in the brief; nothing, if it has nothing to say.
func (s *section) writeTo(brief *strings.Builder) {
	if s.text == "" {
		return
	}
	if s.heading != "" {
		brief.WriteString(s.heading)
		brief.WriteString(separator)
	}
	brief.WriteString(s.text)
	brief.WriteString(separator)
}

// size is how many characters that has.
func (s *section) size() int {
	switch {
	case s.text == "":
		return 0
	case s.heading == "":
		return utf8.RuneCountInString(s.text) + len(separator)
	}
	return utf8.RuneCountInString(s.heading) + utf8.RuneCountInString(s.text) + 2*len(separator)
}

// render fits the section into the room that there is, and returns the characters of its text.
func (s *section) render(room int) int {
	if s.fit != nil {
		s.text, s.files = s.fit(min(room, s.limit))
	}
	return utf8.RuneCountInString(s.text)
}

// layout is a brief whose sections have still to agree on the room.
type layout struct {
	sections []*section // in reading order
	urgency  []*section // those that can be cut; the first gets room first
}

// write lays the brief out in at most total characters, or in as many as cannot be cut.
func (l layout) write(total int) boulder.Brief {
	if !l.fits(total) {
		l.share(total)
	}
	return l.text()
}

// text is the brief of sections that have their room.
func (l layout) text() boulder.Brief {
	size := 0
	for _, s := range l.sections {
		size += len(s.heading) + len(s.text) + 2*len(separator)
	}
	var text strings.Builder
	text.Grow(size)
	var brief boulder.Brief
	for _, s := range l.sections {
		s.writeTo(&text)
		brief.Files = append(brief.Files, s.files...)
	}
	brief.Text = strings.TrimSuffix(text.String(), "\n")
	return brief
}

// fits gives every section all the room that it may have, and reports whether there is that much: nearly always.
func (l layout) fits(total int) bool {
	for _, s := range l.urgency {
		if size := s.render(s.limit); len(s.files) > 0 {
			total -= max(0, s.limit-size) // what was cut may take all of it
		}
	}
	for _, s := range l.sections {
		total -= s.size()
	}
	return total >= 0
}

// share gives every section the least it needs, and what is left to the most urgent ones.
func (l layout) share(total int) {
	least := make([]int, len(l.urgency))
	for i, s := range l.urgency {
		least[i] = s.render(0)
	}
	spare := total
	for _, s := range l.sections {
		spare -= s.size()
	}
	for i, s := range l.urgency {
		spare -= s.render(least[i]+max(0, spare)) - least[i]
	}
}
