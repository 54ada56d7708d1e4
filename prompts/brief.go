package prompts

import (
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
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
	me := in.SubTask.ID
	goal := &section{heading: "## Goal of the whole job", text: text.Fold(in.Plan.Goal)}
	constraints := &section{heading: "## Constraints\n\nThey hold for everything you do.", text: bullets(in.Plan.Constraints)}
	answers := b.passage("## Answers of the person whose job this is\n\n"+
		"Earlier sessions asked. What was answered takes precedence over the rest of this brief. The newest comes first.",
		newestFirst(in.Answers), limits.Answers, me, "answers.md")
	notes := b.passage("## Notes of the person whose job this is\n\n"+
		"They came while the job was under way and take precedence over the rest of this brief. The newest comes first.",
		newestFirst(in.Notes), limits.Notes, me, "notes.md")
	learned := b.data("## Found out by other sub-tasks\n\nThe newest comes first.", newestFirst(in.NewFacts), limits.NewFacts,
		me, "new-facts.md")
	request, results, failures, finished, facts := b.request(), b.results(), b.failures(), b.finished(), b.facts()
	sections := []*section{
		b.opening(), goal, constraints, request, b.work(), b.triage(), answers, notes, results, b.before(), failures, learned,
		finished, facts, b.closing(),
	}
	// Without what it builds on an attempt cannot succeed; without the list of what else was done it usually can.
	share(limits.Total, sections, answers, notes, results, failures, request, learned, facts, finished)
	var brief boulder.Brief
	for _, s := range sections {
		brief.Text += s.String()
		brief.Files = append(brief.Files, s.files...)
	}
	brief.Text = strings.TrimSuffix(brief.Text, "\n")
	return brief
}

// section is one part of a brief. Where fit is set, it gives the text and the files for the room that there is.
type section struct {
	heading string
	text    string
	fit     func(room int) (string, []boulder.File)
	limit   int // of what fit gives
	files   []boulder.File
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

// render fits the section into the room that there is, and returns the characters of its text.
func (s *section) render(room int) int {
	if s.fit != nil {
		s.text, s.files = s.fit(min(room, s.limit))
	}
	return utf8.RuneCountInString(s.text)
}

// share lays out the sections in at most total characters, or in as many as cannot be cut: those that can be cut get the
// least they need, and what is left goes to the most urgent ones, which come first.
func share(total int, sections []*section, urgency ...*section) {
	least := make([]int, len(urgency))
	for i, s := range urgency {
		least[i] = s.render(0)
	}
	for _, s := range sections {
		total -= utf8.RuneCountInString(s.String())
	}
	for i, s := range urgency {
		total -= s.render(least[i]+max(0, total)) - least[i]
	}
}
