package executor

import (
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// The effort goes with each prompt, after a crash too. One that the model lacks is told once, before the first prompt without it.
func TestEffort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(t, `
rules:
  - when: {kind: agent, model: agent, effort: high}
    repeat: true
    replies: [{text: Hard.}]
  - when: {kind: agent, model: agent-2, effort: none}
    repeat: true
    replies: [{text: As always.}]
  - when: {kind: agent, model: agent, effort: none}
    replies: [{text: By default.}]
`))
	a := w.newAttempt("hard", "think")
	a.Attempt.Effort = "high"
	a.dies(t, w, a.run, is[boulder.TurnSent], nil) // the prompt was not sent
	if e, err := a.again(t.Context(), w); err != nil || e.FinalMessage != "Hard." {
		t.Errorf("%q, %v", e.FinalMessage, err)
	}
	if missing := reported[boulder.EffortMissing](a); len(missing) > 0 {
		t.Error(missing)
	}
	a = w.newAttempt("default", "think")
	a.Attempt.Effort = boulder.DefaultEffort
	if e := a.mustRun(t, w); e.FinalMessage != "By default." {
		t.Errorf("%q", e.FinalMessage)
	}
	a = w.newAttempt("lacking", "think")
	a.Attempt.Model, a.Attempt.Effort = "scripted/agent-2", "high"
	first := a.mustRun(t, w)
	missing := reported[boulder.EffortMissing](a)
	if first.FinalMessage != "As always." || len(missing) != 1 || missing[0].Model != "scripted/agent-2" || missing[0].Effort != "high" {
		t.Errorf("%q, %+v", first.FinalMessage, missing)
	}
	a.Attempt.NoEffort = true // as the state has it now
	a.Turn = boulder.Turn{AttemptRef: a.Turn.AttemptRef, Number: 2, Kind: boulder.TurnContinuation, Prompt: "go on"}
	if again := a.mustRun(t, w); again.FinalMessage != "As always." || len(reported[boulder.EffortMissing](a)) != 1 {
		t.Errorf("%q, %+v", again.FinalMessage, reported[boulder.EffortMissing](a))
	}
}
