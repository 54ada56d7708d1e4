package boulder

import (
	"encoding/json"
	"time"
)

// SubTaskStatus is the state of a sub-task: pending → in_progress → completed, or one of the others.
type SubTaskStatus string

const (
	// SubTaskPending: waits for its dependencies or for a slot. Entered by [Decomposed].
	SubTaskPending SubTaskStatus = "pending"
	// SubTaskInProgress: an attempt holds a slot, or the next one waits for it. Entered by [Starting].
	SubTaskInProgress SubTaskStatus = "in_progress"
	// SubTaskCompleted: its result was judged complete. Entered by [SubTaskDone]; in a fork by [Decomposed], for what the
	// original completed. Terminal, unless the user has it redone ([Redone]).
	SubTaskCompleted SubTaskStatus = "completed"
	// SubTaskBlocked: something it depends on failed, or it is parked; Reason says which. A consequence of [SubTaskDone], or
	// entered by [Parked]. Left by [Unparked], the last [BlockerSettled] that it waits for, and [Reopened] or a skip of what
	// is in its way.
	SubTaskBlocked SubTaskStatus = "blocked"
	// SubTaskFailed: its attempts are exhausted. Entered by [SubTaskDone]. Terminal; while the boulder is not over, the user
	// can take it back ([Reopened]), or skip it.
	SubTaskFailed SubTaskStatus = "failed"
	// SubTaskSkipped: not needed, by the goal or by the user; its dependents go on. Entered by [SubTaskDone]. Terminal.
	SubTaskSkipped SubTaskStatus = "skipped"
	// SubTaskCancelled: the user ended it; its dependents are blocked. Entered by [SubTaskDone]. Terminal, as SubTaskFailed is.
	SubTaskCancelled SubTaskStatus = "cancelled"
	// SubTaskSuperseded: a later plan revision replaced it. Terminal.
	SubTaskSuperseded SubTaskStatus = "superseded"
)

// Terminal reports whether the status never changes again by itself.
func (s SubTaskStatus) Terminal() bool {
	return s == SubTaskCompleted || s == SubTaskFailed || s == SubTaskSkipped || s == SubTaskCancelled || s == SubTaskSuperseded
}

// Unfinished reports whether the sub-task has work before it, or is at work.
func (t *SubTask) Unfinished() bool {
	return t.Status == SubTaskPending || t.Status == SubTaskInProgress
}

// SubTask is one record of the graph.
type SubTask struct {
	ID       string `json:"id"`
	Position int    `json:"position"` // place in the plan, from 1
	Revision int    `json:"revision"` // plan revision that brought it

	Subject         string   `json:"subject"`
	ActiveForm      string   `json:"active_form"`
	Description     string   `json:"content"` // what the agent has to do
	SuccessCriteria []string `json:"success_criteria"`

	Status    SubTaskStatus `json:"status"`
	Reason    string        `json:"reason,omitempty"`
	Priority  Priority      `json:"priority"`
	DependsOn []string      `json:"depends_on,omitempty"`
	// Blocks and BlockedBy are the graph's edges both ways, derived from DependsOn and set once. Whether an edge still holds is
	// the other end's status; to store that here would rewrite a join of 5,000 once for each of them.
	Blocks    []string `json:"blocks,omitempty"`
	BlockedBy []string `json:"blocked_by,omitempty"`

	Model          string   `json:"model"` // provider/model; empty: what OpenCode uses by default
	Agent          string   `json:"agent,omitempty"`
	Gates          []string `json:"gates,omitempty"`
	NoWorse        []string `json:"no_worse,omitempty"`   // gates that may stay as red as Baseline was
	GateHints      []string `json:"gate_hints,omitempty"` // gates without approval: told to the agent, never run
	ExpectsChanges bool     `json:"expects_changes,omitempty"`
	EmptyOK        bool     `json:"empty_ok,omitempty"`
	Outputs        []string `json:"outputs,omitempty"`
	Writes         []string `json:"writes,omitempty"` // what it may write, by the plan; empty: the plan does not say
	DoneWhen       []string `json:"done_when,omitempty"`
	DoneDefault    bool     `json:"done_default,omitempty"` // DoneWhen was not named
	Lint           []string `json:"lint,omitempty"`         // stand in for a language server where none runs; may stay as red as Baseline
	Budget         *Budget  `json:"budget,omitempty"`

	Replaces string `json:"replaces,omitempty"` // the superseded sub-task in whose place a replan put this one
	// Line is the first of the sub-tasks that this one came after by replans, with whose judged turns its own are counted;
	// empty: itself. See [State.First].
	Line string `json:"line,omitempty"`

	Attempts  int      `json:"attempts"`             // number of the newest attempt; 0 before the first is queued
	Judged    int      `json:"judged,omitempty"`     // turns that were judged, of its whole line; only the first of a line has it
	Tries     int      `json:"tries"`                // attempts that count against the limit
	Lost      int      `json:"lost,omitempty"`       // attempts whose session was lost; no tries
	Stalls    int      `json:"stalls,omitempty"`     // turns without progress, less those with; see [State.Apply]
	NeedsUser int      `json:"needs_user,omitempty"` // verdicts in a row by which only the user can remove what is in the way
	Failures  []string `json:"failures,omitempty"`   // digest of each failed attempt, oldest first
	// Before is how the newest attempt ended that waited for an answer, which was no failure; for the next brief.
	Before     string      `json:"before,omitempty"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// Snapshot is the workspace when the first attempt began. Changes are measured against it in later attempts too: a
	// retry finds the work of the attempts before it in place.
	Snapshot string `json:"snapshot,omitempty"`
	Baseline []Gate `json:"baseline,omitempty"` // the best runs of NoWorse before the first attempt began
	// GateRuns are the newest runs of its gates, without the output of green ones: those after its newest turn, or later
	// ones on the final files. One that is missing did not run.
	GateRuns   []Gate        `json:"gate_runs,omitempty"`
	Tree       string        `json:"tree,omitempty"`        // [Diff.Tree] of the newest turn
	LastResult string        `json:"last_result,omitempty"` // [Attempt.Result] of the attempt before
	Worked     time.Duration `json:"worked,omitempty"`      // its turns together, nanoseconds
	// Transcript is the file of its newest turn ([Evidence.Transcript]), for the agents of dependents.
	Transcript string `json:"transcript,omitempty"`
	// Achieved and Met are the summary and the criteria that hold, of the newest verdict that found it incomplete.
	Achieved string   `json:"achieved,omitempty"`
	Met      []string `json:"met,omitempty"`
	// Track is what the arbiter of sessions (package enforcer) remembers. Nothing is read in it here.
	Track    json.RawMessage `json:"track,omitempty"`
	Parked   bool            `json:"parked,omitempty"`   // blocked until the user does what Reason says, not by a dependency
	AtLimit  bool            `json:"at_limit,omitempty"` // parked because a loop has had all its turns
	Program  string          `json:"program,omitempty"`  // parked because a gate needs this, which was not found
	Blockers []RaisedBlocker `json:"blockers,omitempty"` // that its attempts came upon, oldest first
	Files    []string        `json:"files,omitempty"`    // of the project, that its attempts changed; at most 500
	Shared   bool            `json:"shared,omitempty"`   // another sub-task was at work since this one began: a change may be its
	// Of a sub-task of an isolated boulder:

	Slot       int        `json:"slot,omitempty"`       // of the newest attempt that had one, from 1
	From       string     `json:"from,omitempty"`       // commit of the line on top of which it works
	Work       string     `json:"work,omitempty"`       // commit of its slot after the newest turn
	Integrated string     `json:"integrated,omitempty"` // commit of the line that is its result
	Conflicts  []Conflict `json:"conflicts,omitempty"`

	// Generation counts how often it was done again because the user wanted that ([Redone]). Attempts up to Since are of earlier
	// ones whose changes the present one begins without.
	Generation int      `json:"generation,omitempty"`
	Since      int      `json:"since,omitempty"`
	Standing   Standing `json:"standing,omitempty"`
	Earlier    *Earlier `json:"earlier,omitempty"`
	Revert     *Span    `json:"revert,omitempty"` // to be taken back before the first session of the generation
	Fresh      *Fresh   `json:"fresh,omitempty"`
	// Inputs names what it was made from, and Change what it changed: the same, if both are, as another time.
	Inputs string `json:"inputs,omitempty"`
	Change string `json:"change,omitempty"`

	Output    string    `json:"output,omitempty"`    // handed on to dependents
	Summary   string    `json:"summary,omitempty"`   // what was done, or why not
	Remaining []string  `json:"remaining,omitempty"` // what the judge named that found it complete
	Usage     Usage     `json:"usage"`
	EndSeq    uint64    `json:"end_seq,omitempty"` // event that ended it; 0 before
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Checkpoint is where the last edit of a sub-task was made.
type Checkpoint struct {
	File    string    `json:"file"` // relative to the project
	Line    int       `json:"line"` // from 1
	Context string    `json:"context"`
	At      time.Time `json:"at"`
}

// AttemptStatus is the state of one try:
//
//	queued → starting → executing → monitoring → completed | failed | cancelled | timeout | lost
//
// A continuation takes an attempt from monitoring back to executing.
type AttemptStatus string

const (
	// AttemptQueued: waits for a slot. Entered when its sub-task is ready. Its place in the queue is stored.
	AttemptQueued AttemptStatus = "queued"
	// AttemptStarting: holds a slot; its session may exist. Entered by [Starting]. After a crash the session is looked up by
	// its tag and adopted, or created.
	AttemptStarting AttemptStatus = "starting"
	// AttemptExecuting: its session is stored and a prompt is on its way or at work. Entered by [SubTaskStart]. After a
	// crash the session is asked how far it is; the prompt is not sent twice.
	AttemptExecuting AttemptStatus = "executing"
	// AttemptMonitoring: the turn's evidence is stored and being judged, after a crash again. Entered by [TurnEnded].
	AttemptMonitoring AttemptStatus = "monitoring"
	// AttemptCompleted: judged complete. Terminal, as are the others below.
	AttemptCompleted AttemptStatus = "completed"
	AttemptFailed    AttemptStatus = "failed"    // judged incomplete too often, or broken
	AttemptCancelled AttemptStatus = "cancelled" // the user ended it
	AttemptTimeout   AttemptStatus = "timeout"   // its wall clock ran out
	AttemptLost      AttemptStatus = "lost"      // its session is gone; does not count as a try
)

// Terminal reports whether the status never changes again.
func (s AttemptStatus) Terminal() bool {
	return s == AttemptCompleted || s == AttemptFailed || s == AttemptCancelled || s == AttemptTimeout || s == AttemptLost
}

// Live reports whether the attempt holds a slot.
func (s AttemptStatus) Live() bool { return s != AttemptQueued && !s.Terminal() }

// AttemptRef names one attempt of a boulder.
type AttemptRef struct {
	SubTaskID string `json:"sub_task_id"`
	Attempt   int    `json:"attempt"` // from 1
}

// Attempt is one try of one sub-task, in one session.
type Attempt struct {
	AttemptRef
	Status    AttemptStatus `json:"status"`
	Reason    string        `json:"reason,omitempty"`
	Model     string        `json:"model"`
	Agent     string        `json:"agent,omitempty"`
	QueueSeq  uint64        `json:"queue_seq"`            // event that queued it: the FIFO order
	SlotSeq   uint64        `json:"slot_seq,omitempty"`   // event that gave it its slot; 0 before
	Tag       string        `json:"tag,omitempty"`        // in the session's title and metadata, before there is an id
	SessionID string        `json:"session_id,omitempty"` // of the runner
	Server    string        `json:"server,omitempty"`     // address that its newest prompt went to, of a server that outlives this program
	Turns     int           `json:"turns"`                // turns begun; each that was judged is an evaluation
	Troubles  int           `json:"troubles,omitempty"`   // infrastructure faults in a row; not tries
	NotBefore time.Time     `json:"not_before,omitzero"`  // back-off after trouble
	Usage     Usage         `json:"usage"`
	Seen      Usage         `json:"seen,omitzero"`     // by the running turn, since it was last taken up
	Spent     Usage         `json:"spent,omitzero"`    // by it before that
	Idle      int           `json:"idle,omitempty"`    // turns in a row without a tool call, the newest included
	Asked     string        `json:"asked,omitempty"`   // hash of the last continuation prompt, to notice the same again
	Result    string        `json:"result,omitempty"`  // names the diff and the failing gates of its newest ended turn; empty: none failed
	Worked    time.Duration `json:"worked,omitempty"`  // of its turns together, nanoseconds
	TakenAt   time.Time     `json:"taken_at,omitzero"` // when the running turn was last taken up; zero: none is at work
	QueuedAt  time.Time     `json:"queued_at"`
	StartedAt time.Time     `json:"started_at,omitzero"`
	EndedAt   time.Time     `json:"ended_at,omitzero"`
	UpdatedAt time.Time     `json:"updated_at"`
}

// TurnedAway reports whether a fault, or a wait before a prompt, keeps the attempt, or kept it until just now.
func (a *Attempt) TurnedAway() bool { return !a.NotBefore.IsZero() }

// Running is what the turn that is at work, or was cut off, was seen to use so far. It becomes part of a [UsageReport] when
// the turn ends.
func (a *Attempt) Running() Usage { return a.Spent.Add(a.Seen) }

// TurnKind says why a prompt was sent.
type TurnKind string

const (
	TurnBrief        TurnKind = "brief"        // the first prompt of an attempt
	TurnContinuation TurnKind = "continuation" // the turn before ended with work left
	TurnStanding     TurnKind = "standing"     // none was: a result that stands is put onto the line again
)

// Turn is one prompt and what came of it, a record of its own.
type Turn struct {
	AttemptRef
	Number int      `json:"number"` // from 1
	Seq    uint64   `json:"seq"`    // event that began it: notes that came later are news for the next prompt
	Kind   TurnKind `json:"kind"`
	// ToldUpTo is the event up to which the prompt has what the user said; 0: what there was when the turn began.
	ToldUpTo  uint64 `json:"heard,omitempty"`
	Prompt    string `json:"prompt"`
	MessageID string `json:"message_id,omitempty"` // of the prompt, stored before it is sent
	// ResumeID is the message of the one resume prompt that a turn may get after a crash; stored before it is sent.
	ResumeID string    `json:"resume_id,omitempty"`
	Nudges   []Nudge   `json:"nudges,omitempty"` // each is stored before it is sent
	Evidence *Evidence `json:"evidence,omitempty"`
	Verdict  *Verdict  `json:"verdict,omitempty"`
	Conflict *Conflict `json:"conflict,omitempty"` // for which its result could not be integrated
	SentAt   time.Time `json:"sent_at,omitzero"`
	EndedAt  time.Time `json:"ended_at,omitzero"`
}

// Nudge is a prompt into a running turn that seems to be stuck.
type Nudge struct {
	Rule      Rule      `json:"rule"`
	MessageID string    `json:"message_id"`
	Prompt    string    `json:"prompt"`
	At        time.Time `json:"at"`
}

// Brief is the first prompt of an attempt and the files that its cuts point to.
type Brief struct {
	Text  string
	Files []File
}

// File is a text that a brief refers to. The runner writes it, readable for the agent, before it sends the brief.
type File struct {
	Path string // absolute
	Text string
}
