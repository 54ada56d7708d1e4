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

// Blocker is a blocker in a [Report].
type Blocker struct {
	boulder.Blocker
	// Standing says who has use for an answer: awaited, choice, moot or settled.
	Standing blockers.Standing `json:"standing"`
	// Awaited: its sub-task stands still until a person has settled it, or its session until the time for that is over.
	Awaited bool `json:"awaited"`
	// Undelivered: a person has settled it, and its sub-task has not been told yet: the next run tells it.
	Undelivered bool `json:"undelivered,omitempty"`
}

// Blockers puts the full records of a boulder's blockers together with what its sub-tasks know, and finds out who has use
// for an answer: either may be ahead of the other, when a process was killed between the two. What matters most comes
// first.
func Blockers(of boulder.Boulder, tasks []boulder.SubTask, records []boulder.Blocker, now time.Time) []Blocker {
	full := slices.Clone(records)
	raised := map[string]boulder.RaisedBlocker{}
	for i := range tasks {
		t := &tasks[i]
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
		t, _ := blockers.SubTaskOf(&f, of, tasks)
		b := Blocker{Blocker: f, Standing: blockers.StandingOf(&f, t, now)}
		b.Awaited = b.Standing == blockers.Awaited
		k, known := raised[f.ID]
		b.Undelivered = known && t != nil && f.Status.Settled() && !k.Status.Settled()
		all = append(all, b)
	}
	order := []blockers.Standing{blockers.Awaited, blockers.Choice, blockers.Moot, blockers.Over}
	rank := func(b Blocker) int {
		n := 2 * slices.Index(order, b.Standing)
		if !b.Hard {
			n++
		}
		return n
	}
	slices.SortStableFunc(all, func(x, y Blocker) int { return cmp.Compare(rank(x), rank(y)) })
	return all
}

// Hardness says whether work can go on without an answer.
func Hardness(hard bool) string {
	if hard {
		return "hard"
	}
	return "soft"
}

// PrintBlocker writes a blocker with what is known of it; whole also where and when it came up.
func PrintBlocker(o page.Out, depth int, b *boulder.Blocker, standing blockers.Standing, whole bool, now time.Time) {
	sign := "≈"
	switch {
	case standing == blockers.Awaited:
		sign = "!"
	case b.Status.Settled():
		sign = "✓"
	}
	if box := (map[bool]string{true: "[x]", false: "[ ]"}); whole && o.Markdown { // to be ticked
		sign = box[b.Status.Settled()]
	}
	about := Hardness(b.Hard)
	for _, s := range []string{string(b.Category), cmp.Or(b.SubTaskID, b.SessionID)} {
		if s != "" {
			about += ", " + s
		}
	}
	o.Item(depth, o.Mark(sign), " ", o.Strong(b.ID), " ", o.Faint("("+about+")"), ": ", o.Plain(b.Question))
	depth++
	when := func(t time.Time) string {
		if o.Markdown { // read at any time
			return t.In(now.Location()).Format(stampLayout)
		}
		return t.In(now.Location()).Format(stampLayout) + ", " + text.Elapsed(now.Sub(t)) + " ago"
	}
	if whole {
		o.Field(depth, "raised", when(b.CreatedAt))
		if b.BoulderID != "" {
			o.Field(depth, "sub-task", fmt.Sprintf("%s, attempt %d, of boulder %s", b.SubTaskID, b.Attempt, b.BoulderID))
		}
		o.Field(depth, "session", b.SessionID)
	}
	o.Block(depth, "context", b.Context)
	if a := b.Ask; a != nil {
		if a.Permission != "" {
			o.Field(depth, "permission", a.Permission+Prefixed(": ", strings.Join(a.Patterns, ", ")))
		}
		if call := strings.TrimSpace(a.Tool + " " + a.Arguments); call != "" {
			o.Item(depth, o.Faint("call:"), " ", o.Code(text.Clip(call, textShown)))
		}
		o.Field(depth, "reply", replyText(b, now))
	}
	for i, option := range b.Options {
		if option == b.ChosenOption {
			option += " ← chosen for now"
		}
		o.Field(depth, fmt.Sprintf("option %d", i+1), option)
	}
	if !slices.Contains(b.Options, b.ChosenOption) {
		o.Field(depth, "chosen for now", b.ChosenOption)
	}
	o.Block(depth, "because", b.ChosenReasoning)
	switch {
	case standing == blockers.Awaited && !whole:
		o.Item(depth, o.Code("manager blockers answer "+b.ID+` "…"`))
	case standing == blockers.Moot && (whole || b.Hard):
		o.Item(depth, "the answer is not needed any more")
	case b.Status.Settled() && whole:
		o.Field(depth, string(b.Status), when(b.SettledAt))
	case b.Status == boulder.BlockerSkipped:
		o.Field(depth, "skipped", "it goes on without an answer")
	}
	if b.Allowed {
		o.Field(depth, "allowed", strings.TrimSpace("for the rest of the sub-task. "+b.Answer))
	} else {
		o.Block(depth, "answer", b.Answer)
	}
}

// replyText says what the session got from OpenCode's question.
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
