package prompts

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Bounds of a brief, in characters, including headings within a part and notices of cuts.
const (
	// maxBrief yields only to what is never cut: goal, constraints, the sub-task's content, criteria, outputs and
	// commands, triage, headings, notices, and texts shorter than their notice.
	maxBrief        = 24_000
	maxRequest      = 8_000
	maxDependency   = 4_000 // of one result; shorter ones are given whole
	maxDependencies = 10_000
	maxNotes        = 4_000 // at least the newest one whole
	maxAnswersKept  = 8_000 // at least the newest one whole
	maxFailures     = 2_500 // four digests of full length
	maxFacts        = 2_000 // of the planning; and of those found since
	maxFinished     = 2_000 // some twenty lines
)

// Input is what a brief is made from: stored records only.
type Input struct {
	BoulderID string
	RunsDir   string // absolute; full texts of cuts go below it
	Plan      boulder.Plan
	SubTask   boulder.SubTask
	// Dependencies are the direct ones, completed or skipped by the user. If there is no room for all, the first win.
	Dependencies []*boulder.SubTask
	NewFacts     []string           // noted by judges since the plan was made, oldest first
	News                            // about the whole job and this sub-task
	Isolated     bool               // it works in a slot
	Conflict     *Conflict          // what kept an earlier result from being integrated; nil: nothing
	Diversion    boulder.Diversion  // empty: blockers are not diverted
	Finished     []*boulder.SubTask // others that are over; if there is no room for all, the first win
}

// absolute returns the absolute path of a transcript, since agents may work in a slot.
func (in Input) absolute(transcript string) string {
	return filepath.Join(in.RunsDir, "../..", transcript)
}

// Build writes the brief of an attempt. Its Files are exactly those that cuts in its text name. They lie in
// RunsDir/BoulderID; those of a sub-task in a directory of its id (api/output.md). A path that several briefs name has
// the same text in all of them, so it does not matter which one writes it.
func Build(in Input) boulder.Brief {
	t := &in.SubTask
	file := func(subTask, name string) string {
		return filepath.Join(in.RunsDir, dirName(in.BoulderID), dirName(subTask), name)
	}
	cuttable := func(heading, text, path string, limit int) *section {
		return &section{heading: heading, limit: limit, each: limit, path: path, passages: []passage{{"", text, path, text}}}
	}
	data := func(heading, said, path string, limit int) *section {
		s := cuttable(heading, said, path, limit)
		s.passages[0].text = text.Quote(said)
		return s
	}
	task := clean(in.Plan.Task)
	if task == clean(t.Description) {
		task = ""
	}
	request := cuttable("## The request that the whole job comes from", task, file("", "request.md"), maxRequest)
	answers := cuttable("## Answers of the user\n\n"+
		"The planner or earlier sessions asked. What was answered takes precedence over the rest of this brief. The newest comes first.",
		newestFirst(in.Answers), file(t.ID, "answers.md"), maxAnswersKept)
	notes := cuttable("## Notes of the user\n\n"+
		"They came while the job was under way and take precedence over the rest of this brief. The newest comes first.",
		newestFirst(in.Notes), file(t.ID, "notes.md"), maxNotes)
	results := &section{
		heading: "## Results this sub-task builds on\n\nThey come from other sessions.",
		limit:   maxDependencies, each: maxDependency, path: file(t.ID, "dependencies.md"),
	}
	for _, d := range in.Dependencies {
		out, heading := outcome(d), "### "+d.ID+": "+text.Short(d.Subject, 200)+"\n"+
			text.If(d.Transcript != "", "Transcript of its session, to look things up: "+in.absolute(d.Transcript)+"\n")
		results.passages = append(results.passages, passage{heading, text.Quote(out), file(d.ID, "output.md"), out})
	}
	failures := data("## Earlier tries at this sub-task failed\n\n"+
		"Find out what is left of them in the files, and do not go the same way again. The newest comes first.",
		failures(in), file(t.ID, "failures.md"), maxFailures)
	earlier := data("## This was done before, and is to be done again", earlierResult(t), file(t.ID, "earlier.md"), maxFailures)
	learned := data("## Found out by other sub-tasks\n\nThe newest comes first.", newestFirst(in.NewFacts),
		file(t.ID, "new-facts.md"), maxFacts)
	finishedOthers := data("## Other sub-tasks that are over", finished(in.Finished), file(t.ID, "finished.md"), maxFinished)
	looked := data("## Found in the project by a look before the planning", found(in.Plan.Facts, t.Found), file(t.ID, "found.md"), maxFacts)
	undecided := data("## What nobody has decided\n\nThe user was not asked. Go by the default.",
		defaults(in.Plan.Facts, t.Questions), file(t.ID, "defaults.md"), maxFacts)
	facts := data("## Facts from the planning", facts(in.Plan.Facts), file("", "facts.md"), maxFacts)

	sections := []*section{
		{text: opening(in)},
		{heading: "## Goal of the whole job", text: text.Fold(in.Plan.Goal)},
		{heading: "## Constraints\n\nThey hold for everything you do.", text: bullets(in.Plan.Constraints)},
		request,
		{heading: "## Your sub-task", text: work(t, in.Diversion)},
		{heading: "## It has to be integrated with other work", text: in.Conflict.text()},
		{heading: triageHeading, text: triage(in.Diversion)},
		answers, notes, undecided, results,
		{heading: "## An earlier session began this", text: interrupted(t)},
		earlier, failures, looked, learned, finishedOthers, facts,
		{heading: "## When you are done", text: closing(t)},
	}
	// Give what can be cut its least, and the remaining room to the most urgent: an attempt needs the results that it
	// builds on, but can usually do without the list of what else was done.
	urgency := []*section{answers, notes, undecided, results, failures, earlier, request, looked, learned, facts, finishedOthers}
	least := make([]int, len(urgency))
	for i, s := range urgency {
		least[i] = s.render(0)
	}
	room := maxBrief
	for _, s := range sections {
		room -= length(s.String())
	}
	for i, s := range urgency {
		room -= s.render(least[i]+max(0, room)) - least[i]
	}
	var brief boulder.Brief
	for _, s := range sections {
		brief.Text += s.String()
		brief.Files = append(brief.Files, s.files...)
	}
	brief.Text = strings.TrimSuffix(brief.Text, "\n")
	return brief
}

func newestFirst(items []string) string {
	var all []string
	for _, item := range slices.Backward(items) {
		all = append(all, within(item))
	}
	return bullets(all)
}
