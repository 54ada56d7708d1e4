package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
)

// blockersView shows blockers to people.
type blockersView struct {
	paint
	out   io.Writer
	width int // of the terminal
	now   time.Time
}

func (a *app) blockersView(out io.Writer) blockersView {
	return blockersView{paint: a.paint(out), out: out, width: min(terminalSize(out).Width, widthLine), now: time.Now()}
}

// say prints a text with its lines broken between words.
func (v blockersView) say(text string) { fmt.Fprintln(v.out, wrap(text, v.width-1)) }

// state says whether blockers are diverted, and how many wait.
func (v blockersView) state(s *blockersStatus) {
	on := v.dim("off")
	if s.On {
		on = v.green("on")
	}
	v.say(v.bold("blockers") + " " + on + v.dim("  "+s.why()))
	var counts []string
	if s.Answered > 0 {
		counts = append(counts, fmt.Sprintf("%d answered", s.Answered))
	}
	if s.Skipped > 0 {
		counts = append(counts, fmt.Sprintf("%d skipped", s.Skipped))
	}
	if s.Moot > 0 {
		counts = append(counts, fmt.Sprintf("%d that nobody waits for", s.Moot))
	}
	waits := waitingBlockers{Hard: s.Hard, Asks: s.Asks, Soft: s.Soft}
	text := "nothing waits for an answer"
	if waits.awaited() != "" {
		text = v.yellow(waits.awaited())
	}
	v.say(joinedBy(" · ", text, waits.choices()) + v.dim(" · "+strings.Join(append(counts, oneLine(s.File)), " · ")))
	if s.Unwritten > 0 {
		v.say(v.yellow(fmt.Sprintf("%s not in %s yet", are(s.Unwritten, "item"), oneLine(s.File))) +
			prefixed(": ", oneLine(s.Trouble)) + ". Nothing is lost; it is tried again with every command.")
	}
	switch {
	case waits.awaited() != "":
		v.say("Answer with: " + clarifyHint)
	case waits.Soft > 0:
		v.say("Go through them with: " + clarifyHint)
	}
}

// why says what decides whether blockers are diverted.
func (s *blockersStatus) why() string {
	said := map[bool]string{true: "on", false: "off"}
	text := "by the configuration"
	if !s.On {
		text += "; runs that were begun with --blockers keep it"
	}
	atWork := s.Diverted
	if s.Watched {
		atWork = append(slices.Clip(atWork), "manager watch")
	}
	if len(atWork) > 0 {
		text = "by --blockers of what is at work: " + strings.Join(atWork, ", ")
	}
	if s.Switch != nil {
		text = "by `manager blockers " + said[*s.Switch] + "`"
	}
	if s.SessionID != "" {
		if on, ok := s.Sessions[s.SessionID]; ok {
			text = "by `manager blockers " + said[on] + " --session " + s.SessionID + "`"
		}
		return "for session " + oneLine(s.SessionID) + ", " + text
	}
	if n := len(s.Sessions); n > 0 {
		text += fmt.Sprintf("; switched by itself: %s", plural(n, "session"))
	}
	return text
}

// Widths of the columns of a table of blockers, in terminal columns.
const (
	widthBlockerID = 5
	widthCategory  = 12 // architecture
	widthOutcome   = 8  // answered
)

// groupTitles say above the lines of a table what they have in common.
var groupTitles = map[blockers.Standing]string{
	blockers.Awaited: "waiting for an answer", blockers.Choice: "choices that can still be changed",
	blockers.Moot: "nobody waits any more", blockers.Over: "settled",
}

// table is the blockers, one line each, in the groups that they come in. The narrower the terminal is, the fewer columns
// there are.
func (v blockersView) table(all []blockerItem) {
	ids, places := widthBlockerID, 0
	group := blockers.Awaited // goes without saying
	for i := range all {
		ids = max(ids, len(all[i].ID))
		places = max(places, min(ansi.StringWidthWc(place(&all[i].Blocker)), widestLabel))
	}
	if v.width < 100 {
		places = min(places, widthCategory)
	}
	for i := range all {
		b := &all[i].Blocker
		if all[i].Standing != group {
			if group = all[i].Standing; i > 0 {
				v.say("")
			}
			v.say(v.dim(groupTitles[group] + ":"))
		}
		line := v.degree(b, fit(b.ID, ids)) + " " + fitRight(elapsed(v.now.Sub(b.CreatedAt)), widthElapsed) + "  " +
			v.degree(b, fit(hardness(b.Hard), 4))
		if group == blockers.Over {
			line += "  " + v.outcome(b, fit(string(b.Status), widthOutcome))
		}
		if v.width >= 100 {
			line += "  " + v.dim(fit(string(b.Category), widthCategory))
		}
		if v.width >= 60 && places > 0 {
			line += "  " + v.cyan(fit(place(b), places))
		}
		room := v.width - 1 - ansi.StringWidthWc(ansi.Strip(line)) - 2
		question := b.Question
		if group == blockers.Awaited && blockers.Waiting(b, v.now) {
			question = "(" + elapsed(b.Until.Sub(v.now).Truncate(time.Second)) + " left) " + question
		}
		fmt.Fprintln(v.out, line+"  "+clipText(question, room))
	}
}

// place is where a blocker came up: in a sub-task, or in a session of its own.
func place(b *boulder.Blocker) string { return cmp.Or(b.SubTaskID, b.SessionID) }

// degree colours what stands still.
func (v blockersView) degree(b *boulder.Blocker, s string) string {
	if b.Hard && !b.Status.Settled() {
		return v.yellow(s)
	}
	return v.dim(s)
}

func (v blockersView) outcome(b *boulder.Blocker, s string) string {
	switch b.Status {
	case boulder.BlockerAnswered:
		return v.green(s)
	case boulder.BlockerSkipped:
		return v.dim(s)
	}
	return s
}

// all is everything about a blocker.
func (v blockersView) all(b *boulder.Blocker) {
	fmt.Fprintf(v.out, "%s  %s\n", v.bold(b.ID), strings.Join([]string{
		v.degree(b, hardness(b.Hard)), oneLine(string(b.Category)), v.outcome(b, string(b.Status)),
	}, "  "))
	v.text("", v.bold, b.Question)
	fmt.Fprintln(v.out)
	v.from(b)
	v.asked(b)
	v.text("context:", nil, b.Context)
	v.options(b)
	v.text("reasoning:", nil, b.ChosenReasoning)
	v.settled(b)
}

// from says where and when it came up.
func (v blockersView) from(b *boulder.Blocker) {
	if b.BoulderID != "" {
		v.field("boulder", b.BoulderID)
		v.field("sub-task", fmt.Sprintf("%s, attempt %d", b.SubTaskID, b.Attempt))
	}
	v.field("session", b.SessionID)
	v.field("raised", fmt.Sprintf("%s, %s ago", stampFull(b.CreatedAt), elapsed(v.now.Sub(b.CreatedAt))))
}

// asked is what OpenCode wanted to ask a person, and what the agent got instead.
func (v blockersView) asked(b *boulder.Blocker) {
	a := b.Ask
	if a == nil {
		return
	}
	if a.Permission != "" {
		v.field("permission", joinedBy(": ", a.Permission, strings.Join(a.Patterns, ", ")))
	}
	if a.Tool != "" || a.Arguments != "" {
		v.text("call:", nil, joinedBy(" ", a.Tool, a.Arguments))
	}
	v.field("reply", replyText(b, v.now))
}

func replyText(b *boulder.Blocker, now time.Time) string {
	switch b.Ask.Reply {
	case boulder.ReplyDiverted:
		return "refused, with the word to go on with something else"
	case boulder.ReplyAllowed:
		return "allowed"
	case boulder.ReplyWaiting:
		if b.Until.After(now) {
			return fmt.Sprintf("waits for a person until %s, %s from now", stamp(b.Until, now), elapsed(b.Until.Sub(now)))
		}
		return "waited for a person until " + stamp(b.Until, now)
	case boulder.ReplyGone:
		return "none: the session did not wait any longer"
	}
	return string(b.Ask.Reply)
}

func (v blockersView) options(b *boulder.Blocker) {
	if len(b.Options) == 0 {
		v.text("chosen for now:", nil, b.ChosenOption)
		return
	}
	fmt.Fprintln(v.out, "  "+v.dim("options:"))
	for i, option := range b.Options {
		mark := ""
		if option == b.ChosenOption {
			mark = v.green("  ← chosen for now")
		}
		label := fmt.Sprintf("%d. ", i+1)
		body := indent(wrap(safeText(option)+mark, v.width-5-len(label)), strings.Repeat(" ", 4+len(label)))
		fmt.Fprintln(v.out, "    "+label+strings.TrimLeft(body, " "))
	}
}

func (v blockersView) settled(b *boulder.Blocker) {
	if !b.Status.Settled() {
		return
	}
	v.field(string(b.Status), fmt.Sprintf("%s, %s ago", stampFull(b.SettledAt), elapsed(v.now.Sub(b.SettledAt))))
	if b.Allowed {
		v.field("allowed", "yes, for the rest of the sub-task")
	}
	v.text("answer:", nil, b.Answer)
}

// field is one labelled line; one without a value is left out.
func (v blockersView) field(name, value string) {
	if value = oneLine(value); value != "" {
		body := wrap(v.dim(name+":")+" "+value, v.width-5)
		fmt.Fprintln(v.out, strings.TrimPrefix(indent(body, "    "), "  "))
	}
}

// text is a text of any number of lines below its label; an empty one is left out.
func (v blockersView) text(label string, style func(string) string, text string) {
	text = strings.TrimSpace(safeText(text))
	if text == "" {
		return
	}
	depth := "  "
	if label != "" {
		fmt.Fprintln(v.out, "  "+v.dim(label))
		depth = "    "
	}
	for line := range strings.SplitSeq(wrap(text, v.width-1-len(depth)), "\n") {
		if style != nil {
			line = style(line)
		}
		fmt.Fprintln(v.out, strings.TrimRight(depth+line, " "))
	}
}
