package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Blockers shows blockers to people.
type Blockers struct {
	Out
	Width int // of the terminal
	Now   time.Time
}

// NewBlockers makes the view of a list of blockers as they are at a time.
func NewBlockers(o Out, now time.Time) Blockers {
	return Blockers{Out: o, Width: min(o.Width(), widthLine), Now: now}
}

// Say prints a text with its lines broken between words.
func (v Blockers) Say(s string) { fmt.Fprintln(v, text.Wrap(s, v.Width-1)) }

// State says whether blockers are diverted, and how many wait.
func (v Blockers) State(s *BlockersStatus) {
	on := v.Dim("off")
	if s.On {
		on = v.Green("on")
	}
	v.Say(v.Bold("blockers") + " " + on + v.Dim("  "+s.why()))
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
	waits := WaitingBlockers{Hard: s.Hard, Asks: s.Asks, Soft: s.Soft}
	line := "nothing waits for an answer"
	if waits.Awaited() != "" {
		line = v.Yellow(waits.Awaited())
	}
	v.Say(JoinedBy(" · ", line, waits.Choices()) + v.Dim(" · "+strings.Join(append(counts, text.OneLine(s.File)), " · ")))
	if s.Unwritten > 0 {
		v.Say(v.Yellow(fmt.Sprintf("%s not in %s yet", Are(s.Unwritten, "item"), text.OneLine(s.File))) +
			Prefixed(": ", text.OneLine(s.Trouble)) + ". Nothing is lost; it is tried again with every command.")
	}
	switch {
	case waits.Awaited() != "":
		v.Say("Answer with: " + ClarifyHint)
	case waits.Soft > 0:
		v.Say("Go through them with: " + ClarifyHint)
	}
}

// why says what decides whether blockers are diverted.
func (s *BlockersStatus) why() string {
	said := map[bool]string{true: "on", false: "off"}
	line := "by the configuration"
	if !s.On {
		line += "; runs that were begun with --blockers keep it"
	}
	atWork := s.Diverted
	if s.Watched {
		atWork = append(slices.Clip(atWork), "manager watch")
	}
	if len(atWork) > 0 {
		line = "by --blockers of what is at work: " + strings.Join(atWork, ", ")
	}
	if s.Switch != nil {
		line = "by `manager blockers " + said[*s.Switch] + "`"
	}
	if s.SessionID != "" {
		if on, ok := s.Sessions[s.SessionID]; ok {
			line = "by `manager blockers " + said[on] + " --session " + s.SessionID + "`"
		}
		return "for session " + text.OneLine(s.SessionID) + ", " + line
	}
	if n := len(s.Sessions); n > 0 {
		line += fmt.Sprintf("; switched by itself: %s", text.Plural(n, "session"))
	}
	return line
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

// Table is the blockers, one line each, in the groups that they come in. The narrower the terminal is, the fewer columns
// there are.
func (v Blockers) Table(all []BlockerItem) {
	ids, places := widthBlockerID, 0
	group := blockers.Awaited // goes without saying
	for i := range all {
		ids = max(ids, len(all[i].ID))
		places = max(places, min(ansi.StringWidthWc(place(&all[i].Blocker)), widestLabel))
	}
	if v.Width < 100 {
		places = min(places, widthCategory)
	}
	for i := range all {
		b := &all[i].Blocker
		if all[i].Standing != group {
			if group = all[i].Standing; i > 0 {
				v.Say("")
			}
			v.Say(v.Dim(groupTitles[group] + ":"))
		}
		line := v.degree(b, text.Fit(b.ID, ids)) + " " + text.FitRight(text.Elapsed(v.Now.Sub(b.CreatedAt)), widthElapsed) + "  " +
			v.degree(b, text.Fit(hardness(b.Hard), 4))
		if group == blockers.Over {
			line += "  " + v.outcome(b, text.Fit(string(b.Status), widthOutcome))
		}
		if v.Width >= 100 {
			line += "  " + v.Dim(text.Fit(string(b.Category), widthCategory))
		}
		if v.Width >= 60 && places > 0 {
			line += "  " + v.Cyan(text.Fit(place(b), places))
		}
		room := v.Width - 1 - ansi.StringWidthWc(ansi.Strip(line)) - 2
		question := b.Question
		if group == blockers.Awaited && blockers.Waiting(b, v.Now) {
			question = "(" + text.Elapsed(b.Until.Sub(v.Now).Truncate(time.Second)) + " left) " + question
		}
		fmt.Fprintln(v, line+"  "+text.Clip(question, room))
	}
}

// place is where a blocker came up: in a sub-task, or in a session of its own.
func place(b *boulder.Blocker) string { return cmp.Or(b.SubTaskID, b.SessionID) }

// degree colours what stands still.
func (v Blockers) degree(b *boulder.Blocker, s string) string {
	if b.Hard && !b.Status.Settled() {
		return v.Yellow(s)
	}
	return v.Dim(s)
}

func (v Blockers) outcome(b *boulder.Blocker, s string) string {
	switch b.Status {
	case boulder.BlockerAnswered:
		return v.Green(s)
	case boulder.BlockerSkipped:
		return v.Dim(s)
	}
	return s
}

// All is everything about a blocker.
func (v Blockers) All(b *boulder.Blocker) {
	fmt.Fprintf(v, "%s  %s\n", v.Bold(b.ID), strings.Join([]string{
		v.degree(b, hardness(b.Hard)), text.OneLine(string(b.Category)), v.outcome(b, string(b.Status)),
	}, "  "))
	v.Text("", v.Bold, b.Question)
	fmt.Fprintln(v)
	v.from(b)
	v.asked(b)
	v.Text("context:", nil, b.Context)
	v.options(b)
	v.Text("reasoning:", nil, b.ChosenReasoning)
	v.settled(b)
}

// from says where and when it came up.
func (v Blockers) from(b *boulder.Blocker) {
	if b.BoulderID != "" {
		v.field("boulder", b.BoulderID)
		v.field("sub-task", fmt.Sprintf("%s, attempt %d", b.SubTaskID, b.Attempt))
	}
	v.field("session", b.SessionID)
	v.field("raised", fmt.Sprintf("%s, %s ago", StampFull(b.CreatedAt), text.Elapsed(v.Now.Sub(b.CreatedAt))))
}

// asked is what OpenCode wanted to ask a person, and what the agent got instead.
func (v Blockers) asked(b *boulder.Blocker) {
	a := b.Ask
	if a == nil {
		return
	}
	if a.Permission != "" {
		v.field("permission", JoinedBy(": ", a.Permission, strings.Join(a.Patterns, ", ")))
	}
	if a.Tool != "" || a.Arguments != "" {
		v.Text("call:", nil, JoinedBy(" ", a.Tool, a.Arguments))
	}
	v.field("reply", replyText(b, v.Now))
}

func replyText(b *boulder.Blocker, now time.Time) string {
	switch b.Ask.Reply {
	case boulder.ReplyDiverted:
		return "refused, with the word to go on with something else"
	case boulder.ReplyAllowed:
		return "allowed"
	case boulder.ReplyWaiting:
		if b.Until.After(now) {
			return fmt.Sprintf("waits for a person until %s, %s from now", stamp(b.Until, now), text.Elapsed(b.Until.Sub(now)))
		}
		return "waited for a person until " + stamp(b.Until, now)
	case boulder.ReplyGone:
		return "none: the session did not wait any longer"
	}
	return string(b.Ask.Reply)
}

func (v Blockers) options(b *boulder.Blocker) {
	if len(b.Options) == 0 {
		v.Text("chosen for now:", nil, b.ChosenOption)
		return
	}
	fmt.Fprintln(v, "  "+v.Dim("options:"))
	for i, option := range b.Options {
		mark := ""
		if option == b.ChosenOption {
			mark = v.Green("  ← chosen for now")
		}
		label := fmt.Sprintf("%d. ", i+1)
		body := text.Indent(text.Wrap(text.Safe(option)+mark, v.Width-5-len(label)), strings.Repeat(" ", 4+len(label)))
		fmt.Fprintln(v, "    "+label+strings.TrimLeft(body, " "))
	}
}

func (v Blockers) settled(b *boulder.Blocker) {
	if !b.Status.Settled() {
		return
	}
	v.field(string(b.Status), fmt.Sprintf("%s, %s ago", StampFull(b.SettledAt), text.Elapsed(v.Now.Sub(b.SettledAt))))
	if b.Allowed {
		v.field("allowed", "yes, for the rest of the sub-task")
	}
	v.Text("answer:", nil, b.Answer)
}

// field is one labelled line; one without a value is left out.
func (v Blockers) field(name, value string) {
	if value = text.OneLine(value); value != "" {
		body := text.Wrap(v.Dim(name+":")+" "+value, v.Width-5)
		fmt.Fprintln(v, strings.TrimPrefix(text.Indent(body, "    "), "  "))
	}
}

// Text is a text of any number of lines below its label; an empty one is left out.
func (v Blockers) Text(label string, style func(string) string, s string) {
	s = strings.TrimSpace(text.Safe(s))
	if s == "" {
		return
	}
	depth := "  "
	if label != "" {
		fmt.Fprintln(v, "  "+v.Dim(label))
		depth = "    "
	}
	for line := range strings.SplitSeq(text.Wrap(s, v.Width-1-len(depth)), "\n") {
		if style != nil {
			line = style(line)
		}
		fmt.Fprintln(v, strings.TrimRight(depth+line, " "))
	}
}

// BlockersStatus is what `manager blockers status --json` prints: one object. Fields are added in later versions, never
// changed.
type BlockersStatus struct {
	Type string `json:"type"` // blockers-status
	// On: what comes up in the session, or with none named in the project or in what is at work, is diverted.
	On        bool   `json:"on"`
	SessionID string `json:"session_id,omitempty"` // that On speaks of
	// Switch is what `manager blockers on|off` said, which counts more; null: nothing.
	Switch *bool `json:"switch"`
	// Diverted are the boulders at work that were begun with --blockers, where no switch says otherwise.
	Diverted []string `json:"diverted,omitempty"`
	// Watched: a watch is at work that was begun with --blockers.
	Watched bool `json:"watched,omitempty"`
	// Sessions are those with a switch of their own, which counts most.
	Sessions  map[string]bool `json:"sessions"`
	Pending   int             `json:"pending"` // nobody answered: hard, asks, soft and moot
	Hard      int             `json:"hard"`    // work on them stands still, or will
	Asks      int             `json:"asks"`    // a session holds still for an answer, for a time
	Soft      int             `json:"soft"`    // the agents chose for themselves, and an answer still reaches them
	Moot      int             `json:"moot"`    // nobody waits any more
	Answered  int             `json:"answered"`
	Skipped   int             `json:"skipped"`
	Unwritten int             `json:"unwritten"`         // items that are not in the file yet
	Trouble   string          `json:"trouble,omitempty"` // why they are not
	File      string          `json:"file"`              // for people, in the project

	Open   []BlockerItem `json:"-"`
	Unread error         `json:"-"` // why some of them are missing
}
