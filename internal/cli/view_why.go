package cli

import (
	"fmt"
	"io"
	"maps"
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
	v := whyView{paint: a.paint(a.Stdout), out: a.Stdout, claimed: w.claimed}
	if terminal(a.Stdout) {
		v.width = min(terminalSize(a.Stdout).Width, widthLine) - 1
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

	claimed map[string]bool // see [boulder.Claimed]
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
	if w.Now == "" || t.Status != boulder.SubTaskBlocked {
		v.field("why", t.Reason)
	}
	if t.Replaces != "" {
		v.field("replaces", fmt.Sprintf("%s, since plan revision %d", t.Replaces, t.Revision))
	}
	v.field("after", strings.Join(t.DependsOn, ", "))
	for _, gate := range slices.Sorted(maps.Keys(w.GatesFrom)) {
		v.field("gate", fmt.Sprintf("%s (taken over from %s, which was replaced)", gate, w.GatesFrom[gate]))
	}
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
		v.fault(s)
	case stepNote:
		v.at(s, v.yellow("note:"), s.Text)
	case stepBlocker:
		v.at(s, v.yellow("?"), oneLine(s.Text))
	case stepAnswer:
		v.at(s, v.green("✎"), oneLine(s.Text))
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

func (v whyView) fault(s whyStep) {
	if s.Fault == boulder.TroublePaused { // nobody's fault, and it ends when a person says so
		v.at(s, v.yellow("stopped for now:"), s.Reason)
		return
	}
	v.at(s, v.yellow("fault"), joinedBy(" ", faultName(s.Fault), s.Reason)+"; next try at "+clock(s.Until))
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
