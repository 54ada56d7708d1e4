package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// How much is shown to people. The JSON form has everything.
const (
	textShown     = 600 // columns of a summary, a reason, a question
	evidenceShown = 240
	filesShown    = 12  // of a sub-task
	choicesShown  = 30  // blockers that nobody waits for
	outputShown   = 12  // last lines of a gate that does not hold
	lineShown     = 160 // columns of these
	stampLayout   = "2006-01-02 15:04 MST"
)

// layout decides what is said, and in which order: what a person has to do comes before what is only to be known.
func (r *Report) layout() *document {
	d := &document{}
	r.head(d)
	r.nextSteps(d)
	r.blockers(d)
	for _, part := range []struct {
		heading string
		has     func(boulder.SubTaskStatus) bool
	}{
		{"Not done, and why", func(s boulder.SubTaskStatus) bool { return !done(s) && !open(s) }},
		{"Not done yet", open},
		{"Done, and how it was verified", done},
	} {
		begun := false
		for i := range r.SubTasks {
			if s := &r.SubTasks[i]; part.has(s.Status) {
				if !begun {
					d.heading(part.heading)
					begun = true
				}
				r.subTask(d, s)
			}
		}
	}
	return d
}

func done(s boulder.SubTaskStatus) bool {
	return s == boulder.SubTaskCompleted || s == boulder.SubTaskSkipped
}

func open(s boulder.SubTaskStatus) bool {
	return s == boulder.SubTaskPending || s == boulder.SubTaskInProgress
}

func (r *Report) head(d *document) {
	status := strings.ReplaceAll(string(r.Status), "_", " ")
	switch {
	case r.Running:
		status += ", at work"
	case !r.Status.Terminal() && r.Status != boulder.Paused && r.Status != boulder.AwaitingApproval:
		status = "broken off while " + status
	}
	d.title(fmt.Sprintf("Boulder %s: %s", r.BoulderID, status))
	d.para(plain(text.Clip(cmp.Or(r.Goal, r.Task), textShown)))
	d.item(strong(r.Counts()), plain(prefixed("; ", r.filesText())))
	d.item(plain(r.spent()))
	d.item(plain("started " + r.stamp(r.CreatedAt) + ", as of " + r.stamp(r.UpdatedAt)))
	if r.Reason != "" && r.Reason != string(r.Status) {
		d.item(plain(text.Clip(r.Reason, textShown)))
	}
}

func (r *Report) stamp(t time.Time) string { return t.In(r.zone).Format(stampLayout) }

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

// Counts is "4 of 6 sub-tasks completed, 1 failed, 1 blocked".
func (r *Report) Counts() string {
	t := r.Tally
	switch {
	case t.Planned == 0:
		return "nothing planned yet"
	case r.loop && r.Status == boulder.Completed:
		return "all criteria hold"
	case r.loop && r.Status.Terminal():
		return "the loop ended without success"
	case r.loop:
		return "the loop is not over"
	}
	s := fmt.Sprintf("%d of %s completed", t.Completed, text.Plural(t.Planned, "sub-task"))
	for _, x := range []struct {
		n    int
		what string
	}{
		{t.Failed, "failed"}, {t.Blocked, "blocked"}, {t.Cancelled, "cancelled"}, {t.Skipped, "skipped"},
		{t.InProgress, "in progress"},
		{t.Planned - t.Completed - t.Failed - t.Blocked - t.Cancelled - t.Skipped - t.InProgress, "pending"},
	} {
		if x.n > 0 {
			s += fmt.Sprintf(", %d %s", x.n, x.what)
		}
	}
	return s
}

func (r *Report) filesText() string {
	if len(r.Files) == 0 {
		return ""
	}
	return text.Plural(len(r.Files), "file") + " changed"
}

// spent is what it took: tokens, money, time and tries.
func (r *Report) spent() string {
	parts := []string{
		Usage(r.Usage), "worked " + text.Elapsed(milliseconds(r.WorkedMS)), text.Plural(r.Attempts, "attempt"),
	}
	if r.Replans > 0 {
		parts = append(parts, text.Plural(r.Replans, "replan"))
	}
	s := strings.Join(parts, ", ")
	if r.Budget != nil {
		s += prefixed("; the budget is ", Budget(*r.Budget))
	}
	return s
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func (r *Report) nextSteps(d *document) {
	d.heading("Next")
	for _, s := range r.Next {
		d.item(code(s.Command), plain(": "+s.Why))
	}
	if len(r.Next) == 0 {
		d.item(plain("nothing is left to do"))
	}
}

func (r *Report) blockers(d *document) {
	for _, part := range []struct {
		heading string
		awaited bool
	}{{"Waiting for an answer", true}, {"Questions and choices", false}} {
		shown, more := 0, 0
		for i := range r.Blockers {
			b := &r.Blockers[i]
			switch {
			case b.Awaited != part.awaited:
				continue
			case !part.awaited && shown == choicesShown:
				more++
				continue
			case shown == 0:
				d.heading(part.heading)
			}
			shown++
			b.layout(d)
		}
		if more > 0 {
			d.item(plain(fmt.Sprintf("and %d more: ", more)), code("manager blockers list --all -b "+r.BoulderID))
		}
	}
}

func (b *Blocker) layout(d *document) {
	kind := "soft"
	if b.Hard {
		kind = "hard"
	}
	about := []string{kind}
	if b.Category != "" {
		about = append(about, string(b.Category))
	}
	if b.SubTaskID != "" {
		about = append(about, b.SubTaskID)
	}
	m := markSoSo
	switch {
	case b.Awaited:
		m = markWaits
	case b.Status.Settled():
		m = markGood
	}
	d.marked(m, strong(b.ID), faint(" ("+strings.Join(about, ", ")+")"),
		plain(": "+text.Clip(b.Question, textShown)))
	b.asked(d)
	field(d, "context", b.Context)
	if len(b.Options) > 0 && (b.Awaited || b.ChosenOption != "") {
		field(d, "options", strings.Join(b.Options, "; "))
	}
	if b.ChosenOption != "" {
		chosen := []span{strong("chosen:"), plain(" " + text.Clip(b.ChosenOption, evidenceShown))}
		if b.ChosenReasoning != "" {
			chosen = append(chosen, plain(": "+text.Clip(b.ChosenReasoning, textShown)))
		}
		d.below(chosen...)
	}
	b.settled(d)
}

// asked tells what OpenCode wanted to ask, and what it was answered.
func (b *Blocker) asked(d *document) {
	a := b.Ask
	if a == nil {
		return
	}
	var spans []span
	if a.Permission != "" {
		spans = append(spans, plain("permission "), code(strings.Join(append([]string{a.Permission}, a.Patterns...), " ")))
	} else {
		spans = append(spans, plain(string(a.Kind)))
	}
	if a.Arguments != "" {
		spans = append(spans, plain(" for "), code(text.Clip(strings.TrimSpace(a.Tool+" "+a.Arguments), evidenceShown)))
	}
	d.below(append(spans, plain(": "+string(a.Reply)))...)
}

func (b *Blocker) settled(d *document) {
	switch {
	case b.Status == boulder.BlockerSkipped:
		d.below(strong("skipped:"), plain(" it goes on without an answer"))
	case b.Status == boulder.BlockerAnswered && b.Allowed:
		d.below(strong("allowed"), plain(prefixed(": ", text.Clip(b.Answer, textShown))))
	case b.Status == boulder.BlockerAnswered:
		d.below(strong("answered:"), plain(" "+text.Clip(b.Answer, textShown)))
	case b.Awaited:
		d.below(code("manager blockers answer " + b.ID + ` "…"`))
	case b.Hard && b.Standing == blockers.Moot:
		d.below(plain("nobody waits for an answer any more"))
	}
	if b.Undelivered {
		d.below(plain("its sub-task has not been told yet; the next run does it"))
	}
}

// field is a named text, if there is one.
func field(d *document, name, value string) {
	if value = text.Clip(value, textShown); value != "" {
		d.below(faint(name+": "), plain(value))
	}
}
