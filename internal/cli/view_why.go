package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
)

// How much of what was seen is shown. `--json` has all that is stored.
const (
	callsShown       = 5
	filesShown       = 8
	diagnosticsShown = 5
	nudgeShown       = 4   // lines
	callShown        = 110 // columns of a tool call
)

// printWhy shows the chain of decisions of a sub-task to people.
func (a *app) printWhy(w *whyReport) {
	v := whyView{paint: a.paint(a.Stdout), out: a.Stdout}
	if terminal(a.Stdout) {
		v.width = min(terminalSize(a.Stdout).width, widthLine) - 1
	}
	v.head(w)
	for _, s := range w.Chain {
		v.step(s)
	}
	if w.Now != "" {
		fmt.Fprintln(v.out)
		v.say(0, v.cyan("now:"), oneLine(w.Now))
	}
}

// whyView prints steps in two columns: the time, and what happened. Details are below, deeper.
type whyView struct {
	paint
	out   io.Writer
	width int // of lines; 0: as they come
}

// Depths of the chain, in columns.
const (
	depthStep   = 2  // a time, or what is known of the sub-task
	depthText   = 12 // what happened then
	depthDetail = 14 // what was seen
	depthMore   = 16
)

func (v whyView) head(w *whyReport) {
	t := w.SubTask
	v.say(0, v.mark(t.Status), v.bold(oneLine(t.Subject))+v.dim(fmt.Sprintf("  (%s) %s", oneLine(t.ID), t.Status)))
	v.field("boulder", w.BoulderID)
	if !strings.Contains(w.Now, t.Reason) {
		v.field("why", t.Reason)
	}
	if t.Replaces != "" {
		v.field("replaces", fmt.Sprintf("%s, since plan revision %d", t.Replaces, t.Revision))
	}
	v.field("after", strings.Join(t.DependsOn, ", "))
	for _, g := range t.GateHints {
		v.field("not run", g+" (a gate that nobody approved)")
	}
	for _, g := range t.Baseline {
		v.gate(depthStep, "before:", g)
	}
	if t.Stalls > 0 {
		v.field("stalls", fmt.Sprint(t.Stalls))
	}
	if len(w.Chain) == 0 {
		v.say(depthStep, "", "Nothing has been done for it yet.")
	}
}

func (v whyView) field(name, value string) {
	if value = oneLine(value); value != "" {
		v.say(depthStep, v.dim(name+":"), value)
	}
}

func (v whyView) step(s whyStep) {
	switch s.Step {
	case stepAttempt:
		v.attempt(s)
	case stepPrompt:
		v.at(s, fmt.Sprintf("turn %d:", s.Turn), promptText(s))
	case stepNudge:
		v.at(s, v.yellow("nudge")+" by the rule "+string(s.Rule)+":", firstLines(strings.TrimSpace(s.Text), nudgeShown))
	case stepFault:
		v.at(s, v.yellow("fault"), joinedBy(" ", faultName(s.Fault), s.Reason)+"; next try at "+clock(s.Until))
	case stepNote:
		v.at(s, v.yellow("note:"), s.Text)
	case stepWarning:
		v.at(s, v.yellow("warning:"), s.Reason)
	case stepEnded:
		v.ended(s)
	case stepGate:
		v.gate(depthDetail, "", *s.Gate)
	case stepVerdict:
		v.verdict(s)
	case stepDecision:
		v.decision(s)
	}
}

// promptText says what was sent. Why a continuation was is told a line above it.
func promptText(s whyStep) string {
	if s.Prompt == promptResume {
		return "the resume prompt is sent, because " + s.Reason
	}
	return "the " + s.Prompt + " is sent"
}

// faultName is the kind of a fault in front of its reason; a plain one needs no name.
func faultName(kind boulder.TroubleKind) string {
	if kind == "" || kind == boulder.TroubleServer {
		return ""
	}
	return "(" + strings.ReplaceAll(string(kind), "_", " ") + ")"
}

func (v whyView) attempt(s whyStep) {
	parts := []string{modelName(s.Model)}
	if s.Agent != "" {
		parts = append(parts, "agent "+s.Agent)
	}
	if s.SessionID != "" {
		parts = append(parts, "session "+s.SessionID)
	}
	if s.WaitedMS >= 1000 {
		parts = append(parts, "waited "+elapsed(time.Duration(s.WaitedMS)*time.Millisecond)+" for its slot")
	}
	fmt.Fprintln(v.out)
	v.column(0, depthText, v.bold(fmt.Sprintf("attempt %d", s.Attempt)),
		v.dim(stampFull(s.Time)+"  "+oneLine(strings.Join(parts, ", "))))
}

// at prints what happened at a time. what is coloured already, text is not safe yet.
func (v whyView) at(s whyStep, what, text string) {
	v.column(depthStep, depthText, v.dim(clock(s.Time)), joinedBy(" ", what, safeText(text)))
}

// column prints a label, and a text beside it from the column at on. Both are safe.
func (v whyView) column(depth, at int, label, text string) {
	pad := strings.Repeat(" ", max(1, at-depth-ansi.StringWidthWc(label)))
	body := indent(wrap(strings.TrimRight(text, "\n "), v.width-at), strings.Repeat(" ", at))
	fmt.Fprintln(v.out, strings.Repeat(" ", depth)+label+pad+strings.TrimLeft(body, " "))
}

// say prints a label and a text behind it, with further lines a bit deeper. Both are safe.
func (v whyView) say(depth int, label, text string) {
	body := wrap(joinedBy(" ", label, strings.TrimRight(text, "\n ")), v.width-depth-2)
	body = indent(body, strings.Repeat(" ", depth+2))
	fmt.Fprintln(v.out, strings.Repeat(" ", depth)+strings.TrimLeft(body, " "))
}

func (v whyView) detail(label, text string) {
	if text = oneLine(text); text != "" {
		v.say(depthDetail, v.dim(label), text)
	}
}

func (v whyView) ended(s whyStep) {
	how := describeEnd(*s.Ended)
	if s.Ended.Rule != "" {
		how += fmt.Sprintf(" (rule %s)", s.Ended.Rule)
	}
	e := s.Evidence
	if e == nil {
		v.at(s, fmt.Sprintf("turn %d ended:", s.Turn), how)
		v.detail("evidence:", "none is stored")
		return
	}
	if e.Duration > 0 {
		how = "after " + elapsed(e.Duration) + ", " + how
	}
	v.at(s, fmt.Sprintf("turn %d ended:", s.Turn), how)
	if t := s.Ended.Truncated; !strings.Contains(how, t) {
		v.detail("truncated:", t)
	}
	v.detail("said:", clipText(e.FinalMessage, 3*callShown))
	v.calls(e)
	v.changes(e.Diff)
	v.todos(e)
	v.diagnostics(e.Diagnostics)
	for _, g := range e.Gates {
		v.gate(depthDetail, "", g)
	}
	v.detail("transcript:", e.Transcript)
}

func (v whyView) calls(e *boulder.Evidence) {
	if e.ToolCount == 0 {
		v.detail("tools:", "no call")
		return
	}
	shown := e.ToolCalls[max(0, len(e.ToolCalls)-callsShown):]
	text := plural(e.ToolCount, "call")
	switch {
	case len(shown) == 0:
		v.detail("tools:", text)
		return
	case len(shown) < e.ToolCount:
		text += fmt.Sprintf(", the last %d:", len(shown))
	default:
		text += ":"
	}
	v.detail("tools:", text)
	for _, c := range shown {
		line := clipText(c.Tool+" "+cmp.Or(c.Title, toolInput(json.RawMessage(c.Input))), callShown)
		if c.Status == "error" {
			line += v.dim(" error: " + clipText(c.Output, callShown))
		} else if c.Status != "completed" {
			line += v.dim(" (never ended)")
		}
		v.say(depthMore, v.call(c.Tool, c.Status), line)
	}
}

func (v whyView) changes(d boulder.Diff) {
	if d.Unavailable != "" {
		v.detail("changes:", "not known: "+d.Unavailable)
		return
	}
	if len(d.Files) == 0 {
		v.detail("changes:", "none")
		return
	}
	var files []string
	for _, f := range d.Files[:min(len(d.Files), filesShown)] {
		text := f.Path + " (binary)"
		if f.Added >= 0 {
			text = fmt.Sprintf("%s +%d −%d", f.Path, f.Added, f.Removed)
		}
		if !f.Own {
			text += " (perhaps another sub-task's)"
		}
		files = append(files, text)
	}
	if more := len(d.Files) - len(files); more > 0 {
		files = append(files, fmt.Sprintf("and %d more", more))
	}
	v.detail("changes:", strings.Join(files, ", "))
}

func (v whyView) todos(e *boulder.Evidence) {
	open := e.OpenTodos()
	if len(e.Todos) == 0 {
		return
	}
	text := fmt.Sprintf("%d of %d open", len(open), len(e.Todos))
	if len(open) > 0 {
		text += ": " + open[0].Content
	}
	v.detail("todos:", text)
}

func (v whyView) diagnostics(all []boulder.Diagnostic) {
	for i, d := range all {
		if i == diagnosticsShown {
			v.detail("diagnostic:", fmt.Sprintf("and %d more", len(all)-i))
			return
		}
		v.detail("diagnostic:", fmt.Sprintf("%s:%d: %s: %s", d.File, d.Line, d.Severity, d.Message))
	}
}

// gate is a run of a gate, with the end of its output if it did not pass.
func (v whyView) gate(depth int, label string, g boulder.Gate) {
	mark := v.green("✓")
	how := ""
	switch {
	case g.Green():
	case g.NoWorse != "":
		mark, how = v.yellow("~"), fmt.Sprintf("exit code %d, but no worse than before: %s", g.ExitCode, g.NoWorse)
	case g.TimedOut:
		mark, how = v.red("✗"), "did not end in time"
	default:
		mark, how = v.red("✗"), fmt.Sprintf("exit code %d", g.ExitCode)
	}
	end := v.dim("(" + joinedBy(", ", oneLine(how), elapsed(g.Duration)) + ")")
	v.say(depth, mark, joinedBy(" ", label, "gate "+oneLine(g.Command)+" "+end))
	out := strings.TrimSpace(safeText(g.Output))
	if g.Green() || g.NoWorse != "" || out == "" {
		return
	}
	for line := range strings.Lines(lastLines(out, gateLinesShown)) {
		fmt.Fprintln(v.out, strings.Repeat(" ", depth+4)+v.dim(clipLine(strings.TrimRight(line, "\n"), v.width-depth-4)))
	}
}

// clipLine cuts a safe line to a width, if there is one; unlike [clipText] it keeps white space.
func clipLine(s string, n int) string {
	if n < 20 {
		return s
	}
	return ansi.TruncateWc(s, n, "…")
}

func (v whyView) verdict(s whyStep) {
	verdict := s.Verdict
	how := v.yellow("not complete:")
	if verdict.Completed {
		how = v.green("complete:")
	}
	v.at(s, "judged "+how, oneLine(verdict.Summary))
	if verdict.JudgeUnavailable {
		v.detail("note:", "no usable answer came from the judge: the gates alone decided")
	}
	for _, c := range verdict.Criteria {
		mark := v.red("✗")
		if c.Met {
			mark = v.green("✓")
		}
		v.say(depthDetail, mark, oneLine(c.Criterion)+v.dim(prefixed(" — ", oneLine(c.Evidence))))
	}
	for _, o := range verdict.Overruled {
		v.say(depthDetail, v.red("overruled:"), oneLine(o))
	}
	for _, r := range verdict.Remaining {
		if !slices.Contains(verdict.Overruled, r) {
			v.detail("remaining:", r)
		}
	}
	v.detail("the judge saw:", strings.Join(noticed(verdict), "; "))
}

// noticed is what the judge found besides the criteria.
func noticed(verdict *boulder.Verdict) []string {
	var all []string
	for _, n := range []struct {
		on   bool
		what string
	}{
		{verdict.IsStuck, "stuck" + prefixed(": ", verdict.StuckReason)},
		{verdict.IsInLoop && !verdict.Completed, "a loop"},
		{!verdict.IsProgress && !verdict.Completed && !verdict.JudgeUnavailable, "no progress"},
		{verdict.NeedReplan, "a new plan is needed" + prefixed(": ", verdict.ReplanReason)},
		{
			verdict.BlockedBy != "" && verdict.BlockedBy != "none",
			"blocked by " + strings.ReplaceAll(verdict.BlockedBy, "_", " "),
		},
		{verdict.GoalAchieved, "the whole goal achieved"},
	} {
		if n.on {
			all = append(all, n.what)
		}
	}
	return all
}

// prefixed puts something in front of a text that is not empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}

func (v whyView) decision(s whyStep) {
	what, text := s.Decision, s.Reason
	switch s.Decision {
	case decidedContinuation:
		what = fmt.Sprintf("continue the session with turn %d", s.Next)
	case decidedRetry:
		what = fmt.Sprintf("retry with attempt %d", s.Next)
		if s.Uncounted {
			what += ", which does not count"
		}
	case decidedReplan:
		what = "make a new plan"
	case decidedNoReplan:
		what = "no new plan"
	case string(boulder.SubTaskSuperseded):
		what = joinedBy(" by ", "superseded", s.ReplacedBy)
	case string(boulder.SubTaskBlocked):
		text = fmt.Sprintf("%q cannot be had: %s", s.By, s.Reason)
	case decidedParked:
		what = "wait for a person"
	case decidedUnparked:
		what = "go on"
	case decidedReopened:
		what = "begin anew"
	}
	if s.By != "" && s.Decision != string(boulder.SubTaskBlocked) {
		what += fmt.Sprintf(" because of %q", s.By)
	}
	v.at(s, v.bold("→ "+v.decided(s.Decision, oneLine(what))+":"), oneLine(text))
}

// decided colours a decision.
func (v whyView) decided(decision, text string) string {
	switch decision {
	case string(boulder.SubTaskCompleted), decidedUnparked:
		return v.green(text)
	case string(boulder.SubTaskFailed), string(boulder.SubTaskCancelled):
		return v.red(text)
	}
	return v.yellow(text)
}
