package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
)

// Blocker is a blocker as --json prints it, and whether an answer is still of use.
type Blocker struct {
	Type string `json:"type"` // blocker-record: the event is of type blocker
	boulder.Blocker
	Standing    blockers.Standing `json:"standing"`
	Awaited     bool              `json:"awaited"`               // its sub-task or session waits
	Undelivered bool              `json:"undelivered,omitempty"` // settled, but its sub-task was not told yet
	Over        string            `json:"-"`                     // what is over, so that an answer has no effect
}

// NewBlocker finds out whether an answer is of use. t and over are the results of [blockers.SubTaskOf].
func NewBlocker(b boulder.Blocker, t *boulder.SubTask, over string, now time.Time) Blocker {
	standing := blockers.StandingOf(&b, t, now)
	return Blocker{Type: "blocker-record", Blocker: b, Standing: standing, Awaited: standing == blockers.Awaited, Over: over}
}

// SortBlockers sorts blockers by urgency: first those of waiting sessions, by the time at which these continue without
// an answer, then the others by standing and age.
func SortBlockers(all []Blocker, now time.Time) {
	place := func(b Blocker) int {
		if b.Awaited && blockers.Waiting(&b.Blocker, now) {
			return -1
		}
		return slices.Index([]blockers.Standing{blockers.Awaited, blockers.Choice, blockers.Moot, blockers.Over}, b.Standing)
	}
	slices.SortStableFunc(all, func(x, y Blocker) int {
		until := 0
		if place(x) < 0 {
			until = x.Until.Compare(y.Until)
		}
		return cmp.Or(place(x)-place(y), until, x.CreatedAt.Compare(y.CreatedAt))
	})
}

// Blockers merges the full records of a boulder's blockers with those of its sub-tasks, sorted by [SortBlockers]. After
// a crash between the two writes either may be ahead.
func Blockers(of boulder.Boulder, tasks []*boulder.SubTask, records []boulder.Blocker, now time.Time) []Blocker {
	full := slices.Clone(records)
	raised := map[string]boulder.RaisedBlocker{}
	for _, t := range tasks {
		for _, k := range t.Blockers {
			raised[k.ID] = k
			at := slices.IndexFunc(full, func(b boulder.Blocker) bool { return b.ID == k.ID })
			if at < 0 {
				full = append(full, boulder.Blocker{
					ID: k.ID, BlockerScope: boulder.BlockerScope{BoulderID: of.ID, SubTaskID: t.ID, Attempt: k.Attempt},
					Question: k.Question, Hard: k.Hard,
					ChosenOption: k.Choice, Status: k.Status, Answer: k.Answer, Allowed: k.Allowed,
				})
			} else if f := &full[at]; k.Status.Settled() && !f.Status.Settled() {
				f.Status, f.Answer, f.Allowed = k.Status, k.Answer, k.Allowed
			}
		}
	}
	all := []Blocker{}
	for _, f := range full {
		t, over := blockers.SubTaskOf(&f, of, tasks)
		b := NewBlocker(f, t, over, now)
		k, known := raised[f.ID]
		b.Undelivered = known && t != nil && f.Status.Settled() && !k.Status.Settled()
		all = append(all, b)
	}
	SortBlockers(all, now)
	return all
}

// Hardness names a blocker hard if work cannot continue without an answer, else soft.
func Hardness(hard bool) string { return cmp.Or(text.If(hard, "hard"), "soft") }

// Print writes a blocker; whole includes where and when it was raised.
func (b *Blocker) Print(o page.Out, depth int, whole bool, now time.Time) {
	settled := b.Status.Settled()
	sign := map[blockers.Standing]string{blockers.Awaited: "!", blockers.Over: "✓"}[b.Standing]
	if whole && o.Markdown { // a check box
		sign = map[bool]string{true: "[x]", false: "[ ]"}[settled]
	}
	about := text.JoinedBy(", ", Hardness(b.Hard), string(b.Category), cmp.Or(b.SubTaskID, b.SessionID))
	o.Item(depth, o.Mark(cmp.Or(sign, "≈")), " ", o.Strong(b.ID), " ", o.Faint("("+about+")"), ": ", o.Plain(b.Question))
	depth++
	when := func(t time.Time) string { // in a document, relative times would go stale
		return t.In(now.Location()).Format(stampLayout) + text.If(!o.Markdown, ", "+text.Elapsed(now.Sub(t))+" ago")
	}
	if whole {
		o.Fields(depth, "raised", when(b.CreatedAt), "sub-task", text.If(b.BoulderID != "",
			fmt.Sprintf("%s, attempt %d, of boulder %s", b.SubTaskID, b.Attempt, b.BoulderID)), "session", b.SessionID)
	}
	o.Block(depth, "context", b.Context)
	if a := b.Ask; a != nil {
		o.Field(depth, "permission", text.If(a.Permission != "", a.Permission+text.Prefixed(": ", strings.Join(a.Patterns, ", "))))
		if call := strings.TrimSpace(a.Tool + " " + a.Arguments); call != "" {
			o.Item(depth, o.Faint("call:"), " ", o.Code(text.Clip(call, textShown)))
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
	switch reply := b.Ask.Reply; {
	case reply == boulder.ReplyWaiting && b.Until.After(now):
		return fmt.Sprintf("waits for the user until %s, %s from now", until, text.Elapsed(b.Until.Sub(now)))
	case reply == boulder.ReplyWaiting:
		return "waited for the user until " + until
	case reply == boulder.ReplyDiverted:
		return "refused, and told to continue with something else"
	case reply == boulder.ReplyGone:
		return "none: the session did not wait any longer"
	default:
		return string(reply)
	}
}
