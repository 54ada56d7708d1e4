package boulder

import "time"

// PlanRequest is what a plan is made from.
type PlanRequest struct {
	Task        string
	Constraints []string // of the user, verbatim
	Project     string   // absolute directory
	Mode        PlanMode
}

// PlanMode says whether to split the task.
type PlanMode string

const (
	PlanAuto   PlanMode = ""       // split unless it is small
	PlanAlways PlanMode = "always" // --plan
	PlanNever  PlanMode = "never"  // --direct
)

// JudgeRequest is what a verdict is made from.
type JudgeRequest struct {
	Goal        string
	Constraints []string
	SubTask     SubTask
	Attempt     Attempt
	Turn        Turn     // with Evidence
	Notes       []string // of the user, on this sub-task or on all, oldest first
	Scope       Scope    // of the boulder
	RulesFirst  bool     // no model needs to be asked about a turn that the rules alone find incomplete
	Rest        []string // subjects of the other sub-tasks that have not ended, at most 20: what the goal still wants by plan
}

// ReplanRequest is what a part of a plan is made again from.
type ReplanRequest struct {
	Task        string
	Goal        string
	Constraints []string  // of the user, verbatim
	Facts       Facts     // of the plan
	NewFacts    []string  // that judges noted since
	Project     string    // absolute directory
	Reason      string    // why a new plan is asked for
	Failed      SubTask   // could not be done, with the digests of its failures
	Replaced    []SubTask // the new ones stand in for: Failed, and everything unfinished that depends on it
	Done        []SubTask // completed, with summaries and outputs, the newest 20; they are frozen
	Kept        []SubTask // unfinished, at most 20; they stay as they are, and new ones may depend on them
	Taken       []string  // ids that exist already, in any state
	Earlier     []string  // [SpecsHash] of what was tried before and must not come again
}

// Replacement is the answer to a [ReplanRequest]: new sub-tasks with new ids, valid together with what is done and kept.
type Replacement struct {
	SubTasks []Spec `json:"sub_tasks"`
	// Replaces maps the id of a new sub-task to that of the one it is a changed form of, where it is one.
	Replaces map[string]string `json:"replaces,omitempty"`
	Model    string            `json:"model,omitempty"` // that made it, provider/model
}

// Job is one turn to run, or to go on with after a crash.
type Job struct {
	BoulderID string
	Project   string // absolute directory
	SubTask   SubTask
	Attempt   Attempt
	Turn      Turn
	Files     []File // that the prompt refers to; to be written before it is sent
	// Resume is the prompt to send if the turn was cut off by a crash and its session is idle. Empty for a turn that begins.
	Resume string
	// Recovered says that the attempt was at work before, in another process or before a fault: its session and its
	// prompt may exist although nothing is stored about them.
	Recovered bool
	Line      Line   // of the boulder, if it is isolated: the turn runs in [SubTask.Slot]
	Diverted  bool   // of the boulder
	Checks    Checks // of the boulder
	// Alone reports whether no other sub-task was at work since this one began, so that every change in the project since
	// SubTask.Snapshot is its own. It is asked when the turn has ended, from any goroutine.
	Alone    func() bool   `json:"-"`
	PerTurn  bool          // the wall clock bounds each turn by itself, not those of the attempt together: a loop
	TimeLeft time.Duration // what the sub-task's budget leaves for this turn; zero: it has no such budget
}

// Verification are the gates to run once more when all work has ended.
type Verification struct {
	BoulderID string
	Project   string    // absolute directory
	Line      Line      // of an isolated boulder: the gates run on its tip
	SubTasks  []SubTask // completed, with gates
	// Last is the sub-task of SubTasks that ended last and worked alone: nothing in the boulder changed a file since its
	// gates ran. Empty: there is none.
	Last string
}

// Awaits reports whether the attempt has asked what only the user can answer, without an answer yet: the turn may
// come to its end, but nothing is sent any more.
func (j *Job) Awaits() bool { return len(j.SubTask.AwaitedBy(j.Attempt.Attempt)) > 0 }

// Trial is what to try before an isolated boulder begins.
type Trial struct {
	BoulderID string
	Base      string // commit
	Isolation Isolation
	SubTasks  []SubTask // that are to be run
	Gates     []string  // of every combined tree
}

// SlotClaim says who works in a slot, and on what.
type SlotClaim struct {
	BoulderID string
	Slot      int    // from 1; 0 is where combined trees are tested
	SubTaskID string // empty in slot 0
	Attempt   int
	Base      string // commit at which the boulder's line begins
	From      string // commit that the sub-task's work goes on top of
	Since     int    // what attempts up to this one left is not taken over
}
