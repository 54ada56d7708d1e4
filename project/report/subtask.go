package report

import (
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// SubTask is a sub-task in a [Report]: how it ended, and on what evidence.
type SubTask struct {
	ID       string                `json:"id"`
	Position int                   `json:"position"` // in the plan, from 1
	Subject  string                `json:"subject"`
	Status   boulder.SubTaskStatus `json:"status"`
	Reason   string                `json:"reason,omitempty"`
	Summary  string                `json:"summary,omitempty"`
	// OutputData is its result for dependents and the user.
	OutputData string   `json:"output_data,omitempty"`
	DependsOn  []string `json:"depends_on"`
	Replaces   string   `json:"replaces,omitempty"` // the superseded sub-task that it replaces

	// VerifiedBy is the evidence of its completion; empty if it is not completed, or a gate does not hold.
	VerifiedBy string              `json:"verified_by,omitempty"`
	Gates      []Gate              `json:"gates"`              // their last runs: after its newest turn, or on the final files
	NoGates    []Gate              `json:"no_gates,omitempty"` // commands that did not end before the work, and decide nothing
	GateHints  []string            `json:"gate_hints,omitempty"`
	Criteria   []boulder.Criterion `json:"criteria"` // as its newest turn was judged
	Remaining  []string            `json:"remaining,omitempty"`

	// Changes are those in the project since it began. Own is false for a change that another sub-task may have made.
	Changes []boulder.FileChange `json:"changes"`
	// ChangesUnknown says why Changes is empty although there may be changes.
	ChangesUnknown string `json:"changes_unknown,omitempty"`

	// Warnings are those of its newest turn, see [boulder.Evidence].
	Warnings []string `json:"warnings,omitempty"`

	Attempts int      `json:"attempts"`
	Models   []Model  `json:"models,omitempty"`   // of the attempts that had another than the first of the list
	Failures []string `json:"failures,omitempty"` // a digest of each failed attempt, oldest first

	Usage    boulder.Usage   `json:"usage"`
	WorkedMS int64           `json:"worked_ms"` // sum of its turns
	Budget   *boulder.Budget `json:"budget"`    // null: none

	task *boulder.SubTask
}

// Model is the model of an attempt, and those that could not be used instead.
type Model struct {
	Attempt int               `json:"attempt"`
	Model   string            `json:"model"`
	Effort  string            `json:"effort,omitempty"`
	Instead []boulder.Instead `json:"instead"`
}

// Values of [SubTask.VerifiedBy].
const (
	ByGatesAndJudge = "gates_and_judge"
	ByGates         = "gates" // no usable answer came from the judge
	ByJudge         = "judge" // there were no gates
	// No gate shows that the work is done: each was green before the work, or is as red as it was.
	ByUnproven = "unproven"
	ByOriginal = "fork"   // taken over from the boulder that this one is a fork of
	ByRecord   = "record" // recorded as completed, without evidence
)

func newSubTask(t *boulder.SubTask, in *Input, running boulder.Usage) SubTask {
	s := SubTask{
		ID: t.ID, Position: t.Position, Subject: t.Subject, Status: t.Status, Reason: t.Reason, Summary: t.Summary,
		OutputData: t.Output,
		DependsOn:  append([]string{}, t.DependsOn...), Replaces: t.Replaces, GateHints: t.GateHints,
		Gates: []Gate{}, Criteria: []boulder.Criterion{}, Changes: []boulder.FileChange{}, Attempts: t.Attempts,
		Failures: t.Failures, Usage: t.Usage.Add(running), WorkedMS: t.Worked.Milliseconds(), Budget: t.Budget,
		task: t,
	}
	for _, a := range in.Attempts {
		if a.SubTaskID == t.ID && len(a.Instead) > 0 {
			s.Models = append(s.Models, Model{a.Attempt, a.Model, a.EffortUsed(), a.Instead})
		}
	}
	for _, g := range t.GateRuns {
		s.Gates = append(s.Gates, NewGate(g))
	}
	for _, g := range t.NoGates {
		to := NewGate(g)
		to.Why = g.NeverEnded()
		s.NoGates = append(s.NoGates, to)
	}
	for _, g := range t.Unverified() {
		if g.Run == nil && t.Status == boulder.SubTaskCompleted {
			s.Gates = append(s.Gates, Gate{Command: g.Command, Result: GateNotRun})
		}
	}
	proves := false
	for i := range s.Gates {
		s.Gates[i].GreenBefore = s.Gates[i].Result == GatePassed && t.GreenBefore(s.Gates[i].Command)
		proves = proves || s.Gates[i].Result == GatePassed && !s.Gates[i].GreenBefore
		s.Gates[i].From = in.Boulder.GateOrigin(t, in.SubTasks, s.Gates[i].Command)
	}
	turn, found := in.Turns[t.ID]
	if e := turn.Evidence; e != nil {
		s.Changes = append(s.Changes, e.Diff.Files...)
		s.ChangesUnknown, s.Warnings = e.Diff.Unavailable, slices.Clip(e.Warnings)
	} else { // no evidence is stored, as in a fork: the numbers of changed lines are unknown
		for _, f := range t.Files {
			s.Changes = append(s.Changes, boulder.FileChange{Path: f, Added: -1, Removed: -1, Own: true})
		}
	}
	for _, command := range t.Flaky {
		s.Warnings = append(s.Warnings, "flaky_suspected: "+command+" was red, and green when it ran again on the same files")
	}
	judged := turn.Verdict != nil && !turn.Verdict.JudgeUnavailable
	if v := turn.Verdict; v != nil {
		s.Criteria = append(s.Criteria, v.Criteria...)
		s.Remaining = v.Remaining
	}
	switch gated := len(s.Gates) > 0; {
	case !s.Holds():
	case in.Boulder.ForkOf != nil && t.Attempts == 0:
		s.VerifiedBy = ByOriginal
	case found && judged && proves:
		s.VerifiedBy = ByGatesAndJudge
	case found && judged:
		s.VerifiedBy = ByJudge
	case found && gated && !proves:
		s.VerifiedBy = ByUnproven
	case found && gated:
		s.VerifiedBy = ByGates
	default:
		s.VerifiedBy = ByRecord
	}
	return s
}

// Holds reports whether the sub-task is completed and all its gates hold.
func (s *SubTask) Holds() bool {
	red := func(g Gate) bool { return g.Result != GatePassed && g.Result != GateNoWorse }
	return s.Status == boulder.SubTaskCompleted && !slices.ContainsFunc(s.Gates, red)
}

// Gate is the newest run of a gate.
type Gate struct {
	Command    string `json:"command"`
	Result     string `json:"result"`
	ExitCode   int    `json:"exit_code"`
	DurationMS int64  `json:"duration_ms"`
	// GreenBefore: it passed before the work began too, so it proves nothing by itself.
	GreenBefore bool   `json:"green_before,omitempty"`
	From        string `json:"from,omitempty"`   // the superseded sub-task that it was taken over from
	Why         string `json:"why,omitempty"`    // of no_worse
	Output      string `json:"output,omitempty"` // tail, if the gate does not hold
}

// Values of [Gate.Result].
const (
	GatePassed   = "passed"
	GateNoWorse  = "no_worse" // red, as it was before
	GateFailed   = "failed"
	GateTimedOut = "timed_out"
	GateNotRun   = "not_run"
)

// NewGate makes the [Gate] of a run.
func NewGate(g boulder.Gate) Gate {
	to := Gate{Command: g.Command, Result: GateFailed, ExitCode: g.ExitCode, DurationMS: g.Duration.Milliseconds()}
	switch {
	case g.Green():
		to.Result = GatePassed
	case g.NoWorse != "":
		to.Result, to.Why = GateNoWorse, g.NoWorse
	case g.TimedOut:
		to.Result = GateTimedOut
	}
	to.Output = text.If(!g.Holds(), g.Output)
	return to
}

// Text returns a phrase for the result.
func (g Gate) Text() string {
	switch g.Result {
	case GatePassed:
		return "passed" + text.If(g.GreenBefore, ", and was green before")
	case GateNoWorse:
		return "red, but no worse than before"
	case GateTimedOut:
		return "did not end in time"
	case GateNotRun:
		return "did not run"
	}
	return fmt.Sprintf("failed with exit code %d", g.ExitCode)
}
