package boulder

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
	Turn        Turn // with Evidence
}

// Job is one turn to run, or to go on with after a crash.
type Job struct {
	BoulderID string
	Project   string // absolute directory
	SubTask   SubTask
	Attempt   Attempt
	Turn      Turn
	Files     []File // that the prompt refers to; to be written before it is sent
	Resume    string // the prompt to send if the turn was cut off by a crash and its session went idle
	// Recovered says that the attempt was at work before, in another process or before a fault: its session and its
	// prompt may exist although nothing is stored about them.
	Recovered bool
	// Alone reports whether no other sub-task was at work since this one began, so that every change in the project since
	// SubTask.Snapshot is its own. It is asked when the turn has ended, from any goroutine.
	Alone func() bool
}
