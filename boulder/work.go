package boulder

import (
	"context"
	"time"
)

// PlanRequest is the input for a plan.
type PlanRequest struct {
	Model string `json:",omitempty"` // to ask, provider/model; empty: the ledger's own

	Task        string
	Constraints []string // from the user, verbatim
	Project     string   // absolute directory
	Mode        PlanMode
	Look        LookMode // of what is prepared
	// Known is [Prepared].Known, with what a look found since. Nil: nothing was prepared.
	Known *Plan
	// Describe are the models that a sub-task may be given, and what each is good at, see [Settings].
	Describe map[string]string `json:",omitempty"`
	// Was is a plan that is revised as the user's Comment says; nil: a new one is made.
	Was     *Plan  `json:",omitempty"`
	Comment string `json:",omitempty"`
}

// Prepared is what a planner knows of a task before it splits it. As an event it is stored before the user is asked what the
// planner asks ([Facts].Questions), and again with the answers.
type Prepared struct {
	Find  []string `json:"find,omitempty"` // what a look should find out first, at most 10; none: no look is needed
	Asked bool     `json:"asked,omitempty"`

	Known *Plan `json:"known,omitempty" log:"only"` // sealed if it is the plan already
}

// PlanMode says whether to split the task.
type PlanMode string

const (
	PlanAuto   PlanMode = ""       // split unless the ledger finds that one agent does it as well
	PlanAlways PlanMode = "always" // --plan
	PlanNever  PlanMode = "never"  // --direct
)

// JudgeRequest is the input for a verdict.
type JudgeRequest struct {
	Model string `json:",omitempty"` // to ask, provider/model; empty: the ledger's own

	Goal        string
	Constraints []string
	SubTask     SubTask
	Attempt     Attempt
	Turn        Turn       // with Evidence
	Notes       []string   // from the user, on this sub-task or all, oldest first
	Questions   []Question // of the plan, on whose answers the sub-task depends; Notes have the user's
	Scope       Scope      // of the boulder
	RulesFirst  bool       // ask no model if the rules alone find the turn incomplete
	Rest        []string   // subjects of at most 20 other unfinished sub-tasks: what the plan still covers
	// Whole is the request, word for word, if this is the only sub-task: the verdict is then also the check of the request.
	Whole string
}

// ReplanRequest is the input for a replan.
type ReplanRequest struct {
	Model string `json:",omitempty"` // to ask, provider/model; empty: the ledger's own

	Task        string
	Goal        string
	Constraints []string  // from the user, verbatim
	Facts       Facts     // of the plan
	NewFacts    []string  // noted by judges since
	Project     string    // absolute directory
	Look        LookMode  // whether a look may come first; [LookNever] also if it cannot, or was there
	Reason      string    // why a new plan is needed
	Failed      SubTask   // with digests of its failures
	Replaced    []SubTask // Failed and its unfinished dependents
	Done        []SubTask // the newest 20 completed, with summaries and outputs; unchangeable
	Kept        []SubTask // at most 20 others unfinished; they stay, and new ones may depend on them
	Taken       []string  // existing ids, in any state
	Earlier     []string  // [SpecsHash] of earlier plans, not to be repeated
	// Missing of the request: then nothing is replaced, Failed is zero, and 1-3 sub-tasks for this are added.
	Missing []string
	// Describe is as of a [PlanRequest]. What replaces a sub-task has the model of that one.
	Describe map[string]string `json:",omitempty"`
	// Was is an earlier answer that is revised as the user's Comment says; nil: there is none.
	Was     *Replacement `json:",omitempty"`
	Comment string       `json:",omitempty"`
}

// Replacement is the answer to a [ReplanRequest]: new sub-tasks with new ids, valid together with Done and Kept.
type Replacement struct {
	SubTasks []Spec            `json:"sub_tasks"`
	Replaces map[string]string `json:"replaces,omitempty"` // new id → id of the sub-task that it changes, if any
	Model    string            `json:"model,omitempty"`    // of the planner, provider/model
	// Questions that a look should answer first, at most 10: then there are no sub-tasks, and it is asked again.
	Questions []string `json:"questions,omitempty" log:"only"`
}

// Job is one turn to run, or to continue after a crash.
type Job struct {
	BoulderID string
	Project   string // absolute directory
	SubTask   SubTask
	Attempt   Attempt
	Turn      Turn
	Files     []File // that the prompt refers to; write them before sending it
	// Resume is the prompt to send if a crash interrupted the turn and its session is idle; empty for a new turn.
	Resume string
	// Recovered: the attempt ran before, in another process or before a fault. Session and prompt may exist unrecorded.
	Recovered bool
	Trunk     Trunk  // of an isolated boulder; the turn runs in [SubTask.Slot]
	Diverted  bool   // of the boulder
	Checks    Checks // of the boulder
	// Alone reports whether all changes since SubTask.Snapshot are its own. Called after the turn, in any goroutine.
	Alone func() bool `json:"-"`
	// Raised returns all blockers of the sub-task that are stored by now, in any goroutine. SubTask has those from before.
	Raised   func(context.Context) ([]Blocker, error) `json:"-"`
	PerTurn  bool                                     // the wall clock bounds each turn, not the attempt (loops, and turns that leave a question aside)
	TimeLeft time.Duration                            // of the sub-task's budget; zero: unbounded
}

// Verification is the job of running gates again after all work.
type Verification struct {
	BoulderID string
	Project   string    // absolute directory
	Trunk     Trunk     // of an isolated boulder; gates run on its tip
	SubTasks  []SubTask // completed, with gates
	// Last is the id of the last sub-task to end, if it worked alone: no files changed since its gates ran. Else empty.
	Last string
}

// Awaits reports whether only the user can answer what the attempt asked, besides what the turn leaves aside: the turn may
// end, but nothing more is sent.
func (j *Job) Awaits() bool { return len(j.SubTask.AwaitedBy(j.Attempt.Attempt, j.Turn.Aside...)) > 0 }

// Trial is the job of trying gates before an isolated boulder begins.
type Trial struct {
	BoulderID string
	Base      string // commit
	Isolation Isolation
	SubTasks  []SubTask // to be run
	Gates     []string  // of every combined tree
}

// Commands returns what is tried, each command once.
func (t *Trial) Commands() (all []string) {
	for i := range t.SubTasks {
		addTo(&all, t.SubTasks[i].AllGates()...)
		addTo(&all, t.SubTasks[i].Lint...)
	}
	addTo(&all, t.Gates...)
	return all
}

// SlotClaim says which attempt uses a slot, and on what basis.
type SlotClaim struct {
	BoulderID string
	Slot      int    // from 1; 0 is for testing combined trees
	SubTaskID string // empty in slot 0
	Attempt   int
	Base      string // where the trunk begins, a commit
	From      string // commit to work on top of
	Since     int    // attempts up to this one leave nothing to take over
}
