package schedule

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/prompts"
)

// loopTurn decides about an incomplete turn of a loop. The decision is that of package enforcer, the arbiter of all
// sessions; this makes it an action. Nothing else prompts the session, so the decision after a wait is known now.
func (c *computing) loopTurn(o *boulder.Open) Action {
	p := loopPolicy(c.s.Boulder.Loop)
	p.Stuck = c.l.Stuck
	track, err := loopTrack(o, p)
	if err != nil { // with a track that starts from zero the bounds would not hold
		return apply(fail(o.Attempt.AttemptRef, fmt.Sprintf("what is stored of the loop cannot be read: %v", err), boulder.AttemptFailed))
	}
	s := situationOf(o)
	d, at := c.whenAllowed(track, s, p)
	track = enforcer.Apply(track, enforcer.Decided{At: at, Decision: d, MessageID: "next"}, p)
	missing := shortcoming(o.Turn.Verdict)
	if s.Broken != "" {
		missing = "the turn ended with " + s.Broken + "; " + missing
	}
	switch {
	case d.Kind == enforcer.Send:
		b := proceed(o, missing)
		b.Track, b.Prompt = encode(track), prompts.Forgotten(forgotten(track, o.Turn.Evidence))
		if at.After(c.now) {
			b.NotBefore = at
		}
		return apply(b)
	case d.Kind == enforcer.Fresh && at.After(c.now):
		return Wake{At: at}
	case d.Kind == enforcer.Fresh:
		b := retry(o, d.Reason, boulder.AttemptFailed)
		b.Track = encode(track)
		return apply(b)
	case d.Kind != enforcer.LetGo || d.Gate == enforcer.GateWork: // only the user can close blocked items, or lift a stop
		return apply(park(o, d.Reason+blockedItems(o.Turn.Evidence)))
	case len(lateAnswers(o)) > 0:
		b := uncounted(o, "there is an answer to "+lateAnswers(o)[0].ID, boulder.AttemptCancelled)
		b.Track = encode(enforcer.Track{})
		return apply(b)
	case d.Gate == enforcer.GateIterations:
		b := park(o, fmt.Sprintf("it had %s, which is the limit; %s", text.Plural(c.s.Boulder.Loop.Iterations, "turn"), missing))
		b.AtLimit = true
		return apply(b)
	}
	if d.Gate == enforcer.GateStuck {
		missing = o.Turn.Verdict.Summary // what was achieved
	}
	return apply(fail(o.Attempt.AttemptRef, d.Reason+"; "+missing, boulder.AttemptFailed))
}

// loopTrack returns the track of a loop after the newest turn.
func loopTrack(o *boulder.Open, p enforcer.Policy) (enforcer.Track, error) {
	track, err := trackOf(o.SubTask)
	if len(lateAnswers(o)) > 0 {
		track = enforcer.Track{} // as if parked: what the user resumes counts from zero
	}
	ended := o.Turn.Evidence.Ended
	for range o.Turn.Evidence.Compactions {
		track = enforcer.Apply(track, enforcer.Compacted{At: o.Turn.EndedAt}, p)
	}
	track = enforcer.Apply(track, turnEnded(o), p)
	if ended.Error == boulder.ErrorAborted && ended.Stopped == "" && ended.Truncated == "" { // by the user at OpenCode
		track = enforcer.Apply(track, enforcer.Aborted{At: o.Turn.EndedAt}, p)
	}
	return track, err
}

// whenAllowed returns the arbiter's decision after all its waits, and when that is.
func (c *computing) whenAllowed(track enforcer.Track, s enforcer.Situation, p enforcer.Policy) (enforcer.Decision, time.Time) {
	at := c.now
	d := enforcer.Continue(track, s, p, at)
	for d.Kind == enforcer.Wait && d.At.After(at) {
		at = d.At
		d = enforcer.Continue(track, s, p, at)
	}
	return d, at
}

// RulesFirst reports whether no model needs to judge a turn that the rules alone find incomplete: in a loop, if
// evidence shows progress or an error explains its lack, and no verdict has named an obstacle.
func RulesFirst(s *boulder.State, o *boulder.Open) bool {
	if s.Boulder.Loop == nil {
		return false
	}
	track, err := trackOf(o.SubTask)
	return err == nil && track.Stuck == 0 && o.SubTask.NeedsUser == 0 &&
		(o.Turn.Kind == boulder.TurnBrief || o.Turn.Evidence.Ended.Error != "" || track.Progress.BeyondFiles(turnEnded(o).Reached))
}

// Unpark continues a parked sub-task and reports true, unless it needs an answer, a larger budget or more turns. A loop
// at its limit keeps its count; anything else that the user resumes counts from zero.
func Unpark(s *boulder.State, t *boulder.SubTask) (boulder.Unparked, bool) {
	unparked := boulder.Unparked{SubTaskID: t.ID, Reason: "resumed"}
	if overspent(t, nil) != "" || len(t.AwaitedBy(t.Attempts)) > 0 {
		return unparked, false
	}
	if !t.AtLimit || s.Boulder.Loop == nil {
		return unparked, true
	}
	track, err := trackOf(t)
	if err != nil || track.Iteration >= loopPolicy(s.Boulder.Loop).MaxIterations {
		return unparked, false
	}
	track.Iteration++ // the brief of the new session
	unparked.Track = encode(track)
	return unparked, true
}

func loopPolicy(l *boulder.Loop) enforcer.Policy {
	p := enforcer.LoopPolicy()
	p.MaxIterations = l.Iterations - 1 // the brief is an iteration, but no continuation
	p.MaxFailures, p.Cooldown = l.Failures, l.Cooldown
	return p
}

func trackOf(t *boulder.SubTask) (track enforcer.Track, err error) {
	if len(t.Track) == 0 {
		return track, nil
	}
	err = json.Unmarshal(t.Track, &track)
	return track, err
}

func encode(track enforcer.Track) json.RawMessage {
	track.Moved, track.Marked = false, false // the evidence has them
	b, err := json.Marshal(track)
	if err != nil {
		panic(err) // texts, numbers and present times always marshal
	}
	return b
}

// turnEnded returns the newest turn in the arbiter's terms.
func turnEnded(o *boulder.Open) enforcer.TurnEnded {
	e := o.Turn.Evidence
	reached := enforcer.Reached{
		Todos: e.Todos, Diff: e.Diff.Hash, Tools: e.ToolCount > 0, Answer: e.FinalMessage, Promised: e.Promised, Marked: e.Marked,
	}
	if v := o.Turn.Verdict; v != nil && !v.JudgeUnavailable {
		reached.Stuck, reached.Stalled = stuckReason(v) != "", !v.IsProgress || v.IsInLoop
	}
	for _, g := range e.Gates {
		if g.Green() {
			reached.Gates = append(reached.Gates, g.Command)
		}
	}
	return enforcer.TurnEnded{
		At: o.Turn.EndedAt, Message: fmt.Sprintf("%d.%d", o.Attempt.Attempt, o.Turn.Number), Reached: reached,
	}
}

func situationOf(o *boulder.Open) enforcer.Situation {
	e := o.Turn.Evidence
	s := enforcer.Situation{
		Checked: true, Unmet: []string{"what was asked for"}, Blocked: len(e.Blocked()), OpenItems: len(e.OpenTodos()),
		Overflow: e.Ended.Error == boulder.ErrorOverflow || e.Ended.Rule == boulder.RuleCompaction,
	}
	if v := o.Turn.Verdict; v != nil {
		s.Unmet, s.StuckReason = []string{shortcoming(v)}, stuckReason(v)
	}
	switch {
	case e.Ended.Error != "" && !s.Overflow && e.Ended.Truncated == "":
		s.Broken = strings.TrimSuffix(e.Ended.Error+": "+e.Ended.Message, ": ")
	case onlyBlocked(o):
		s.Unmet = nil
	}
	return s
}

// stuckReason says why the judge finds the session stuck, or returns "". A wrong plan counts: a loop cannot replan.
func stuckReason(v *boulder.Verdict) string {
	if !v.IsStuck && !v.NeedReplan && v.BlockedBy != "wrong_plan" {
		return ""
	}
	return cmp.Or(v.StuckReason, v.ReplanReason, v.Summary, "it did not say why")
}

// doable reports whether the agent can still do something although it calls some items blocked.
func doable(t *boulder.SubTask, e *boulder.Evidence) bool {
	return len(e.OpenTodos()) > 0 || len(e.Red()) > 0 || t.ExpectsChanges && e.Diff.Empty() ||
		e.Ended.Truncated != "" || e.Ended.Stopped != "" ||
		t.DoneNeeds(boulder.DoneDiagnostics) && len(e.Diagnostics) > 0
}

// forgotten returns the items that are open in the track and missing in the agent's todo list.
func forgotten(track enforcer.Track, e *boulder.Evidence) []string {
	return slices.DeleteFunc(slices.Clone(track.Open), func(item string) bool {
		return slices.ContainsFunc(e.Todos, func(t boulder.Todo) bool { return t.Content == item })
	})
}

// onlyBlocked reports whether nothing but blocked items is left of the agent's list.
func onlyBlocked(o *boulder.Open) bool {
	return len(o.Turn.Evidence.Blocked()) > 0 && !doable(o.SubTask, o.Turn.Evidence)
}

// blockedItems names what the user has to deal with.
func blockedItems(e *boulder.Evidence) string {
	const named = 5
	items := e.Blocked()
	if more := len(items) - named; more > 0 {
		items = append(items[:named], fmt.Sprintf("and %d more", more))
	}
	return text.Prefixed(": ", strings.Join(items, "; "))
}
