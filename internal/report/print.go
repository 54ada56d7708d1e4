package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
)

// How much is shown to people. The JSON form has everything.
const (
	textShown     = 600 // columns of a summary, a reason, a question
	evidenceShown = 240
	filesShown    = 12 // of a sub-task
	choicesShown  = 30 // blockers that no sub-task waits for
	outputShown   = 12 // last lines of a gate that does not hold
	stampLayout   = "2006-01-02 15:04 MST"
)

// Print writes the report: what the user has to do comes before what is only to be known.
func (r *Report) Print(o page.Out) {
	r.head(o)
	o.Heading("Next")
	for _, s := range r.Next {
		o.Item(1, o.Code(s.Command), ": ", o.Plain(s.Why))
	}
	if len(r.Next) == 0 {
		o.Item(1, "nothing is left to do")
	}
	r.printBlockers(o)
	const undone, open, done = "Not done, and why", "Not done yet", "Done, and how it was verified"
	parts := map[boulder.SubTaskStatus]string{
		boulder.SubTaskPending: open, boulder.SubTaskInProgress: open, boulder.SubTaskCompleted: done, boulder.SubTaskSkipped: done,
	}
	for _, part := range []string{undone, open, done} {
		begun := false
		for i := range r.SubTasks {
			if s := &r.SubTasks[i]; cmp.Or(parts[s.Status], undone) == part {
				if !begun {
					o.Heading(part)
					begun = true
				}
				s.print(o, part != done, r.claimed)
			}
		}
	}
}

func (r *Report) head(o page.Out) {
	status := strings.ReplaceAll(string(r.Status), "_", " ")
	switch {
	case r.Running:
		status += ", at work"
	case !r.Status.Terminal() && r.Status != boulder.Paused && r.Status != boulder.AwaitingApproval:
		status = "broken off while " + status
	}
	o.Title(fmt.Sprintf("Boulder %s: %s", r.BoulderID, status))
	o.Say(o.Plain(text.Clip(cmp.Or(r.Goal, r.Task), textShown)))
	if o.Markdown {
		o.Say()
	}
	counts := o.Strong(r.Counts())
	if n := len(r.Files); n > 0 {
		counts += "; " + text.Plural(n, "file") + " changed"
	}
	o.Item(1, counts)
	spent := fmt.Sprintf("%s, worked %s, %s", Usage(r.Usage), elapsed(r.WorkedMS), text.Plural(r.Attempts, "attempt"))
	if r.Replans > 0 {
		spent += ", " + text.Plural(r.Replans, "replan")
	}
	if r.Budget != nil && Budget(*r.Budget) != "" {
		spent += "; the budget is " + Budget(*r.Budget)
	}
	o.Item(1, spent)
	stamp := func(t time.Time) string { return t.In(r.zone).Format(stampLayout) }
	o.Item(1, "started ", stamp(r.CreatedAt), ", as of ", stamp(r.UpdatedAt))
	if r.Reason != string(r.Status) && r.Reason != "" {
		o.Item(1, o.Plain(text.Clip(r.Reason, textShown)))
	}
}

func elapsed(ms int64) string { return text.Elapsed(time.Duration(ms) * time.Millisecond) }

// Counts is "4 of 6 sub-tasks completed, 1 failed, 1 blocked; 1 final gate is red".
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
	red := 0
	for _, sub := range r.SubTasks {
		if sub.Status == boulder.SubTaskCompleted && !sub.completed() {
			red++
		}
	}
	if red > 0 {
		s += fmt.Sprintf(", of which %d with a red gate", red)
	}
	return s
}

func (r *Report) printBlockers(o page.Out) {
	others := slices.DeleteFunc(slices.Clone(r.Blockers), func(b Blocker) bool { return b.Awaited })
	for _, part := range []struct {
		heading  string
		blockers []Blocker
		most     int
	}{{"Waiting for an answer", r.Awaited(), len(r.Blockers)}, {"Questions and choices", others, choicesShown}} {
		if len(part.blockers) > 0 {
			o.Heading(part.heading)
		}
		for _, b := range part.blockers[:min(len(part.blockers), part.most)] {
			for _, s := range []*string{&b.Question, &b.Context, &b.ChosenReasoning, &b.Answer} {
				*s = text.Clip(*s, textShown)
			}
			b.Print(o, 1, false, r.MadeAt.In(r.zone))
			if b.Undelivered {
				o.Item(2, "its sub-task has not been told yet; the next run does it")
			}
		}
		if more := len(part.blockers) - part.most; more > 0 {
			o.Item(1, fmt.Sprintf("and %d more: ", more), o.Code("manager blockers list --all -b "+r.BoulderID))
		}
	}
}

// verifiedBy says where a completion rests on less than gates and the judge.
var verifiedBy = map[string]string{
	byGates:    "by the gates alone: no usable answer came from the judge",
	byJudge:    "by the judge alone: it has no gates",
	byOriginal: "taken over from the boulder that this one is a fork of",
	byRecord:   "how it was verified is not stored",
}

var signs = map[boulder.SubTaskStatus]string{
	boulder.SubTaskCompleted: "✓", boulder.SubTaskFailed: "✗", boulder.SubTaskBlocked: "!", boulder.SubTaskInProgress: "●",
	boulder.SubTaskPending: "○",
}

// Sign shows the status of a sub-task.
func Sign(s boulder.SubTaskStatus) string { return cmp.Or(signs[s], "–") }

func (s *SubTask) print(o page.Out, failures bool, claimed map[string]bool) {
	sign, outcome := Sign(s.Status), s.Summary
	switch {
	case s.Status != boulder.SubTaskCompleted:
		outcome = Stated(strings.ReplaceAll(string(s.Status), "_", " "), s.Reason)
	case !s.completed():
		sign, outcome = "✗", "completed, but a gate does not hold any more: "+outcome
	}
	o.Item(1, o.Mark(sign), " ", o.Strong(s.Subject), " ", o.Faint("("+s.ID+")"), text.Prefixed(": ", o.Plain(text.Clip(outcome, textShown))))
	o.Field(2, "in place of", s.Replaces)
	if how := verifiedBy[s.VerifiedBy]; how != "" {
		o.Item(2, o.Mark("≈"), " ", how)
	}
	for _, g := range s.Gates {
		g.Print(o, 2)
	}
	PrintGateHints(o, 2, s.GateHints)
	PrintJudged(o, 2, s.Criteria, s.Remaining, s.Status == boulder.SubTaskCompleted)
	diff := boulder.Diff{Files: s.Changes, Unavailable: s.ChangesUnknown}
	if len(s.Changes) > 0 || s.ChangesUnknown != "" || !slices.Contains([]string{"", byOriginal, byRecord}, s.VerifiedBy) {
		PrintChanges(o, 2, diff, claimed)
	}
	for i, f := range s.Failures {
		if failures {
			o.Field(2, fmt.Sprintf("failed attempt %d", i+1), text.Clip(f, textShown))
		}
	}
	if s.Usage.Calls > 0 || s.WorkedMS > 0 {
		o.Item(2, o.Dim(fmt.Sprintf("%s, %s, %s", Usage(s.Usage), elapsed(s.WorkedMS), text.Plural(s.Attempts, "attempt"))))
	}
}

// Print writes how a gate went, with the end of its output if it does not hold.
func (g *Gate) Print(o page.Out, depth int) {
	sign, how := g.Text()
	why, took := "", ""
	if g.Why != "" {
		why = ", " + o.Plain(text.Clip(g.Why, evidenceShown))
	}
	if g.Result != gateNotRun {
		took = " (" + elapsed(g.DurationMS) + text.Prefixed(", taken over from ", o.Plain(g.From)) + ")"
	}
	o.Item(depth, o.Mark(sign), " gate ", how, ": ", o.Code(g.Command), why, o.Dim(took))
	o.Output(depth+1, outputShown, g.Output)
}

var gateTexts = map[string]struct{ sign, how string }{
	gatePassed: {"✓", "passed"}, gateNoWorse: {"≈", "red, but no worse than before"},
	gateTimedOut: {"✗", "did not end in time"}, gateNotRun: {"✗", "did not run"},
}

// Text says how a gate went, behind the sign for it.
func (g *Gate) Text() (sign, how string) {
	if t, known := gateTexts[g.Result]; known {
		return t.sign, t.how
	}
	return "✗", fmt.Sprintf("failed with exit code %d", g.ExitCode)
}

// PrintGateHints names the gates that the plan's model proposed and the user did not allow.
func PrintGateHints(o page.Out, depth int, hints []string) {
	for _, g := range hints {
		o.Item(depth, o.Mark("–"), " gate not run, since you did not approve it: ", o.Code(g))
	}
}

// PrintJudged writes what the judge found of each criterion, and what is left to do.
func PrintJudged(o page.Out, depth int, criteria []boulder.Criterion, remaining []string, completed bool) {
	for _, c := range criteria {
		sign := "✗"
		if c.Met {
			sign = "✓"
		}
		o.Item(depth, o.Mark(sign), " ", o.Plain(text.Clip(c.Criterion, evidenceShown)),
			text.Prefixed(" — ", o.Faint(text.Clip(c.Evidence, evidenceShown))))
	}
	name := "remaining"
	if completed {
		name = "the judge also named"
	}
	for _, x := range remaining {
		if !slices.ContainsFunc(criteria, func(c boulder.Criterion) bool { return c.Criterion == x }) {
			o.Field(depth, name, text.Clip(x, textShown))
		}
	}
}

// PrintChanges names the files that were changed, and by whom; claimed is what [boulder.Claimed] gives.
func PrintChanges(o page.Out, depth int, d boulder.Diff, claimed map[string]bool) {
	own, unclaimed, others := d.Split(claimed)
	parts := []string{changes(o, own)}
	if len(unclaimed) > 0 {
		parts = append(parts, changes(o, unclaimed)+o.Dim(" (by this or another sub-task)"))
	}
	if n := len(others); n > 0 {
		parts = append(parts, o.Dim(text.Plural(n, "file")+" by other sub-tasks"))
	}
	if d.Unavailable != "" {
		parts = []string{"not known: " + o.Plain(d.Unavailable)}
	}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	o.Item(depth, o.Dim("changes:"), " ", cmp.Or(strings.Join(parts, "; "), "none"))
}

// changes lists files by name.
func changes(o page.Out, files []boulder.FileChange) string {
	var all []string
	for _, f := range files[:min(len(files), filesShown)] {
		name := o.Code(f.Path)
		if f.Added >= 0 {
			name += fmt.Sprintf(" +%d −%d", f.Added, f.Removed)
		}
		all = append(all, name)
	}
	if more := len(files) - filesShown; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, ", ")
}

// Stated is a status and the reason for it, which often begins with the same word: "paused by a person".
func Stated(status, reason string) string {
	if strings.HasPrefix(reason, status) {
		return reason
	}
	return status + text.Prefixed(": ", reason)
}

// Usage is a usage in a sentence: "12.3k tokens, $0.04". A price that is not known is said to be so.
func Usage(u boulder.Usage) string {
	tokens := text.Count(u.Tokens()) + " tokens"
	switch {
	case u.Unpriced > 0 && u.Cost > 0:
		return fmt.Sprintf("%s, %s and %s of unknown price", tokens, text.Money(u.Cost), text.Plural(int(u.Unpriced), "call"))
	case u.Unpriced > 0:
		return tokens + ", cost unknown"
	}
	return tokens + ", " + text.Money(u.Cost)
}

// Budget is a budget in words: "2.0M tokens, $5.00, 8h"; empty if it bounds nothing.
func Budget(b boulder.Budget) string {
	var parts []string
	add := func(set bool, part string) {
		if set {
			parts = append(parts, part)
		}
	}
	add(b.Tokens > 0, text.Count(b.Tokens)+" tokens")
	add(b.Cost > 0, fmt.Sprintf("$%.2f", b.Cost))
	add(b.Time > 0, text.Elapsed(time.Duration(b.Time)))
	add(b.Attempts > 0, text.Plural(b.Attempts, "attempt"))
	add(b.Calls > 0, text.Plural(int(b.Calls), "model call"))
	return strings.Join(parts, ", ")
}
