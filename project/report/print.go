package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
)

// How much people see. The JSON form has everything.
const (
	textShown     = 600 // columns of a summary, a reason, a question
	evidenceShown = 240
	filesShown    = 12 // of a sub-task
	choicesShown  = 30 // blockers that no sub-task waits for
	outputShown   = 12 // last lines of a gate that does not hold
	stampLayout   = "2006-01-02 15:04 MST"
)

// Print writes the report. What the user has to do comes first.
func (r *Report) Print(o page.Out) {
	r.head(o)
	o.Heading("Next")
	for _, s := range r.Next {
		o.Item(1, o.Code(s.Command), ": ", o.Plain(s.Why))
	}
	if len(r.Next) == 0 {
		o.Item(1, "nothing is left to do")
	}
	awaited := r.Awaited()
	r.printBlockers(o, "Waiting for an answer", awaited, len(awaited))
	r.printBlockers(o, "Questions and choices", r.Blockers[len(awaited):], choicesShown)
	const undone, open, done = "Not done, and why", "Not done yet", "Done, and how it was verified"
	parts := map[boulder.SubTaskStatus]string{
		boulder.SubTaskPending: open, boulder.SubTaskInProgress: open,
		boulder.SubTaskCompleted: done, boulder.SubTaskSkipped: done,
	}
	for _, part := range []string{undone, open, done} {
		heading := sync.OnceFunc(func() { o.Heading(part) })
		for i := range r.SubTasks {
			if s := &r.SubTasks[i]; cmp.Or(parts[s.Status], undone) == part {
				heading()
				s.print(o, part != done, r.claimed)
			}
		}
	}
}

func (r *Report) head(o page.Out) {
	status := Words(r.Status)
	switch {
	case r.Running:
		status += ", at work"
	case r.away != "":
		status += " when this copy was made"
	case !r.Status.Terminal() && r.Status != boulder.Paused && r.Status != boulder.AwaitingApproval:
		status = "broken off while " + status
	}
	o.Title(fmt.Sprintf("Boulder %s: %s", r.BoulderID, status))
	o.Say(o.Plain(text.Clip(cmp.Or(r.Goal, r.Task), textShown)))
	if o.Markdown {
		o.Say()
	}
	o.Item(1, o.Strong(r.Counts()), text.If(len(r.Files) > 0, "; "+text.Plural(len(r.Files), "file")+" changed"))
	o.Item(1, Usage(r.Usage), ", worked ", text.Millis(r.WorkedMS), ", ", text.Plural(r.Attempts, "attempt"),
		text.If(r.Replans > 0, ", "+text.Plural(r.Replans, "replan")), text.Prefixed("; the budget is ", Budget(r.Budget)))
	stamp := func(t time.Time) string { return t.In(r.zone).Format(stampLayout) }
	o.Item(1, "started ", stamp(r.CreatedAt), ", as of ", stamp(r.UpdatedAt))
	if s := r.Results; s != nil {
		where := "have not landed, tree " + s.Tree
		if s.Landed != nil {
			where = Landed(*s.Landed)
		}
		o.Item(1, "results: ", o.Plain(where))
		for _, gate := range s.Gates {
			o.Item(2, "passed on it: ", o.Code(gate))
		}
	}
	if r.Reason != string(r.Status) && r.Reason != "" {
		o.Item(1, o.Plain(text.Clip(r.Reason, textShown)))
	}
}

// Landed says where the results of an isolated boulder went.
func Landed(l boulder.Landed) string {
	switch l.How {
	case boulder.LandedFiles:
		return "landed in your files, tree " + l.Tree
	case boulder.LandedBranch:
		return "landed as branch " + l.Branch + ", commit " + l.Commit + ", tree " + l.Tree
	case boulder.LandedPR:
		return "pushed as branch " + l.Branch + ", commit " + l.Commit + ", tree " + l.Tree + text.Prefixed(", ", l.PR)
	}
	return "dropped; kept for 30 days as commit " + l.Commit
}

// Counts returns the tally, as "4 of 6 sub-tasks completed (1 with a red gate), 1 failed, 1 blocked".
func (r *Report) Counts() string {
	t := r.Tally
	switch {
	case t.Planned == 0:
		return "nothing planned yet"
	case r.loop != nil && r.Status == boulder.Completed:
		return "all criteria hold"
	case r.loop != nil && r.Status.Terminal():
		return "the loop ended without success"
	case r.loop != nil:
		return "the loop is not over"
	}
	red := 0
	for _, sub := range r.SubTasks {
		if sub.Status == boulder.SubTaskCompleted && !sub.completed() {
			red++
		}
	}
	pending := t.Planned - t.Completed - t.Failed - t.Blocked - t.Cancelled - t.Skipped - t.InProgress
	return text.JoinedBy(", ", fmt.Sprintf("%d of %s completed%s", t.Completed, text.Plural(t.Planned, "sub-task"),
		text.If(red > 0, fmt.Sprintf(" (%d with a red gate)", red))),
		text.Some(t.Failed, "failed"), text.Some(t.Blocked, "blocked"), text.Some(t.Cancelled, "cancelled"),
		text.Some(t.Skipped, "skipped"), text.Some(t.InProgress, "in progress"), text.Some(pending, "pending"))
}

func (r *Report) printBlockers(o page.Out, heading string, all []Blocker, most int) {
	if len(all) > 0 {
		o.Heading(heading)
	}
	for _, b := range all[:min(len(all), most)] {
		for _, s := range []*string{&b.Question, &b.Context, &b.ChosenReasoning, &b.Answer} {
			*s = text.Clip(*s, textShown)
		}
		b.Print(o, 1, false, r.MadeAt.In(r.zone))
		if b.Undelivered {
			o.Item(2, "its sub-task has not been told yet; the next run does it")
		}
	}
	if more := len(all) - most; more > 0 {
		o.Item(1, fmt.Sprintf("and %d more: ", more), o.Code("manager blockers list --all -b "+r.BoulderID))
	}
}

// verifiedBy describes completions that rest on less than gates and the judge.
var verifiedBy = map[string]string{
	byGates:    "by the gates alone: no usable answer came from the judge",
	byJudge:    "by the judge alone",
	byUnproven: "by no gate that was red before the work, and not by the judge",
	byOriginal: "taken over from the boulder that this one is a fork of",
	byRecord:   "how it was verified is not stored",
}

var signs = map[boulder.SubTaskStatus]string{
	boulder.SubTaskCompleted: "✓", boulder.SubTaskFailed: "✗", boulder.SubTaskBlocked: "!", boulder.SubTaskInProgress: "●",
	boulder.SubTaskPending: "○",
}

// Sign returns the sign of a sub-task's status.
func Sign(s boulder.SubTaskStatus) string { return cmp.Or(signs[s], "–") }

func (s *SubTask) print(o page.Out, failures bool, claimed map[string]bool) {
	sign, outcome := Sign(s.Status), s.Summary
	switch {
	case s.Status != boulder.SubTaskCompleted:
		outcome = Stated(Words(s.Status), s.Reason)
	case !s.completed():
		sign, outcome = "✗", "completed, but a gate does not hold any more: "+outcome
	}
	o.Item(1, o.Mark(sign), " ", o.Strong(s.Subject), " ", o.Faint("("+s.ID+")"),
		text.Prefixed(": ", o.Plain(text.Clip(outcome, textShown))))
	o.Field(2, "in place of", s.Replaces)
	if how := verifiedBy[s.VerifiedBy]; how != "" {
		if s.VerifiedBy == byJudge {
			how += ": " + map[bool]string{true: "it has no gates", false: "no gate was red before the work and is green now"}[len(s.Gates) == 0]
		}
		o.Item(2, o.Mark("≈"), " ", how)
	}
	for _, g := range s.Gates {
		g.Print(o, 2)
	}
	for _, g := range s.NoGates {
		o.Item(2, o.Mark("–"), " no gate: ", o.Code(g.Command), " ", g.Why)
	}
	PrintGateHints(o, 2, s.GateHints)
	PrintJudged(o, 2, s.Criteria, s.Remaining, s.Status == boulder.SubTaskCompleted)
	diff := boulder.Diff{Files: s.Changes, Unavailable: s.ChangesUnknown}
	if len(s.Changes) > 0 || s.ChangesUnknown != "" || !slices.Contains([]string{"", byOriginal, byRecord}, s.VerifiedBy) {
		PrintChanges(o, 2, diff, claimed)
	}
	for _, w := range s.Warnings {
		o.Item(2, o.Mark("!"), " ", o.Plain(text.Clip(w, textShown)))
	}
	for _, f := range s.Failures {
		o.Field(2, "failed attempt", text.If(failures, text.Clip(f, textShown)))
	}
	if s.Usage.Calls > 0 || s.WorkedMS > 0 {
		o.Item(2, o.Dim(text.JoinedBy(", ", Usage(s.Usage), text.Millis(s.WorkedMS), text.Plural(s.Attempts, "attempt"))))
	}
}

// PrintGateHints lists the gates that the planning model proposed and the user did not approve.
func PrintGateHints(o page.Out, depth int, hints []string) {
	for _, g := range hints {
		o.Item(depth, o.Mark("–"), " gate not run, since you did not approve it: ", o.Code(g))
	}
}

// PrintJudged writes the judge's findings per criterion, and what remains to do.
func PrintJudged(o page.Out, depth int, criteria []boulder.Criterion, remaining []string, completed bool) {
	for _, c := range criteria {
		o.Item(depth, o.Mark(map[bool]string{true: "✓", false: "✗"}[c.Met]), " ", o.Plain(text.Clip(c.Criterion, evidenceShown)),
			text.Prefixed(" — ", o.Faint(text.Clip(c.Evidence, evidenceShown))))
	}
	name := map[bool]string{true: "the judge also named", false: "remaining"}[completed]
	for _, x := range remaining {
		if !slices.ContainsFunc(criteria, func(c boulder.Criterion) bool { return c.Criterion == x }) {
			o.Field(depth, name, text.Clip(x, textShown))
		}
	}
}

// PrintChanges lists changed files, and who changed them. claimed is the result of [boulder.Claimed].
func PrintChanges(o page.Out, depth int, d boulder.Diff, claimed map[string]bool) {
	own, unclaimed, others := d.Split(claimed)
	said := text.JoinedBy("; ", changes(o, own),
		text.If(len(unclaimed) > 0, changes(o, unclaimed)+o.Dim(" (by this or another sub-task)")),
		text.If(len(others) > 0, o.Dim(text.Plural(len(others), "file")+" by other sub-tasks")))
	o.Item(depth, o.Dim("changes:"), " ", cmp.Or(text.Prefixed("not known: ", o.Plain(d.Unavailable)), said, "none"))
}

func changes(o page.Out, files []boulder.FileChange) string {
	var all []string
	for _, f := range files[:min(len(files), filesShown)] {
		all = append(all, o.Code(f.Path)+text.If(f.Added >= 0, fmt.Sprintf(" +%d −%d", f.Added, f.Removed)))
	}
	more := max(0, len(files)-filesShown)
	return text.JoinedBy(", ", append(all, text.Prefixed("and ", text.Some(more, "more")))...)
}

// Words returns a status as people read it.
func Words[S ~string](status S) string { return strings.ReplaceAll(string(status), "_", " ") }

// Stated returns "status: reason", or reason alone if it begins with the status, as in "paused by the user".
func Stated(status, reason string) string {
	if strings.HasPrefix(reason, status) {
		return reason
	}
	return status + text.Prefixed(": ", reason)
}

// Usage formats a usage: "12.3k tokens, $0.04". It says so if the price of calls is unknown.
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

// Budget formats a budget: "2.0M tokens, $5.00, 8h". It returns "" if b is nil or bounds nothing.
func Budget(b *boulder.Budget) string {
	if b == nil {
		return ""
	}
	return text.JoinedBy(", ", text.If(b.Tokens > 0, text.Count(b.Tokens)+" tokens"),
		text.If(b.Cost > 0, fmt.Sprintf("$%.2f", b.Cost)), text.If(b.Time > 0, text.Elapsed(time.Duration(b.Time))),
		text.If(b.Attempts > 0, text.Plural(b.Attempts, "attempt")), text.If(b.Calls > 0, text.Plural(int(b.Calls), "model call")))
}
