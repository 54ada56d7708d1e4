package web

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project/report"
)

func (s *Site) task(r *http.Request) (*Page, error) {
	read, err := s.read(r.Context(), r.PathValue("id"), false)
	if read == nil {
		return nil, err
	}
	b, id := read.Boulder, r.PathValue("task")
	at := slices.IndexFunc(read.SubTasks, func(t *boulder.SubTask) bool { return t.ID == id })
	if at < 0 {
		return nil, fmt.Errorf("%w: boulder %s has no sub-task %q", boulder.ErrNotFound, boulder.ShortID(b.ID), id)
	}
	t := read.SubTasks[at]
	p := s.page(text.Clip(t.Subject, 80), "")
	p.Event = b.Seq
	turns := boulder.Turns(read.Events, id)
	p.add("orders", "", s.html("orders", map[string]any{
		"B": b, "T": t, "Now": view.NewWhy(read.Reading, t).Now, "Cells": cellsOfTask(read, t),
		"Open": !b.Status.Terminal() && !t.Status.Terminal(), "Retry": !b.Status.Terminal() &&
			!slices.Contains([]boulder.SubTaskStatus{boulder.SubTaskCompleted, boulder.SubTaskSkipped, boulder.SubTaskSuperseded}, t.Status),
		"Done": t.Status == boulder.SubTaskCompleted, "Redo": !b.Closed() &&
			(t.Status == boulder.SubTaskCompleted || b.Status.Terminal() && t.Status != boulder.SubTaskSuperseded),
	}))
	mine := func(b *report.Blocker) bool { return b.SubTaskID == id && b.Awaited }
	if raised := read.Raised(); slices.ContainsFunc(raised, func(b report.Blocker) bool { return mine(&b) }) {
		p.add("needs", "Needs you", s.html("needs", map[string]any{"Waiting": "it waits for your answer"}))
		s.asks(p, raised, read.Now, taskPath(b.ID, id), mine)
	}
	p.add("told", "What it was told to do", s.told(read, t, turns, p.Frozen))
	p.add("talk", "Turns", s.talk(read, t, turns))
	p.add("files", "Files", s.html("changes", s.patchOf(r.Context(), read, id)))
	said, saidErr := transcripts(b.Project, turns)
	p.add("said", "Transcripts", s.html("transcripts", said))
	return s.unread(p, errors.Join(err, saidErr)), nil
}

func cellsOfTask(r *reading, t *boulder.SubTask) []cell {
	used, worked, turns, limit := t.Usage, t.Worked, 0, budgetOf(t.Budget)
	for _, a := range r.Attempts {
		if a.SubTaskID != t.ID {
			continue
		}
		used, turns = used.Add(a.Running()), a.Turns
		if !a.RunningSince.IsZero() && r.Running() {
			worked += r.Now.Sub(a.RunningSince)
		}
	}
	model := cell{
		Name: "Model", Value: view.ModelName(boulder.WithEffort(t.Model, t.Effort)), Of: text.Prefixed("agent ", t.Agent), Wide: true,
	}
	if t.Attempts == 0 {
		return []cell{model}
	}
	added, removed := 0, 0
	for _, f := range t.Changes {
		added, removed = added+max(0, f.Added), removed+max(0, f.Removed)
	}
	return []cell{
		{Name: "Attempt", Value: fmt.Sprint(t.Attempts), Of: text.If(turns > 0, fmt.Sprintf("turn %d", turns))},
		limited(cell{Name: "Worked", Value: text.Elapsed(worked)}, worked, time.Duration(limit.Time), text.Elapsed),
		limited(cell{Name: "Cost", Value: cost(used)}, used.Cost, limit.Cost, dollars),
		limited(cell{Name: "Tokens", Value: text.Count(used.Tokens())}, used.Tokens(), limit.Tokens, text.Count),
		{Name: "Changed", Value: text.Plural(len(t.Changes), "file"), Of: fmt.Sprintf("+%d −%d", added, removed)},
		model,
	}
}

// check is a criterion or a gate, and how it stands.
type check struct {
	Class, Sign, Text, Why      string
	Command, Said, Took, Output string // of a gate
}

func signed(sign page.Sign) (class, shown string) {
	return map[page.Sign]string{page.Good: "good", page.Bad: "bad", page.Doubtful: "doubt"}[sign], sign.String()
}

// told shows what a sub-task has to do, and what decides whether it is done. In a frozen file it has a heading of its
// own.
func (s *Site) told(r *reading, t *boulder.SubTask, turns []boulder.Turn, frozen bool) template.HTML {
	var judged []boulder.Criterion
	for _, turn := range turns {
		if turn.Verdict != nil && len(turn.Verdict.Criteria) > 0 {
			judged = turn.Verdict.Criteria
		}
	}
	var criteria []check
	for i, of := range t.SuccessCriteria {
		c := check{Text: of}
		c.Class, c.Sign = "idle", page.Idle.String()
		if i < len(judged) {
			c.Class, c.Sign = signed(page.GoodIf(judged[i].Met))
			c.Text, c.Why = judged[i].Criterion, judged[i].Evidence
		}
		criteria = append(criteria, c)
	}
	return s.html("told", map[string]any{
		"T": t, "Frozen": frozen, "Criteria": criteria, "Gates": gatesOf(r, t),
		"Hints": printed(func(o page.Out) { view.PrintGateHints(o, 1, t.GateHints) }),
		"Rest": printed(func(o page.Out) {
			o.Fields(1, "writes", strings.Join(t.Writes, ", "), "outputs", strings.Join(t.Outputs, ", "),
				"decided by", strings.Join(t.DoneWhen, ", "), "budget", view.Budget(t.Budget), "summary", t.Summary)
		}),
	})
}

// gatesOf returns the gates of a sub-task with their newest runs.
func gatesOf(r *reading, t *boulder.SubTask) (all []check) {
	commands := slices.Concat(t.Gates, t.NoWorse)
	for _, g := range t.GateRuns {
		if !slices.Contains(commands, g.Command) {
			commands = append(commands, g.Command)
		}
	}
	for _, command := range commands {
		c := check{Command: command, Said: "has not run yet", Class: "idle", Sign: page.Idle.String()}
		if ran := boulder.GateOf(t.GateRuns, command); ran != nil {
			c = gateCheck(*ran, t.GreenBefore(command))
		} else if before := boulder.GateOf(t.Baseline, command); before != nil {
			c.Said = "was " + cmp.Or(text.If(before.Green(), "green"), "red") + " before the work"
		}
		c.Said += text.Prefixed(", taken over from ", r.Boulder.GateOrigin(t, r.SubTasks, command))
		all = append(all, c)
	}
	for _, g := range t.NoGates {
		all = append(all, check{
			Command: g.Command, Said: "is no gate: " + g.NeverEnded(), Class: "idle", Sign: page.Dropped.String(),
		})
	}
	return all
}

func gateCheck(g boulder.Gate, greenBefore bool) check {
	of := report.NewGate(g)
	of.GreenBefore = greenBefore && of.Result == report.GatePassed
	c := check{Command: g.Command, Said: of.Text() + text.Prefixed(": ", of.Why), Took: text.Millis(of.DurationMS), Output: of.Output}
	c.Class, c.Sign = signed(view.GateSign(of))
	return c
}

// attempt is a part of the conversation with the agents of a sub-task.
type attempt struct {
	Name, Facts string
	Steps       []*step
}

// step is what somebody said or did.
type step struct {
	ID, Who, Kind, Tone string
	Time                time.Time
	Line                string
	Prose               string // in full
	Name, Text          string // folded
	Plain, Bold         bool   // only a line
	Rest                template.HTML
	Gates               []check
}

// talk shows the turns of a sub-task as a conversation.
func (s *Site) talk(r *reading, t *boulder.SubTask, turns []boulder.Turn) template.HTML {
	claimed := boulder.Claimed(r.SubTasks)
	all := []*attempt{}
	for i, e := range view.NewWhy(r.Reading, t).Chain {
		if e.Step == "attempt" || len(all) == 0 {
			all = append(all, &attempt{Name: "Before the first attempt"})
		}
		at := all[len(all)-1]
		if e.Step == "attempt" {
			at.Name = fmt.Sprintf("Attempt %d", e.Attempt)
			at.Facts = text.JoinedBy(", ", view.ModelName(boulder.WithEffort(e.Model, e.Effort)), text.Prefixed("agent ", e.Agent),
				text.Prefixed("session ", e.SessionID), text.If(e.WaitedMS >= 1000, "waited "+text.Millis(e.WaitedMS)+" for its slot"))
			continue
		}
		next := &step{ID: fmt.Sprintf("step-%s-%d", t.ID, i), Who: "manager", Time: e.Time, Line: e.Line, Kind: e.Step}
		next.take(&e, turns, claimed)
		at.Steps = append(at.Steps, next)
		if e.Evidence != nil && len(e.Evidence.Gates) > 0 {
			ran := &step{Who: "gates", Time: e.Time, Kind: "ran"}
			for _, g := range e.Evidence.Gates {
				ran.Gates = append(ran.Gates, gateCheck(g, t.GreenBefore(g.Command)))
			}
			at.Steps = append(at.Steps, ran)
		}
	}
	return s.html("talk", all)
}

// take fills the step from an entry of the chain of decisions.
func (next *step) take(e *view.Entry, turns []boulder.Turn, claimed map[string]bool) {
	switch e.Step {
	case "prompt":
		next.Name = "What it was told"
		for _, t := range turns {
			if t.Attempt == e.Attempt && t.Number == e.Turn {
				next.Text = t.Prompt
			}
		}
	case "nudge":
		next.Tone, next.Name, next.Text = "warn", "What it was told", e.Text
	case "ended":
		next.Who, next.Kind, next.Prose = "agent", "agent", e.Evidence.Words()
		if end := e.Evidence.Ended; end.Error+end.Stopped+end.Truncated == "" {
			next.Line = ""
		} else {
			next.Tone = "warn"
		}
		next.Rest = ended(e.Evidence, claimed)
	case "verdict":
		next.Who, next.Kind, next.Tone = "judge", "judge", map[bool]string{true: "good", false: "warn"}[e.Verdict.Completed]
		next.Rest = printed(func(o page.Out) { view.PrintVerdict(o, 1, e.Verdict) })
	case "gate":
		next.Who, next.Kind, next.Line, next.Gates = "gates", "ran", "on the final files", []check{gateCheck(*e.Gate, false)}
	case "note", "answer":
		next.Who, next.Line, next.Prose = "you", "", e.Line
	case "blocker":
		next.Who, next.Tone = "agent", "warn"
	case "decision":
		next.Plain, next.Bold, next.Tone, next.Line = true, true, e.Decision, "→ "+e.Line
	default:
		next.Plain, next.Tone = true, "warn"
	}
}

// ended shows what a turn did: its calls, folded, and what was found out after it.
func ended(e *boulder.Evidence, claimed map[string]bool) template.HTML {
	var s strings.Builder
	if e.ToolCount > 0 {
		of := text.If(len(e.ToolCalls) > 0 && len(e.ToolCalls) < e.ToolCount, fmt.Sprintf(", the last %d", len(e.ToolCalls)))
		head := text.JoinedBy(" · ", text.Plural(e.ToolCount, "tool call")+of, text.If(e.Duration > 0, text.Elapsed(e.Duration)))
		calls := printed(func(o page.Out) { view.PrintCalls(o, 1, 200, e.ToolCalls) })
		if calls == "" {
			fmt.Fprintf(&s, "<p class=dim>%s</p>", template.HTMLEscapeString(head))
		} else {
			fmt.Fprintf(&s, "<details><summary>%s</summary><div class=calls>%s</div></details>", template.HTMLEscapeString(head), calls)
		}
	}
	s.WriteString(string(printed(func(o page.Out) { view.PrintFound(o, 1, e, claimed) })))
	return template.HTML(s.String())
}

type said struct {
	Attempt int
	Lines   []saidLine
}

// saidLine is a styled line of a transcript. Prompts, reasoning and tool outputs are folded.
type saidLine struct {
	Time       time.Time
	Head, Body string
	Fold       bool
}

func transcripts(dir string, turns []boulder.Turn) (all []said, err error) {
	read, err := view.ReadTranscripts(dir, turns)
	for _, of := range read {
		told, one := view.NewTranscript(page.HTML(nil), true, of, turns), said{Attempt: of.Attempt}
		for _, line := range of.Lines {
			head, body, _ := strings.Cut(told.Tell(line), "\n")
			fold := body != "" && (line.Type == "tool" || line.Type == "reasoning" || line.Type == "prompt")
			one.Lines = append(one.Lines, saidLine{line.Time, head, body, fold})
		}
		all = append(all, one)
	}
	return all, err
}
