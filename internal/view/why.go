package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// How much of what was seen is shown. `--json` has all that is stored.
const (
	callsShown       = 5
	filesShown       = 8
	diagnosticsShown = 5
	nudgeShown       = 4   // lines
	callShown        = 110 // columns of a tool call
)

// Print shows the chain of decisions of a sub-task to people.
func (w *Why) Print(o Out) {
	v := WhyView{Out: o, Width: o.Lines(), claimed: w.claimed}
	v.Head(w)
	for _, s := range w.Chain {
		v.Step(s)
	}
	if w.Now != "" {
		fmt.Fprintln(v)
		v.say(0, v.Cyan("now:"), text.OneLine(w.Now))
	}
}

// WhyView prints steps in two columns: the time, and what happened. Details are below, deeper.
type WhyView struct {
	Out
	Width int // of lines; 0: as they come

	claimed map[string]bool // see [boulder.Claimed]
}

// Depths of the chain, in columns.
const (
	depthStep   = 2  // a time, or what is known of the sub-task
	depthText   = 12 // what happened then
	depthDetail = 14 // what was seen
	depthMore   = 16
)

// Head prints which sub-task it is about, and how it stands.
func (v WhyView) Head(w *Why) {
	t := w.SubTask
	v.say(0, v.mark(t.Status), v.Bold(text.OneLine(t.Subject))+v.Dim(fmt.Sprintf("  (%s) %s", text.OneLine(t.ID), t.Status)))
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

func (v WhyView) field(name, value string) {
	if value = text.OneLine(value); value != "" {
		v.say(depthStep, v.Dim(name+":"), value)
	}
}

// Step prints one decision with its reason.
func (v WhyView) Step(s WhyStep) {
	switch s.Step {
	case stepAttempt:
		v.attempt(s)
	case stepPrompt:
		v.at(s, fmt.Sprintf("turn %d:", s.Turn), promptText(s))
	case stepNudge:
		v.at(s, v.Yellow("nudge")+" by the rule "+string(s.Rule)+":", firstLines(strings.TrimSpace(s.Text), nudgeShown))
	case stepFault:
		v.fault(s)
	case stepNote:
		v.at(s, v.Yellow("note:"), s.Text)
	case stepBlocker:
		v.at(s, v.Yellow("?"), text.OneLine(s.Text))
	case stepAnswer:
		v.at(s, v.Green("✎"), text.OneLine(s.Text))
	case stepWarning:
		v.at(s, v.Yellow("warning:"), s.Reason)
	case stepEnded:
		v.ended(s)
	case StepGate:
		v.gate(depthDetail, "", *s.Gate)
	case stepVerdict:
		v.verdict(s)
	case stepDecision:
		v.decision(s)
	}
}

// promptText says what was sent. Why a continuation was is told a line above it.
func promptText(s WhyStep) string {
	if s.Prompt == promptResume {
		return "the resume prompt is sent, because " + s.Reason
	}
	return "the " + s.Prompt + " is sent"
}

func (v WhyView) fault(s WhyStep) {
	if s.Fault == boulder.TroublePaused { // nobody's fault, and it ends when a person says so
		v.at(s, v.Yellow("stopped for now:"), s.Reason)
		return
	}
	v.at(s, v.Yellow("fault"), JoinedBy(" ", faultName(s.Fault), s.Reason)+"; next try at "+Clock(s.Until))
}

// faultName is the kind of a fault in front of its reason; a plain one needs no name.
func faultName(kind boulder.TroubleKind) string {
	if kind == "" || kind == boulder.TroubleServer {
		return ""
	}
	return "(" + strings.ReplaceAll(string(kind), "_", " ") + ")"
}

func (v WhyView) attempt(s WhyStep) {
	parts := []string{ModelName(s.Model)}
	if s.Agent != "" {
		parts = append(parts, "agent "+s.Agent)
	}
	if s.SessionID != "" {
		parts = append(parts, "session "+s.SessionID)
	}
	if s.WaitedMS >= 1000 {
		parts = append(parts, "waited "+text.Elapsed(time.Duration(s.WaitedMS)*time.Millisecond)+" for its slot")
	}
	fmt.Fprintln(v)
	v.column(0, depthText, v.Bold(fmt.Sprintf("attempt %d", s.Attempt)),
		v.Dim(StampFull(s.Time)+"  "+text.OneLine(strings.Join(parts, ", "))))
}

// at prints what happened at a time. what is coloured already, text is not safe yet.
func (v WhyView) at(s WhyStep, what, line string) {
	v.column(depthStep, depthText, v.Dim(Clock(s.Time)), JoinedBy(" ", what, text.Safe(line)))
}

// column prints a label, and a text beside it from the column at on. Both are safe.
func (v WhyView) column(depth, at int, label, s string) {
	pad := strings.Repeat(" ", max(1, at-depth-ansi.StringWidthWc(label)))
	body := text.Indent(text.Wrap(strings.TrimRight(s, "\n "), v.Width-at), strings.Repeat(" ", at))
	fmt.Fprintln(v, strings.Repeat(" ", depth)+label+pad+strings.TrimLeft(body, " "))
}

// say prints a label and a text behind it, with further lines a bit deeper. Both are safe.
func (v WhyView) say(depth int, label, s string) {
	body := text.Wrap(JoinedBy(" ", label, strings.TrimRight(s, "\n ")), v.Width-depth-2)
	body = text.Indent(body, strings.Repeat(" ", depth+2))
	fmt.Fprintln(v, strings.Repeat(" ", depth)+strings.TrimLeft(body, " "))
}

func (v WhyView) detail(label, s string) {
	if s = text.OneLine(s); s != "" {
		v.say(depthDetail, v.Dim(label), s)
	}
}
