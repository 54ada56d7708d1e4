package handoff

import (
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
	// Dependencies are the direct ones, all completed, or skipped by a person. When there is not room for every one, the first ones win.
	Dependencies []boulder.SubTask
	// NewFacts are what judges noted since the plan was made, oldest first.
	NewFacts []string
	// Notes are what people noted while the job was under way, oldest first.
	Notes []string
	// Finished are other sub-tasks that are over. When there is not room for every one, the first ones win.
	Finished []*boulder.SubTask
}

// Build writes the brief of an attempt. Its Files are those that the cuts in its text name, and no others. They lie in
// RunsDir/BoulderID; what belongs to a sub-task, in a directory of its id there (api/output.md). A path that the briefs
// of several sub-tasks name has the same text in all of them, so it does not matter which one writes it.
func Build(in Input, limits Limits) boulder.Brief {
	b := builder{in: in, limits: limits}
	request, results, failures := b.request(), b.results(), b.failures()
	notes, learned, finished, facts := b.notes(), b.learned(), b.finished(), b.facts()
	brief := layout{
		sections: []*section{
			b.opening(), b.goal(), b.constraints(), request, b.work(), notes, results, failures, learned, finished, facts,
			b.closing(),
		},
		// Without what it builds on an attempt cannot succeed; without the list of what else was done it usually can.
		urgency: []*section{notes, results, failures, request, learned, facts, finished},
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

// String gives the section as it stands in the brief; nothing, if it has nothing to say.
func (s *section) String() string {
	switch {
	case s.text == "":
		return ""
	case s.heading == "":
		return s.text + separator
	}
	return s.heading + separator + s.text + separator
}

func (s *section) render(room int) { s.text, s.files = s.fit(min(room, s.limit)) }

// layout is a brief whose sections have still to agree on the room.
type layout struct {
	sections []*section // in reading order
	urgency  []*section // those that can be cut; the first gets room first
}

// write gives every section the least it needs, and what is left to the most urgent ones.
func (l layout) write(total int) boulder.Brief {
	for _, s := range l.urgency {
		s.render(0)
	}
	spare := total
	for _, s := range l.sections {
		spare -= utf8.RuneCountInString(s.String())
	}
	for _, s := range l.urgency {
		least := utf8.RuneCountInString(s.text)
		s.render(least + max(0, spare))
		spare -= utf8.RuneCountInString(s.text) - least
	}
	var text strings.Builder
	var brief boulder.Brief
	for _, s := range l.sections {
		text.WriteString(s.String())
		brief.Files = append(brief.Files, s.files...)
	}
	brief.Text = strings.TrimSuffix(text.String(), "\n")
	return brief
}
