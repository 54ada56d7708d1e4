package view

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project/report"
)

const (
	stepAttempt  = "attempt"  // an attempt got its slot: model, agent, session_id, waited_ms
	stepPrompt   = "prompt"   // a prompt was sent: prompt (brief, continuation, resume), reason
	stepNudge    = "nudge"    // the running turn was nudged: rule, text
	stepFault    = "fault"    // a failure that is not the agent's: fault (boulder.TroubleKind), reason, until
	stepEnded    = "ended"    // a turn ended: ended, evidence
	stepGate     = "gate"     // a gate on the final files: gate
	stepVerdict  = "verdict"  // a turn was judged: verdict
	stepNote     = "note"     // a note of the user: text
	stepBlocker  = "blocker"  // a blocker was raised: text
	stepAnswer   = "answer"   // the user answered or skipped a blocker: text
	stepWarning  = "warning"  // most or all of a budget is used: reason
	stepDecision = "decision" // what followed: decision, reason, remaining, next, uncounted, by, replaced_by
)

// Entry describes an event. Its kind, empty outside of the chain of [Why], decides which fields after Turn are set.
type Entry struct {
	Step    string    `json:"step"`
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt,omitempty"`
	Turn    int       `json:"turn,omitempty"`

	Model     string `json:"model,omitempty"`
	Effort    string `json:"effort,omitempty"` // of Model
	Agent     string `json:"agent,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	WaitedMS  int64  `json:"waited_ms,omitempty"` // for a slot

	Prompt string       `json:"prompt,omitempty"`
	Rule   boulder.Rule `json:"rule,omitempty"`
	Text   string       `json:"text,omitempty"`

	Fault boulder.TroubleKind `json:"fault,omitempty"`
	Until time.Time           `json:"until,omitzero"`

	Ended    *boulder.Ended    `json:"ended,omitempty"`
	Evidence *boulder.Evidence `json:"evidence,omitempty"`
	Gate     *boulder.Gate     `json:"gate,omitempty"`
	Verdict  *boulder.Verdict  `json:"verdict,omitempty"`

	// Decision is a status, or continuation, retry, replan, replan-refused, parked, unparked, reopened, edited, redo, keep.
	Decision   string   `json:"decision,omitempty"`
	Reason     string   `json:"reason,omitempty"`
	Remaining  []string `json:"remaining,omitempty"`
	Next       int      `json:"next,omitempty"`        // number of the attempt or turn that follows
	Uncounted  bool     `json:"uncounted,omitempty"`   // the attempt that ended does not count
	By         string   `json:"by,omitempty"`          // the other sub-task that caused the decision
	ReplacedBy string   `json:"replaced_by,omitempty"` // the sub-task that supersedes this one

	// SubTask is the id of the sub-task that the event is about; empty: the whole boulder.
	SubTask string `json:"-"`
	// Line is a sentence about the event; empty for a sign of life without news. The caller sanitizes it.
	Line string `json:"-"`

	sign  page.Sign // of the line, where a run view prints it
	shown visibility
}

// visibility says which run views print the line of an event.
type visibility int

const (
	never       visibility = iota
	noPicture              // those without a picture: it shows the event by itself
	withPicture            // all
)

// Describe returns the description of an event.
func Describe(e boulder.Event) Entry {
	at := boulder.AttemptOf(e.Body)
	s := Entry{Time: e.Time, SubTask: at.SubTaskID, Attempt: at.Attempt}
	if describe, known := descriptions[reflect.TypeOf(e.Body)]; known {
		describe(&s, e.Body)
	}
	return s
}

// log is for an event of which run views print no line, minor for one that a picture shows by itself, say for all others.
func (s *Entry) log(format string, args ...any) { s.Line = fmt.Sprintf(format, args...) }

func (s *Entry) minor(format string, args ...any) {
	s.log(format, args...)
	s.sign, s.shown = page.Minor, noPicture
}

func (s *Entry) say(sign page.Sign, format string, args ...any) {
	s.log(format, args...)
	s.sign, s.shown = sign, withPicture
}

func (s *Entry) decide(decision, reason string, sign page.Sign, format string, args ...any) {
	s.Step, s.Decision, s.Reason = stepDecision, decision, reason
	s.say(sign, format, args...)
}

type description struct {
	body     reflect.Type
	describe func(*Entry, boulder.Body)
}

func of[B boulder.Body](describe func(*Entry, B)) description {
	return description{reflect.TypeFor[B](), func(s *Entry, b boulder.Body) { describe(s, b.(B)) }}
}

func byBody(all ...description) map[reflect.Type]func(*Entry, boulder.Body) {
	table := make(map[reflect.Type]func(*Entry, boulder.Body), len(all))
	for _, d := range all {
		table[d.body] = d.describe
	}
	return table
}

// descriptions has a line for every event, in the order of their registry.
var descriptions = byBody(
	of(func(s *Entry, b boulder.Created) {
		s.log("created: %s", b.Boulder.Task)
	}),
	of(func(s *Entry, b boulder.Planned) {
		s.log("plan revision %d (%s) waits for approval", b.Revision, b.Origin)
	}),
	of(func(s *Entry, b boulder.Prepared) {
		var all []string
		for _, q := range b.Known.Facts.Questions {
			all = append(all, q.ID+": "+q.Question+text.If(b.Asked, " "+AnswerTo(q)))
		}
		s.log("%s: %s", map[bool]string{true: "the user answered what the planner asks", false: "the planner asks the user"}[b.Asked], strings.Join(all, "; "))
	}),
	of(func(s *Entry, b boulder.LookStarted) {
		s.say(page.Found, "looking at the %s with %s: %s",
			map[boulder.LookFor]string{boulder.LookPlan: "project", boulder.LookReplan: "project before the replan", boulder.LookReview: "changes"}[b.For],
			ModelName(b.Model), strings.Join(b.Questions, "; "))
	}),
	of(func(s *Entry, b boulder.LookSession) {
		s.log("the look works in session %s", b.SessionID)
	}),
	of(func(s *Entry, b boulder.Looked) {
		s.looked(b)
	}),
	of(func(s *Entry, b boulder.RevisionAsked) {
		s.say(page.ByUser, "the plan is to be revised: %s", b.Comment)
	}),
	of(func(s *Entry, b boulder.RevisionRefused) {
		s.say(page.Attention, "%s", b.Reason)
	}),
	of(func(s *Entry, b boulder.Decomposed) {
		s.minor("plan revision %d (%s%s): %s", b.Revision, b.Origin, text.If(b.Edited, ", edited"),
			text.Plural(len(b.SubTasks), "sub-task"))
	}),
	of(func(s *Entry, b boulder.StatusChanged) { // synthesizing gets no line: the event right after it says more
		s.minor("%s", Stated(string(b.Status), b.Reason))
		if b.Status == boulder.Synthesizing {
			s.shown = never
		}
	}),
	of(func(s *Entry, _ boulder.Resumed) {
		s.log("resumed by another process")
	}),
	of(func(s *Entry, b boulder.ClockMoved) {
		s.log("the clock jumped ahead by %s: the machine slept, or the clock was set", text.Elapsed(b.By))
		if b.By < 0 {
			s.log("the clock was set back by %s", text.Elapsed(-b.By))
		}
	}),
	of(func(s *Entry, b boulder.SessionLeft) {
		s.log("attempt %d: its agent may still be at work in session %s until that is stopped", b.Attempt, b.SessionID)
		if b.Stopped {
			s.log("attempt %d: session %s is stopped", b.Attempt, b.SessionID)
		}
	}),
	of(func(s *Entry, b boulder.Starting) {
		s.Step = stepAttempt
		s.log("attempt %d has a slot", b.Attempt)
	}),
	of(func(s *Entry, b boulder.SubTaskStart) {
		s.log("attempt %d starts with %s in session %s%s", b.Attempt, ModelName(boulder.WithEffort(b.Model, b.Effort)), b.SessionID,
			text.Prefixed("; ", report.GreenBefore(b.Baseline)))
	}),
	of(func(s *Entry, b boulder.TurnSent) {
		s.Step, s.Turn, s.Prompt = stepPrompt, b.Turn, string(b.Kind)
		s.log("turn %d: the %s is sent", b.Turn, b.Kind)
		if b.Resume {
			s.Prompt, s.Reason = "resume", "the turn was cut off, and its session was idle"
			s.log("turn %d: the resume prompt is sent, because %s", b.Turn, s.Reason)
		}
	}),
	of(func(s *Entry, b boulder.EffortMissing) {
		s.Step = stepWarning
		s.say(page.Attention, "%s does not have the effort %s (%s): its default is used", b.Model, b.Effort,
			cmp.Or(text.Prefixed("it has ", strings.Join(b.Has, ", ")), "it has none"))
	}),
	of(func(s *Entry, b boulder.Nudged) {
		s.Step, s.Turn, s.Rule, s.Text = stepNudge, b.Turn, b.Rule, b.Prompt
		s.say(page.Again, "turn %d is nudged (rule %s)", b.Turn, b.Rule)
	}),
	of(func(s *Entry, b boulder.SubTaskProgress) {
		s.log("%s%s", b.Activity, text.If(b.TodosTotal > 0, fmt.Sprintf(" (%d of %d todos)", b.TodosDone, b.TodosTotal)))
		if b.Notice {
			s.sign, s.shown = page.Attention, withPicture
		}
		if c := b.Checkpoint; c != nil {
			s.Line += fmt.Sprintf(" (%s:%d)", c.File, c.Line)
		}
	}),
	of(func(s *Entry, b boulder.TurnEnded) {
		s.Step, s.Turn, s.Ended, s.Evidence = stepEnded, b.Turn, &b.Ended, &b.Evidence
		s.log("turn %d ended: %s", b.Turn, endText(b.Ended))
	}),
	of(func(s *Entry, b boulder.GateRun) {
		gate := b.Gate()
		s.Step, s.Gate = stepGate, &gate
		s.say(page.Bad, "gate %s: %s (%s%s)%s", report.NewGate(gate).Text(), b.Command,
			text.Millis(b.Millis), text.If(b.Final, ", on the final files")+text.If(b.Tree != "", ", on the combined files"),
			text.Prefixed(": ", b.NoWorse)+text.If(b.FlakySuspected, ", and was red on the same files just before: flaky_suspected"))
		if b.Passed {
			s.sign, s.shown = page.Minor, noPicture
		}
	}),
	of(func(s *Entry, b boulder.Isolated) {
		s.say(page.Found, "the sub-tasks work in %s: %s", map[bool]string{true: "your files", false: "copies"}[b.InPlace],
			b.Reason+text.Prefixed("; ", report.GreenBefore(b.Baseline)))
	}),
	of(func(s *Entry, b boulder.Integrating) {
		s.log("attempt %d: its result is being put onto the tip%s", b.Attempt, text.If(b.Joins, ", together with others that wait"))
	}),
	of(func(s *Entry, b boulder.Integrated) {
		if b.TestedWith != "" {
			s.minor("integrated (tested together with %s)", b.TestedWith)
			return
		}
		reused := 0
		for _, g := range b.Gates {
			if g.Reused {
				reused++
			}
		}
		s.minor("integrated (%s%s)", text.Plural(len(b.Gates), "gate"),
			text.If(reused > 0, fmt.Sprintf(", %d known to be green on this tree", reused)))
	}),
	of(func(s *Entry, b boulder.Conflict) {
		s.say(page.Again, "not integrated: %s", conflictText(b))
	}),
	of(func(s *Entry, b boulder.Judged) {
		s.Step, s.Turn, s.Verdict = stepVerdict, b.Turn, &b.Verdict
		how := text.If(!b.Verdict.Completed, "not ") + "complete" + text.If(b.Verdict.JudgeUnavailable, " (by the gates alone)")
		if said := strings.Join(b.Verdict.Overruled, "; "); said != "" { // the summary says that it is complete
			s.log("turn %d judged complete, and overruled: %s", b.Turn, said)
			return
		}
		s.log("turn %d judged %s", b.Turn, joined(how, b.Verdict.Summary))
	}),
	of(func(s *Entry, b boulder.Continuation) {
		s.Turn, s.Remaining, s.Next, s.Until = b.Turn-1, b.Remaining, b.Turn, b.NotBefore
		s.decide("continuation", b.Reason, page.Minor, "continues with turn %d%s: %s", b.Turn,
			text.If(!b.NotBefore.IsZero(), ", not before "+Clock(b.NotBefore)), joined(b.Reason, strings.Join(b.Remaining, "; ")))
		s.shown = noPicture
	}),
	of(func(s *Entry, b boulder.Retry) {
		s.Next, s.Uncounted = b.Next, b.Uncounted
		s.decide("retry", b.Reason, page.Again, "attempt %d %s: %s; attempt %d is next", b.Attempt, b.Status, b.Reason, b.Next)
	}),
	of(func(s *Entry, b boulder.Trouble) {
		s.Step, s.Fault, s.Reason, s.Until = stepFault, b.Kind, b.Reason, b.NotBefore
		if b.Kind == boulder.TroublePaused { // not a fault: the user ends it
			s.minor("stopped for now: %s", b.Reason)
			return
		}
		kind := text.If(b.Kind != boulder.TroubleServer, strings.ReplaceAll(text.Prefixed(" (", string(b.Kind)), "_", " "))
		s.minor("fault%s: %s%s", kind+text.If(kind != "", ")"), b.Reason, again(b.NotBefore, s.Time))
	}),
	of(func(s *Entry, b boulder.Cooled) {
		if !b.Lifted.IsZero() {
			endless := boulder.Cooldown{Until: b.Lifted}.Endless()
			s.say(page.Attention, "%s is asked again%s: the user wants that", ModelName(b.Model),
				text.If(!endless, ", and not only at "+text.Until(b.Lifted, s.Time)))
			return
		}
		if b.Endless() || !b.Awaited() {
			s.say(page.Attention, "%s cannot be used: %s", ModelName(b.Model), boulder.Unnamed(b.Model, b.Reason))
			return
		}
		s.say(page.Attention, "%s is limited until %s, then %s at once: %s", ModelName(b.Model), text.Until(b.Until, s.Time),
			text.Plural(b.Limit, "attempt"), boulder.Unnamed(b.Model, b.Reason))
	}),
	of(func(s *Entry, b boulder.ReplanStarted) {
		s.decide("replan", b.Reason, page.Again, "%s %d: %s", replanName(b.Missing), b.Number, b.Reason+text.Prefixed("; missing: ", strings.Join(b.Missing, "; ")))
	}),
	of(func(s *Entry, b boulder.PlanTrouble) {
		s.Step, s.Reason, s.Until = stepFault, b.Reason, b.NotBefore
		s.say(page.Attention, "fault while planning: %s%s", b.Reason, again(b.NotBefore, s.Time))
		if b.Uncounted {
			s.shown = never
		}
	}),
	of(func(s *Entry, _ boulder.ReplanProposed) {
		s.say(page.Question, "a new plan waits for your approval")
	}),
	of(func(s *Entry, b boulder.Replanned) {
		s.Attempt = 0
		parts := replanned(b, func(id string) string { return id })
		s.decide(string(boulder.SubTaskSuperseded), b.Reason, page.Again, "%s %d, plan revision %d: %s", replanName(b.Missing), b.Number, b.Revision,
			strings.Join(parts, ", "))
	}),
	of(func(s *Entry, b boulder.ReplanRefused) {
		s.decide("replan-refused", b.Reason, page.Again, "no new plan: %s", b.Reason)
	}),
	of(func(s *Entry, b boulder.PlanEdited) {
		s.decide("edited", "the user edited the plan", page.ByUser, "plan revision %d, edited by the user: %s", b.Revision, edited(b))
	}),
	of(func(s *Entry, b boulder.ModelSet) {
		with := text.JoinedBy(", ", b.Model.String(), text.Prefixed("effort ", b.Effort))
		s.say(page.ByUser, "from their next turn with %s: %s", with, cmp.Or(strings.Join(b.SubTasks, ", "), "no sub-task so far"))
	}),
	of(func(s *Entry, b boulder.Switched) {
		s.Step, s.Reason, s.Until = stepFault, b.Reason, b.Until
		s.say(page.Instead, "%s: %s instead of %s%s: %s", cmp.Or(text.If(b.Ledger, "the ledgers"), strings.Join(b.SubTasks, ", ")),
			ModelName(b.To), ModelName(b.From), text.If(!b.Until.IsZero(), " until "+text.Until(b.Until, s.Time)), boulder.Unnamed(b.From, b.Reason))
	}),
	of(func(s *Entry, b boulder.RequestChecked) {
		met := 0
		for _, row := range b.Rows {
			if row.Met {
				met++
			}
		}
		switch {
		case b.Unchecked != "":
			s.say(page.Attention, "whether the request is met could not be checked: %s", b.Unchecked)
		case len(b.Missing) > 0:
			s.say(page.Attention, "%d of %s of the request met; missing: %s", met, text.Plural(len(b.Rows), "part"), strings.Join(b.Missing, "; "))
		default:
			s.say(page.Good, "the request is met: %s", text.Plural(met, "part"))
		}
	}),
	of(func(s *Entry, b boulder.BudgetSet) {
		s.SubTask = b.SubTaskID
		s.log("budget: %s", cmp.Or(Budget(&b.Budget), "none"))
	}),
	of(func(s *Entry, b boulder.BudgetWarning) {
		s.SubTask = b.SubTaskID
		how := fmt.Sprintf("the %s budget is used up", b.Dimension)
		if b.Used < b.Limit {
			how = fmt.Sprintf("%.0f%% of the %s budget is used", math.Floor(100*b.Used/b.Limit), b.Dimension)
		}
		s.say(page.Attention, "%s: %s of %s", how, amountText(b.Dimension, b.Used), amountText(b.Dimension, b.Limit))
		s.Step, s.Reason = stepWarning, s.Line
	}),
	of(func(s *Entry, b boulder.Parked) { // with Awaits, the reason already says that it waits for an answer
		s.decide("parked", b.Reason, page.Attention, "%s%s", text.If(len(b.Awaits) == 0, "waits for you: "), b.Reason)
	}),
	of(func(s *Entry, b boulder.Unparked) {
		s.SubTask = b.SubTaskID
		s.decide("unparked", b.Reason, page.Again, "continues: %s", b.Reason)
	}),
	of(func(s *Entry, b boulder.Noted) {
		s.SubTask, s.Step, s.Text = b.SubTaskID, stepNote, b.Text
		s.say(page.ByUser, "note: %s", b.Text)
	}),
	of(func(s *Entry, b boulder.Reopened) {
		s.SubTask = b.SubTaskID
		s.decide("reopened", b.Reason, page.ByUser, "retried: %s", b.Reason)
	}),
	of(func(s *Entry, b boulder.Redone) {
		what := "redo of " + strings.Join(b.SubTasks, ", ") + text.Prefixed("; perhaps also ", strings.Join(b.Perhaps, ", "))
		s.decide("redo", what, page.ByUser, "%s", what)
	}),
	of(func(s *Entry, b boulder.Kept) {
		const kept = "the user takes its result as up to date"
		s.SubTask = b.SubTaskID
		s.decide("keep", kept, page.ByUser, kept)
	}),
	of(func(s *Entry, b boulder.Archived) {
		s.log("%s", map[bool]string{true: "archived", false: "taken back from the archive"}[b.Archived])
	}),
	of(func(s *Entry, b boulder.BlockerRaised) {
		s.say(page.Question, "%s blocker %s (%s): %s%s", Hardness(b.Blocker.Hard), b.Blocker.ID, b.Blocker.Category, b.Blocker.Question,
			text.Prefixed("; chosen for now: ", b.Blocker.ChosenOption))
		s.Step, s.Text = stepBlocker, s.Line
	}),
	of(func(s *Entry, b boulder.WaitEnded) {
		s.log("%s: %s", b.BlockerID, text.If(b.Replied, "its session has the answer")+text.If(!b.Replied, "its session no longer waits for the answer"))
	}),
	of(func(s *Entry, b boulder.BlockerSettled) {
		s.SubTask = b.SubTaskID
		s.say(page.ByUser, "%s %s", b.BlockerID, settledText(b.Status, b.Allowed, b.Answer))
		s.Step, s.Text = stepAnswer, s.Line
	}),
	of(func(s *Entry, b boulder.UsageReport) {
		s.SubTask = b.SubTaskID
		s.log("usage of %s: %s", text.JoinedBy(", ", b.Source, b.Model), Usage(b.Usage))
	}),
	of(func(s *Entry, b boulder.SubTaskDone) {
		s.decide(string(b.Status), b.Summary, Sign(b.Status), "%s%s%s", Stated(string(b.Status), b.Summary),
			text.If(len(b.Blocked) > 0, " (blocks "+strings.Join(b.Blocked, ", ")+")"),
			text.If(len(b.Kept) > 0, " (as before, so kept: "+strings.Join(b.Kept, ", ")+")"))
	}),
	of(func(s *Entry, b boulder.Landed) {
		s.log("results: %s", Landed(b))
	}),
	of(func(s *Entry, b boulder.TaskComplete) {
		first, _, _ := strings.Cut(b.Summary, "\n")
		s.log("%s", joined(string(b.Status), first))
	}),
)

func (s *Entry) looked(b boulder.Looked) {
	switch {
	case b.Void != "":
		s.say(page.Attention, "the look counts for nothing: %s", b.Void)
	default:
		var all []string
		for _, f := range b.Findings {
			all = append(all, f.String())
		}
		s.say(page.Found, "the look found %s%s%s%s", text.Plural(len(b.Findings), "fact"), text.Prefixed(": ", strings.Join(all, "; ")),
			text.Prefixed("; dropped: ", strings.Join(b.Refuted, "; ")),
			text.If(b.NotCompared, "; outside of git it is not known whether it changed files"))
	}
}

// replanName names a replan, which is an extension if it adds what is missing of the request.
func replanName(missing []string) string {
	if len(missing) > 0 {
		return "extension"
	}
	return "replan"
}

func replanned(b boulder.Replanned, name func(id string) string) (parts []string) {
	for _, c := range b.Changed {
		parts = append(parts, "~ "+c.From+" → "+name(c.To.ID))
	}
	for _, t := range b.Added {
		parts = append(parts, "+ "+name(t.ID))
	}
	for _, id := range b.Removed {
		parts = append(parts, "- "+name(id))
	}
	if n := len(b.GatesNotRun); n > 0 {
		parts = append(parts, text.Are(n, "new gate")+" not run, without your approval: "+strings.Join(b.GatesNotRun, "; "))
	}
	return parts
}

func edited(b boulder.PlanEdited) string {
	var parts []string
	for _, t := range b.Added {
		parts = append(parts, "+ "+t.ID)
	}
	for _, id := range b.Changed {
		parts = append(parts, "~ "+id)
	}
	for _, id := range b.Removed {
		parts = append(parts, "- "+id)
	}
	return cmp.Or(strings.Join(parts, ", "), "what holds for all sub-tasks")
}

func amountText(dimension string, n float64) string {
	switch dimension {
	case "cost":
		return text.Money(n)
	case "time":
		return text.Elapsed(time.Duration(n * float64(time.Second)))
	case "tokens":
		return text.Count(int64(n))
	}
	return fmt.Sprintf("%.0f", n)
}

func endText(e boulder.Ended) string {
	switch {
	case e.Stopped != "":
		return "stopped by the manager, " + e.Stopped + text.Prefixed(", rule ", string(e.Rule))
	case e.Error != "":
		return joined(e.Error, e.Message)
	}
	return cmp.Or(e.Truncated, e.Finish, "no answer")
}

func settledText(status boulder.BlockerStatus, allowed bool, answer string) string {
	if status == boulder.BlockerSkipped {
		return "gets no answer: continue without"
	}
	return text.JoinedBy(": ", cmp.Or(text.If(allowed, "is allowed"), "is answered"), answer)
}

// joined returns "a: b", or a alone if it contains b.
func joined(a, b string) string {
	if strings.Contains(a, b) {
		return a
	}
	return text.JoinedBy(": ", a, b)
}

// ModelName names a model for people. Empty means OpenCode's default model.
func ModelName(model string) string { return cmp.Or(model, "OpenCode's default model") }

// InsteadText says which model does the work of another one, and why.
func InsteadText(model string, of boulder.Instead) string {
	return fmt.Sprintf("%s instead of %s: %s", ModelName(model), ModelName(of.Model),
		text.OneLine(boulder.Unnamed(of.Model, of.Reason)))
}

// again says when something is tried again.
func again(at, now time.Time) string {
	if (boulder.Cooldown{Until: at}).Endless() {
		return ""
	}
	return "; tried again at " + text.Until(at, now)
}

// Clock formats a time of day in the local zone.
func Clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }

func conflictText(c boulder.Conflict) string {
	why := "conflicts in " + strings.Join(c.Files, ", ")
	if len(c.Files) == 0 {
		var red []string
		for _, g := range c.Red {
			red = append(red, g.Command)
		}
		why = "red on the combined files: " + strings.Join(red, "; ")
	}
	if len(c.Since) > 0 {
		return why + ", since the result of " + strings.Join(c.Since, ", ")
	}
	return why + text.Prefixed(" (with ", strings.Join(c.With, ", ")) + text.If(len(c.With) > 0, ")")
}
