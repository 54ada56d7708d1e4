package store

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

// TestRestoreEqualsLiveState: any history, committed in any portions with restarts in between, restores to the same
// state. Its export, imported elsewhere and exported again, is the same to the byte.
func TestRestoreEqualsLiveState(t *testing.T) {
	t.Parallel()
	here, there := openTemp(t), openTemp(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		id := fmt.Sprintf("b%d", n)
		w := newWorld(rt, id, epoch, drawPlan(rt)...)
		same := func(db *DB) *boulder.State {
			restored := restore(rt, db, id)
			if diff := cmp.Diff(picture(rt, w.State), picture(rt, restored)); diff != "" {
				rt.Fatalf("live (-) and restored (+):\n%s", diff)
			}
			return restored
		}
		for range rapid.IntRange(1, 4).Draw(rt, "commits") {
			for range rapid.IntRange(0, 30).Draw(rt, "events") {
				step(rt, w)
			}
			w.commit(rt, here)
			if restored := same(here); rapid.Bool().Draw(rt, "restart") {
				w.State = restored
			}
		}
		text := exported(rt, here, id)
		x := read(rt, text)
		s, err := x.State()
		if err = errors.Join(err, there.Import(t.Context(), s, x.Events)); err != nil {
			rt.Fatalf("%v", err)
		}
		if diff := cmp.Diff(text, exported(rt, there, id)); diff != "" {
			rt.Fatalf("exported (-) and exported again (+):\n%s", diff)
		}
		same(there)
		if err := there.Import(t.Context(), s, x.Events); !errors.Is(err, ErrExists) {
			rt.Fatalf("a second import: %v", err)
		}
	})
}

func drawPlan(rt *rapid.T) []boulder.Spec {
	var plan []boulder.Spec
	for i := range rapid.IntRange(1, 8).Draw(rt, "sub-tasks") {
		s := spec(fmt.Sprintf("t%d", i))
		for j := range i {
			if rapid.IntRange(0, 3).Draw(rt, "edge") == 0 {
				s.DependsOn = append(s.DependsOn, fmt.Sprintf("t%d", j))
			}
		}
		s.Priority = rapid.SampledFrom([]boulder.Priority{"", boulder.High, boulder.Low}).Draw(rt, "priority")
		s.Model = rapid.SampledFrom([]boulder.Models{"", "a/x", "b/y", "a/x,b/y"}).Draw(rt, "model")
		s.Gates = rapid.SliceOfN(rapid.String(), 0, 2).Draw(rt, "gates")
		plan = append(plan, s)
	}
	return plan
}

// step applies a random next event of a random sub-task, unless the state refuses it.
func step(rt *rapid.T, w *world) {
	t := rapid.SampledFrom(w.SubTasks).Draw(rt, "sub-task")
	o := w.Open(t.ID)
	if len(t.Blockers) > 0 && (o == nil || rapid.IntRange(0, 4).Draw(rt, "settle") == 0) {
		_ = w.apply(boulder.BlockerSettled{
			SubTaskID: t.ID, BlockerID: rapid.SampledFrom(t.Blockers).Draw(rt, "blocker").ID, Status: boulder.BlockerAnswered,
			Answer: rapid.String().Draw(rt, "answer"), Allowed: rapid.Bool().Draw(rt, "allowed"),
		})
	}
	if o == nil {
		return
	}
	ref, turn := o.Attempt.AttemptRef, o.Attempt.Turns
	text := rapid.String().Draw(rt, "text")
	usage := boulder.Usage{
		Input: rapid.Int64Range(0, 1e9).Draw(rt, "input"),
		Cost:  rapid.Float64Range(0, 10).Draw(rt, "cost"),
	}
	bodies := map[boulder.AttemptStatus][]boulder.Body{
		boulder.AttemptQueued: {boulder.Starting{AttemptRef: ref, Tag: "tag", Prompt: text}},
		boulder.AttemptStarting: {
			boulder.SubTaskStart{AttemptRef: ref, SessionID: "ses", Snapshot: "tree"},
			boulder.Trouble{AttemptRef: ref, Reason: text, NotBefore: w.now},
		},
		boulder.AttemptExecuting: {
			boulder.TurnSent{AttemptRef: ref, Turn: turn, MessageID: "msg"},
			boulder.TurnSent{AttemptRef: ref, Turn: turn, MessageID: "again", Resume: true},
			boulder.SubTaskProgress{AttemptRef: ref, Checkpoint: &boulder.Checkpoint{File: text, Line: 3, At: w.now}},
			boulder.TurnEnded{AttemptRef: ref, Turn: turn, Evidence: boulder.Evidence{FinalMessage: text, Usage: usage}},
			boulder.Retry{AttemptRef: ref, Status: boulder.AttemptLost, Uncounted: true, Next: ref.Attempt + 1},
			raised(rt, ref, text), waitEnded(rt, ref, t),
			boulder.Parked{AttemptRef: ref, Reason: text, Digest: text},
		},
		boulder.AttemptMonitoring: {
			boulder.Judged{AttemptRef: ref, Turn: turn, Verdict: boulder.Verdict{Summary: text, Remaining: []string{text}}},
			boulder.Continuation{AttemptRef: ref, Turn: turn + 1, Prompt: text},
			boulder.Retry{AttemptRef: ref, Status: boulder.AttemptFailed, Next: ref.Attempt + 1, Digest: text},
			boulder.SubTaskDone{
				AttemptRef: ref, Completed: true, Summary: text, Status: boulder.SubTaskCompleted,
				AttemptStatus: boulder.AttemptCompleted, Output: text,
			},
			boulder.SubTaskDone{
				AttemptRef: ref, Summary: text, Status: boulder.SubTaskFailed, AttemptStatus: boulder.AttemptFailed,
			},
		},
	}[o.Attempt.Status]
	bodies = append(bodies, boulder.UsageReport{SubTaskID: t.ID, Attempt: ref.Attempt, Source: "attempt", Usage: usage})
	_ = w.apply(rapid.SampledFrom(bodies).Draw(rt, "body"))
}

func waitEnded(rt *rapid.T, ref boulder.AttemptRef, t *boulder.SubTask) boulder.Body {
	none := boulder.Blocker{ID: "B10"}
	return boulder.WaitEnded{
		AttemptRef: ref, Replied: rapid.Bool().Draw(rt, "replied"),
		BlockerID: rapid.SampledFrom(append(slices.Clone(t.Blockers), none)).Draw(rt, "ended").ID,
	}
}

// raised draws a blocker with every field set.
func raised(rt *rapid.T, ref boulder.AttemptRef, text string) boulder.Body {
	b := boulder.Blocker{
		ID:           fmt.Sprintf("B%d", rapid.IntRange(1, 9).Draw(rt, "blocker")),
		BlockerScope: boulder.BlockerScope{BoulderID: "b", SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, SessionID: "ses"},
		Category:     boulder.BlockerSecurity, Question: "? " + text, Context: text,
		Hard: rapid.Bool().Draw(rt, "hard"), Options: []string{text, "b"}, ChosenOption: text, ChosenReasoning: text,
		Status: boulder.BlockerPending, CreatedAt: epoch,
	}
	if rapid.Bool().Draw(rt, "ask") {
		b.Until = epoch.Add(time.Hour)
		b.Ask = &boulder.Ask{
			Kind: boulder.AskPermission, RequestID: "per", Permission: "bash", Patterns: []string{text}, Tool: "bash",
			Arguments: text,
		}
	}
	return boulder.BlockerRaised{AttemptRef: ref, Blocker: b}
}
