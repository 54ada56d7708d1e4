package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project/report"
)

// How much people see. The JSON form has everything.
const (
	saidShown     = 600 // columns of a summary, a reason, a question
	evidenceShown = 240
	filesShown    = 12 // of a sub-task
	choicesShown  = 30 // blockers that no sub-task waits for
	gateShown     = 12 // last lines of a gate that does not hold
	stampLayout   = "2006-01-02 15:04 MST"
)

// PrintReport writes a report. What the user has to do comes first.
func PrintReport(o page.Out, r *report.Report) {
	printHead(o, r)
	PrintFindings(o, r)
}

// PrintFindings writes a report without its head, for a page that has one.
func PrintFindings(o page.Out, r *report.Report) {
	if len(r.Missing) > 0 {
		o.Heading("Missing of the request")
		for _, missing := range r.Missing {
			o.Item(1, o.Plain(text.Clip(missing, saidShown)))
		}
	}
	if answer := r.Written(); answer != "" {
		o.Heading("Answer")
		o.Text(0, answer)
	}
	o.Heading("Next")
	for _, s := range r.Next {
		o.Item(1, o.Code(r.Typed(s)), ": ", o.Plain(s.Why))
	}
	switch {
	case len(r.Missing) > 0 && r.Status.Terminal():
		o.Item(1, "what is missing of the request needs a task of its own: ", o.Code("manager run"))
	case len(r.Next) == 0:
		o.Item(1, "nothing is left to do")
	}
	awaited := r.Awaited()
	printReported(o, r, "Waiting for an answer", awaited, len(awaited))
	chosen := r.Chosen()
	if len(r.Decided)+len(chosen) > 0 {
		o.Heading("Decided for you")
	}
	for _, d := range r.Decided {
		o.Item(1, o.Mark(page.Again), " ", d.Time.In(r.Zone()).Format("Mon 15:04 MST "), o.Plain(text.Clip(d.What, saidShown)), text.Prefixed(": ", o.Plain(text.Clip(d.Reason, saidShown))))
	}
	printReported(o, r, "", chosen, choicesShown)
	rest := slices.DeleteFunc(slices.Clone(r.Blockers[len(awaited):]), func(b report.Blocker) bool {
		return slices.ContainsFunc(chosen, func(c report.Blocker) bool { return c.ID == b.ID })
	})
	printReported(o, r, "Questions and answers", rest, choicesShown)
	printRequest(o, r)
	const undone, open, done, skipped = "Not done, and why", "Not done yet", "Done, and how it was verified", "Skipped"
	parts := map[boulder.SubTaskStatus]string{
		boulder.SubTaskPending: open, boulder.SubTaskInProgress: open,
		boulder.SubTaskCompleted: done, boulder.SubTaskSkipped: skipped,
	}
	for _, part := range []string{undone, open, skipped, done} {
		heading := sync.OnceFunc(func() { o.Heading(part) })
		for i := range r.SubTasks {
			if s := &r.SubTasks[i]; cmp.Or(parts[s.Status], undone) == part {
				heading()
				printReportedSubTask(o, s, part == undone || part == open, r.Claimed())
			}
		}
	}
}

func printHead(o page.Out, r *report.Report) {
	status := Words(r.Status)
	switch {
	case r.Running:
		status += ", at work"
	case r.Away():
		status += " when this copy was made"
	case !r.Status.Terminal() && r.Status != boulder.Paused && r.Status != boulder.AwaitingApproval:
		status = "broken off while " + status
	}
	o.Title(fmt.Sprintf("Boulder %s: %s", boulder.ShortID(r.BoulderID), status))
	o.Say(o.Plain(text.Clip(cmp.Or(r.Goal, r.Task), saidShown)))
	if o.Markdown {
		o.Say()
	}
	o.Item(1, o.Strong(r.Counts()), text.If(len(r.Files) > 0, "; "+text.Plural(len(r.Files), "file")+" changed"))
	o.Item(1, Usage(r.Usage), ", worked ", text.Millis(r.WorkedMS), ", ", text.Plural(r.Attempts, "attempt"),
		text.If(r.Replans > 0, ", "+text.Plural(r.Replans, "replan")), text.Prefixed("; the budget is ", Budget(r.Budget)))
	stamp := func(t time.Time) string { return t.In(r.Zone()).Format(stampLayout) }
	o.Item(1, "started ", stamp(r.CreatedAt), ", as of ", stamp(r.UpdatedAt))
	if r.InPlace != "" {
		o.Item(1, "the sub-tasks worked in your files: ", o.Plain(r.InPlace))
	}
	if s := r.Results; s != nil {
		where := "have not landed, tree " + s.Tree
		if s.Landed != nil {
			where = Landed(*s.Landed)
		}
		o.Item(1, "results: ", o.Plain(where))
		for _, gate := range s.Gates {
			if s.Landed == nil || s.Landed.Marred() == 0 {
				o.Item(2, "passed on it: ", o.Code(gate))
			}
		}
	}
	if r.RequestUnchecked != "" {
		o.Item(1, Unchecked)
	}
	if r.Reason != string(r.Status) && r.Reason != "" {
		o.Item(1, o.Plain(text.Clip(r.Reason, saidShown)))
	}
}

// printRequest lists what the request asks for, as far as it was checked.
func printRequest(o page.Out, r *report.Report) {
	if len(r.Request) > 0 {
		o.Heading("The request, and what shows that it is met")
	}
	for _, row := range r.Request {
		o.Item(1, o.Mark(page.GoodIf(row.Met)), " ", o.Plain(text.Clip(row.Request, saidShown)), text.Prefixed(" — ", o.Plain(text.Clip(row.Evidence, evidenceShown))))
	}
}

// Landed says where the results of an isolated boulder went.
func Landed(l boulder.Landed) string {
	switch l.How {
	case boulder.LandedFiles:
		if n := l.Marred(); n > 0 {
			return "written into your files with " + text.Plural(n, "conflict") + ", and not verified" +
				text.Prefixed("; conflict markers in ", strings.Join(l.Conflicts, ", ")) +
				text.Prefixed("; left as they were: ", strings.Join(l.Left, ", "))
		}
		return "landed in your files, tree " + l.Tree
	case boulder.LandedUndone:
		return "taken out of your files again" + text.Prefixed("; edited since, and kept in commit "+l.Written+": ", strings.Join(l.Conflicts, ", "))
	case boulder.LandedBranch:
		return "landed as branch " + l.Branch + ", commit " + l.Commit + ", tree " + l.Tree
	case boulder.LandedPR:
		return "pushed as branch " + l.Branch + ", commit " + l.Commit + ", tree " + l.Tree + text.Prefixed(", ", l.PR)
	}
	return "dropped; kept for 30 days as commit " + l.Commit
}

// printReported lists blockers of a report, without a heading if that is empty.
func printReported(o page.Out, r *report.Report, heading string, all []report.Blocker, most int) {
	if heading != "" && len(all) > 0 {
		o.Heading(heading)
	}
	for _, b := range all[:min(len(all), most)] {
		for _, s := range []*string{&b.Question, &b.Context, &b.ChosenReasoning, &b.Answer} {
			*s = text.Clip(*s, saidShown)
		}
		PrintBlocker(o, &b, 1, false, r.MadeAt.In(r.Zone()))
	}
	if more := len(all) - most; more > 0 {
		o.Item(1, fmt.Sprintf("and %d more: ", more), o.Code("manager blockers list --all -b "+boulder.ShortID(r.BoulderID)))
	}
}

// verifiedBy describes completions that rest on less than gates and the judge.
var verifiedBy = map[string]string{
	report.ByGates:    "by the gates alone: no usable answer came from the judge",
	report.ByJudge:    "by the judge alone",
	report.ByUnproven: "by no gate that was red before the work, and not by the judge",
	report.ByOriginal: "taken over from the boulder that this one is a fork of",
	report.ByRecord:   "how it was verified is not stored",
}

var signs = map[boulder.SubTaskStatus]page.Sign{
	boulder.SubTaskCompleted: page.Good, boulder.SubTaskFailed: page.Bad, boulder.SubTaskBlocked: page.Attention,
	boulder.SubTaskInProgress: page.Active, boulder.SubTaskPending: page.Idle,
}

// Sign returns the sign of a sub-task's status.
func Sign(s boulder.SubTaskStatus) page.Sign { return cmp.Or(signs[s], page.Dropped) }

func printReportedSubTask(o page.Out, s *report.SubTask, failures bool, claimed map[string]bool) {
	sign, outcome := Sign(s.Status), s.Summary
	switch {
	case s.Status != boulder.SubTaskCompleted:
		outcome = Stated(Words(s.Status), s.Reason)
	case !s.Holds():
		sign, outcome = page.Bad, "completed, but a gate does not hold any more: "+outcome
	}
	o.Item(1, o.Mark(sign), fmt.Sprintf(" %d. ", s.Position), o.Strong(s.Subject), " ", o.Faint("("+s.ID+")"),
		text.Prefixed(": ", o.Plain(text.Clip(outcome, saidShown))))
	o.Field(2, "in place of", s.Replaces)
	if how := verifiedBy[s.VerifiedBy]; how != "" {
		if s.VerifiedBy == report.ByJudge {
			how += ": " + map[bool]string{true: "it has no gates", false: "no gate was red before the work and is green now"}[len(s.Gates) == 0]
		}
		o.Item(2, o.Mark(page.Doubtful), " ", how)
	}
	for _, g := range s.Gates {
		printGate(o, g, 2)
	}
	for _, g := range s.NoGates {
		o.Item(2, o.Mark(page.Dropped), " no gate: ", o.Code(g.Command), " ", g.Why)
	}
	PrintGateHints(o, 2, s.GateHints)
	printJudged(o, 2, s.Criteria, s.Remaining, s.Status == boulder.SubTaskCompleted)
	diff := boulder.Diff{Files: s.Changes, Unavailable: s.ChangesUnknown}
	if len(s.Changes) > 0 || s.ChangesUnknown != "" || !slices.Contains([]string{"", report.ByOriginal, report.ByRecord}, s.VerifiedBy) {
		printChanges(o, 2, diff, claimed)
	}
	for _, w := range s.Warnings {
		o.Item(2, o.Mark(page.Attention), " ", o.Plain(text.Clip(w, saidShown)))
	}
	for _, f := range s.Failures {
		o.Field(2, "failed attempt", text.If(failures, text.Clip(f, saidShown)))
	}
	for _, m := range s.Models {
		for _, of := range m.Instead {
			o.Item(2, o.Mark(page.Attention), " ", o.Plain(text.Clip(fmt.Sprintf("attempt %d: %s", m.Attempt, InsteadText(boulder.WithEffort(m.Model, m.Effort), of)), saidShown)))
		}
	}
	if s.Usage.Calls > 0 || s.WorkedMS > 0 {
		o.Item(2, o.Dim(text.JoinedBy(", ", Usage(s.Usage), "worked "+text.Millis(s.WorkedMS), text.Plural(s.Attempts, "attempt"))))
	}
}

// PrintGateHints lists the gates that the planning model proposed and the user did not approve.
func PrintGateHints(o page.Out, depth int, hints []string) {
	for _, g := range hints {
		o.Item(depth, o.Mark(page.Dropped), " gate not run, since you did not approve it: ", o.Code(g))
	}
}

// printJudged writes the judge's findings per criterion, and what remains to do.
func printJudged(o page.Out, depth int, criteria []boulder.Criterion, remaining []string, completed bool) {
	for _, c := range criteria {
		o.Item(depth, o.Mark(page.GoodIf(c.Met)), " ", o.Plain(text.Clip(c.Criterion, evidenceShown)),
			text.Prefixed(" — ", o.Faint(text.Clip(c.Evidence, evidenceShown))))
	}
	name := map[bool]string{true: "the judge also named", false: "remaining"}[completed]
	for _, x := range remaining {
		if !slices.ContainsFunc(criteria, func(c boulder.Criterion) bool { return c.Criterion == x }) {
			o.Field(depth, name, text.Clip(x, saidShown))
		}
	}
}

// printChanges lists changed files, and who changed them. claimed is the result of [boulder.Claimed].
func printChanges(o page.Out, depth int, d boulder.Diff, claimed map[string]bool) {
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

// GateSign returns the sign of the result of a gate.
func GateSign(g report.Gate) page.Sign {
	switch {
	case g.Result == report.GatePassed && !g.GreenBefore:
		return page.Good
	case g.Result == report.GatePassed, g.Result == report.GateNoWorse:
		return page.Doubtful
	}
	return page.Bad
}

// printGate writes the result of a gate, and the end of the output of a gate that does not hold.
func printGate(o page.Out, g report.Gate, depth int) {
	took := text.Millis(g.DurationMS) + text.Prefixed(", taken over from ", o.Plain(g.From))
	o.Item(depth, o.Mark(GateSign(g)), " gate ", g.Text(), ": ", o.Code(g.Command),
		text.Prefixed(", ", o.Plain(text.Clip(g.Why, evidenceShown))), text.If(g.Result != report.GateNotRun, o.Dim(" ("+took+")")))
	o.Output(depth+1, gateShown, g.Output)
}

// Hardness names a blocker hard if work cannot continue without an answer, else soft.
func Hardness(hard bool) string { return cmp.Or(text.If(hard, "hard"), "soft") }

// PrintBlocker writes a blocker; whole includes where and when it was raised.
func PrintBlocker(o page.Out, b *report.Blocker, depth int, whole bool, now time.Time) {
	settled := b.Status.Settled()
	sign := map[blockers.Standing]page.Sign{blockers.Awaited: page.Attention, blockers.Over: page.Good}[b.Standing]
	mark := o.Mark(cmp.Or(sign, page.Doubtful))
	if whole && o.Markdown { // a check box
		mark = map[bool]string{true: "[x]", false: "[ ]"}[settled]
	}
	about := text.JoinedBy(", ", Hardness(b.Hard), string(b.Category), cmp.Or(b.SubTaskID, b.SessionID, text.If(b.PlanQuestion != "", "of the plan")))
	o.Item(depth, mark, " ", o.Strong(b.ID), " ", o.Faint("("+about+")"), ": ", o.Plain(b.Question))
	depth++
	when := func(t time.Time) string { // in a document, relative times would go stale
		return t.In(now.Location()).Format(stampLayout) + text.If(!o.Markdown, ", "+text.Elapsed(now.Sub(t))+" ago")
	}
	if whole {
		o.Fields(depth, "raised", when(b.CreatedAt), "boulder", text.If(b.PlanQuestion != "", boulder.ShortID(b.BoulderID)), "sub-task", text.If(b.SubTaskID != "",
			fmt.Sprintf("%s, attempt %d, of boulder %s", b.SubTaskID, b.Attempt, boulder.ShortID(b.BoulderID))), "session", b.SessionID)
	}
	o.Block(depth, "context", b.Context)
	if a := b.Ask; a != nil {
		o.Field(depth, "permission", text.If(a.Permission != "", a.Permission+text.Prefixed(": ", strings.Join(a.Patterns, ", "))))
		if call := strings.TrimSpace(a.Tool + " " + a.Arguments); call != "" {
			o.Item(depth, o.Faint("call:"), " ", o.Code(text.Clip(call, saidShown)))
		}
		o.Field(depth, "reply", replyText(&b.Blocker, now))
	}
	for i, option := range b.Options {
		o.Field(depth, fmt.Sprintf("option %d", i+1), option+text.If(option == b.ChosenOption, " ← chosen for now"))
	}
	o.Field(depth, "chosen for now", text.If(!slices.Contains(b.Options, b.ChosenOption), b.ChosenOption))
	o.Block(depth, "because", b.ChosenReasoning)
	switch {
	case b.Awaited && !whole:
		o.Item(depth, o.Code("manager blockers answer "+b.ID+` "…"`))
	case b.Standing == blockers.Moot && (whole || b.Hard):
		o.Item(depth, "the answer is not needed any more")
	case settled && whole:
		o.Field(depth, string(b.Status), when(b.SettledAt))
	case b.Status == boulder.BlockerSkipped:
		o.Field(depth, "skipped", "it continues without an answer")
	}
	if b.Allowed {
		o.Field(depth, "allowed", strings.TrimSpace("for the rest of the sub-task. "+b.Answer))
	} else {
		o.Block(depth, "answer", b.Answer)
	}
}

func replyText(b *boulder.Blocker, now time.Time) string {
	until := b.Until.In(now.Location()).Format(stampLayout)
	switch {
	case b.Waiting(now):
		return fmt.Sprintf("waits for the user until %s, %s from now", until, text.Elapsed(b.Until.Sub(now)))
	case b.Replied:
		return "what the user answered"
	case b.Gone:
		return "none: the session did not wait any longer"
	case !b.Until.IsZero():
		return "waited for the user until " + until
	}
	return "refused, and told to continue with something else"
}

// Words returns a status as people read it.
func Words[S ~string](status S) string { return strings.ReplaceAll(string(status), "_", " ") }

// Stated returns "status: reason", or reason alone if it begins with the status, as in "paused by the user".
func Stated(status, reason string) string {
	switch {
	case reason == orchestrator.ErrStopped.Error():
		reason = "its process was stopped"
	case strings.HasPrefix(reason, status):
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
