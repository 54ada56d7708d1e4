package boulder

import (
	"encoding/json"
	"time"
)

// SubTaskStatus is the state of a sub-task: pending → in_progress → completed, or one of the others.
type SubTaskStatus string

const (
	// SubTaskPending: waits for dependencies or a slot. Entered by [Decomposed], [Replanned], [PlanEdited], [Redone], or from blocked.
	SubTaskPending SubTaskStatus = "pending"
	// SubTaskInProgress: an attempt holds a slot, or the next one is queued. Entered by [Starting].
	SubTaskInProgress SubTaskStatus = "in_progress"
	// SubTaskCompleted: judged complete. Entered by [SubTaskDone]; in a fork by [Decomposed]. Terminal but for [Redone].
	SubTaskCompleted SubTaskStatus = "completed"
	// SubTaskBlocked: a dependency failed, or it is parked; see Reason. Entered by a dependency's [SubTaskDone], or
	// [Parked]. Left by [Unparked], the last awaited [BlockerSettled], or when the obstacle is [Reopened] or skipped.
	SubTaskBlocked SubTaskStatus = "blocked"
	// SubTaskFailed: attempts exhausted. Entered by [SubTaskDone]. Terminal, but while the boulder is not over the user
	// can revert it ([Reopened]) or skip it.
	SubTaskFailed SubTaskStatus = "failed"
	// SubTaskSkipped: not needed, by the goal or by the user; dependents continue. Entered by [SubTaskDone]. Terminal.
	SubTaskSkipped SubTaskStatus = "skipped"
	// SubTaskCancelled: ended by the user; dependents are blocked. Entered by [SubTaskDone]. Terminal as SubTaskFailed.
	SubTaskCancelled SubTaskStatus = "cancelled"
	// SubTaskSuperseded: a later plan revision replaced or removed it. Entered by [Replanned], [PlanEdited]. Terminal.
	SubTaskSuperseded SubTaskStatus = "superseded"
)

// Terminal reports whether the status never changes by itself.
func (s SubTaskStatus) Terminal() bool {
	return s == SubTaskCompleted || s == SubTaskFailed || s == SubTaskSkipped || s == SubTaskCancelled || s == SubTaskSuperseded
}

// Unfinished reports whether the sub-task is pending or in progress.
func (t *SubTask) Unfinished() bool {
	return t.Status == SubTaskPending || t.Status == SubTaskInProgress
}

// SubTask is one sub-task of the graph.
type SubTask struct {
	ID       string `json:"id"`
	Position int    `json:"position"` // place in the plan, from 1
	Revision int    `json:"revision"` // plan revision that introduced it

	Subject         string   `json:"subject"`
	ActiveForm      string   `json:"active_form"`
	Description     string   `json:"content"` // what the agent has to do
	SuccessCriteria []string `json:"success_criteria"`

	Status    SubTaskStatus `json:"status"`
	Reason    string        `json:"reason,omitempty"`
	Priority  Priority      `json:"priority"`
	DependsOn []string      `json:"depends_on,omitempty"`
	// Blocks and BlockedBy are both directions of DependsOn, set once. Whether an edge still holds is the other end's
	// status: storing that here would rewrite a join of 5,000 once for each of them.
	Blocks    []string `json:"blocks,omitempty"`
	BlockedBy []string `json:"blocked_by,omitempty"`

	Model          string   `json:"model"`            // in use, provider/model; empty: OpenCode's default
	Effort         string   `json:"effort,omitempty"` // of Model; empty: its default
	Models         Models   `json:"models,omitempty"` // all that it may run with, the preferred one first; empty: Model alone
	Agent          string   `json:"agent,omitempty"`
	Gates          []string `json:"gates,omitempty"`
	NoWorse        []string `json:"no_worse,omitempty"`   // gates that may stay as red as Baseline was
	GateHints      []string `json:"gate_hints,omitempty"` // gates without approval: told to the agent, never run
	ExpectsChanges bool     `json:"expects_changes,omitempty"`
	EmptyOK        bool     `json:"empty_ok,omitempty"`
	Outputs        []string `json:"outputs,omitempty"`
	Writes         []string `json:"writes,omitempty"`    // files that the plan lets it write; empty: unspecified
	Found          []string `json:"found,omitempty"`     // see [Spec.Found]
	Questions      []string `json:"questions,omitempty"` // see [Spec.Questions]
	DoneWhen       []string `json:"done_when,omitempty"`
	DoneDefault    bool     `json:"done_default,omitempty"` // neither plan nor run named DoneWhen
	Lint           []string `json:"lint,omitempty"`         // used without a language server; may stay as red as Baseline
	Budget         *Budget  `json:"budget,omitempty"`

	Replaces string `json:"replaces,omitempty"` // the superseded sub-task that it replaces
	Root     string `json:"root,omitempty"`     // first sub-task of its chain of replans, see [State.Root]; empty: itself

	Attempts  int      `json:"attempts"`             // number of the newest attempt; 0 before the first
	Judged    int      `json:"judged,omitempty"`     // judged turns of its chain of replans; counted in its root
	Tries     int      `json:"tries"`                // attempts that count against the limit
	Lost      int      `json:"lost,omitempty"`       // attempts whose session was lost; not tries
	Stalls    int      `json:"stalls,omitempty"`     // turns without progress minus turns with it, at least 0
	NeedsUser int      `json:"needs_user,omitempty"` // consecutive verdicts that only the user can help
	Failures  []string `json:"failures,omitempty"`   // digest of each failed attempt, oldest first
	// Before is how the last attempt ended without having failed (say, to wait for an answer), for the next brief.
	Before     string      `json:"before,omitempty"`
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	// Snapshot is the workspace before the first attempt. Retries find earlier work: changes are measured from here.
	Snapshot string `json:"snapshot,omitempty"`
	Repo     *Repo  `json:"repo,omitempty"`     // of the project before the first attempt; nil in a slot and outside of git
	Baseline []Gate `json:"baseline,omitempty"` // best runs of its commands before the first attempt
	// NoGates are detected commands that did not end before the work, perhaps a watch mode: they decide nothing.
	NoGates []Gate `json:"no_gates,omitempty"`
	// GateRuns are the newest runs of its gates, after its newest turn or later on the final files; those missing did
	// not run. Green ones have no output.
	GateRuns   []Gate        `json:"gate_runs,omitempty"`
	Tree       string        `json:"tree,omitempty"`        // [Diff.Tree] of the newest turn
	LastResult string        `json:"last_result,omitempty"` // [Attempt.Result] of the previous attempt
	Worked     time.Duration `json:"worked,omitempty"`      // all turns together, nanoseconds
	Transcript string        `json:"transcript,omitempty"`  // of the newest turn, see [Evidence.Transcript]
	// PartialSummary and PartialMet are the summary and the met criteria of the newest verdict that found it incomplete.
	PartialSummary string          `json:"partial_summary,omitempty"`
	PartialMet     []string        `json:"partial_met,omitempty"`
	Track          json.RawMessage `json:"track,omitempty"` // state of package enforcer, opaque here
	ParkState
	Blockers []Blocker `json:"blockers,omitempty"` // raised by its attempts, oldest first
	Files    []string  `json:"files,omitempty"`    // project files that its attempts changed; at most 500
	Shared   bool      `json:"shared,omitempty"`   // others ran meanwhile, and changes may be theirs
	Flaky    []string  `json:"flaky,omitempty"`    // gates with a run that is [Gate.FlakySuspected]
	SlotState
	RedoState

	// Changes are the files of its newest turn that are its own or that nobody claims, with their lines; at most 50.
	Changes   []FileChange `json:"changes,omitempty"`
	Answer    string       `json:"answer,omitempty"`    // to the user, of the verdict that completed the only sub-task
	Output    string       `json:"output,omitempty"`    // passed on to dependents
	Summary   string       `json:"summary,omitempty"`   // what was done, or why not
	Remaining []string     `json:"remaining,omitempty"` // open points of the verdict that completed it
	Usage     Usage        `json:"usage"`
	EndSeq    uint64       `json:"end_seq,omitempty"` // event that ended it; 0 before
	CreatedAt time.Time    `json:"created_at"`
	UpdatedAt time.Time    `json:"updated_at"`
}

// ParkState says why a sub-task is blocked until the user does something.
type ParkState struct {
	Parked  bool   `json:"parked,omitempty"`   // blocked until the user does what Reason says
	AtLimit bool   `json:"at_limit,omitempty"` // parked because a loop used all its turns
	Program string `json:"program,omitempty"`  // parked because a gate lacks this program
}

// SlotState is where a sub-task of an isolated boulder works, and what became of its result.
type SlotState struct {
	Slot       int    `json:"slot,omitempty"`       // of the newest attempt with one, from 1
	Dir        string `json:"dir,omitempty"`        // where that attempt works; empty: in the project, or not known
	From       string `json:"from,omitempty"`       // commit of the trunk that it works on top of
	Work       string `json:"work,omitempty"`       // commit of its slot after the newest turn
	Integrated string `json:"integrated,omitempty"` // commit of the trunk with its result
	// TestedWith is the sub-task that came onto the trunk with it, and whose tree was tested, if its own was not.
	TestedWith string     `json:"tested_with,omitempty"`
	Place      int        `json:"place,omitempty"` // of its result on the trunk: the larger, the later
	Conflicts  []Conflict `json:"conflicts,omitempty"`
	// Unresolved counts what did not resolve a conflict: the conflict itself, and turns after it. An answer begins anew.
	Unresolved int `json:"unresolved,omitempty"`
}

// RedoState is what a sub-task knows of its redos ([Redone]).
type RedoState struct {
	// Generation counts them. The current one begins without the changes of attempts up to Since.
	Generation int         `json:"generation,omitempty"`
	Since      int         `json:"since,omitempty"`
	Reuse      Reuse       `json:"reuse,omitempty"`
	Earlier    *Earlier    `json:"earlier,omitempty"`
	Revert     *TreeChange `json:"revert,omitempty"` // to revert before the generation's first session
	Fresh      *Fresh      `json:"fresh,omitempty"`
	// Inputs, Rests and Change are hashes of the results and answers it builds on and of its changes, to compare generations.
	Inputs string `json:"inputs,omitempty"`
	Rests  string `json:"rests,omitempty"`
	Change string `json:"change,omitempty"`
}

// Checkpoint is the place of a sub-task's last edit.
type Checkpoint struct {
	File    string    `json:"file"` // relative to the project
	Line    int       `json:"line"` // from 1
	Context string    `json:"context"`
	At      time.Time `json:"at"`
}

// AttemptStatus is the state of an attempt. A continuation takes it from monitoring back to executing.
//
//	queued → starting → executing → monitoring → completed | failed | cancelled | timeout | lost
type AttemptStatus string

const (
	// AttemptQueued: waits for a slot, at a stored place in the queue. Entered when its sub-task is ready.
	AttemptQueued AttemptStatus = "queued"
	// AttemptStarting: holds a slot. Entered by [Starting]. After a crash its session is adopted by its tag, or created.
	AttemptStarting AttemptStatus = "starting"
	// AttemptExecuting: its session is stored; a prompt is sent or running. Entered by [SubTaskStart] and
	// [Continuation]. After a crash the session is asked how far it is; the prompt is not sent twice.
	AttemptExecuting AttemptStatus = "executing"
	// AttemptMonitoring: the turn's evidence is stored and being judged, again after a crash. Entered by [TurnEnded].
	AttemptMonitoring AttemptStatus = "monitoring"
	// AttemptCompleted: judged complete. Terminal, as are the others below.
	AttemptCompleted AttemptStatus = "completed"
	AttemptFailed    AttemptStatus = "failed"    // judged incomplete too often, or broken
	AttemptCancelled AttemptStatus = "cancelled" // by the user, a wait for the user, a redo or a replan
	AttemptTimeout   AttemptStatus = "timeout"   // its time ran out
	AttemptLost      AttemptStatus = "lost"      // its session is gone; not a try
)

// Terminal reports whether the status never changes again.
func (s AttemptStatus) Terminal() bool {
	return s == AttemptCompleted || s == AttemptFailed || s == AttemptCancelled || s == AttemptTimeout || s == AttemptLost
}

// Live reports whether the attempt holds a slot.
func (s AttemptStatus) Live() bool { return s != AttemptQueued && !s.Terminal() }

// AttemptRef identifies an attempt of a boulder.
type AttemptRef struct {
	SubTaskID string `json:"sub_task_id"`
	Attempt   int    `json:"attempt"` // from 1
}

// Attempt is one try of one sub-task, in one session.
type Attempt struct {
	AttemptRef
	Status       AttemptStatus `json:"status"`
	Reason       string        `json:"reason,omitempty"`
	Model        string        `json:"model"`
	Effort       string        `json:"effort,omitempty"`    // of Model; empty: its default
	NoEffort     bool          `json:"no_effort,omitempty"` // Model lacks Effort: its default is used
	Instead      []Instead     `json:"instead,omitempty"`   // the models that Model is used instead of, in the order of [Switched]
	Agent        string        `json:"agent,omitempty"`
	QueueSeq     uint64        `json:"queue_seq"`            // event that queued it: FIFO order
	SlotSeq      uint64        `json:"slot_seq,omitempty"`   // event that gave it its slot, or another model; 0 before
	Tag          string        `json:"tag,omitempty"`        // in the session's title and metadata, before its id is known
	SessionID    string        `json:"session_id,omitempty"` // the runner's
	Server       string        `json:"server,omitempty"`     // of its newest prompt, if it outlives this program
	Turns        int           `json:"turns"`                // begun so far
	Troubles     int           `json:"troubles,omitempty"`   // consecutive infrastructure faults; not tries
	NotBefore    time.Time     `json:"not_before,omitzero"`  // end of a back-off or pause
	Usage        Usage         `json:"usage"`
	Seen         Usage         `json:"seen,omitzero"`          // by the running turn since it was last resumed
	Spent        Usage         `json:"spent,omitzero"`         // by it before that
	Idle         int           `json:"idle,omitempty"`         // consecutive turns without a tool call, up to the newest
	Asked        string        `json:"asked,omitempty"`        // hash of the last continuation prompt, to detect repetition
	Result       string        `json:"result,omitempty"`       // hash of the last turn's diff and red gates; empty: none red
	Worked       time.Duration `json:"worked,omitempty"`       // all turns together, nanoseconds
	RunningSince time.Time     `json:"running_since,omitzero"` // when the running turn was last resumed; zero: none runs
	QueuedAt     time.Time     `json:"queued_at"`
	StartedAt    time.Time     `json:"started_at,omitzero"`
	EndedAt      time.Time     `json:"ended_at,omitzero"`
	UpdatedAt    time.Time     `json:"updated_at"`
}

// Instead is a model of a list that could not be used, and why; with an effort, the model itself that lacks it.
type Instead struct {
	Model  string `json:"model"`
	Reason string `json:"reason"`
}

// Delayed reports whether a fault or a pause before a prompt delays the attempt, or did until now.
func (a *Attempt) Delayed() bool { return !a.NotBefore.IsZero() }

// Running returns the usage so far of the running or interrupted turn, not yet in a [UsageReport].
func (a *Attempt) Running() Usage { return a.Spent.Add(a.Seen) }

// WorkedBy returns [Attempt.Worked] with the running turn, as far as it was by then.
func (a *Attempt) WorkedBy(until time.Time) time.Duration {
	if a.RunningSince.IsZero() {
		return a.Worked
	}
	return a.Worked + max(0, until.Sub(a.RunningSince))
}

// TurnKind says why a turn was begun.
type TurnKind string

const (
	TurnBrief        TurnKind = "brief"        // the first prompt of an attempt
	TurnContinuation TurnKind = "continuation" // the previous turn left work
	TurnReuse        TurnKind = "reuse"        // no prompt: a result that stands is put onto the trunk again
)

// Turn is one prompt and its outcome.
type Turn struct {
	AttemptRef
	Number    int       `json:"number"` // from 1
	Seq       uint64    `json:"seq"`    // event that began it; later notes are news for the next prompt
	Kind      TurnKind  `json:"kind"`
	Aside     []string  `json:"aside,omitempty"`      // see [Continuation]
	ToldUpTo  uint64    `json:"told_up_to,omitempty"` // the prompt includes what the user said up to this event; 0: up to Seq
	Prompt    string    `json:"prompt"`
	MessageID string    `json:"message_id,omitempty"` // stored before the prompt is sent
	ResumeID  string    `json:"resume_id,omitempty"`  // of the resume prompt after a crash, the newest after faults; stored before sending
	Nudges    []Nudge   `json:"nudges,omitempty"`     // stored before they are sent
	Evidence  *Evidence `json:"evidence,omitempty"`
	Verdict   *Verdict  `json:"verdict,omitempty"`
	Conflict  *Conflict `json:"conflict,omitempty"` // that prevented its integration
	SentAt    time.Time `json:"sent_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	JudgedAt  time.Time `json:"judged_at,omitzero"`
}

// Nudge is a prompt into a running turn that seems to be stuck.
type Nudge struct {
	Rule      Rule      `json:"rule"`
	MessageID string    `json:"message_id"`
	Prompt    string    `json:"prompt"`
	At        time.Time `json:"at"`
}

// Brief is the first prompt of an attempt and the files that it refers to for cut texts.
type Brief struct {
	Text  string
	Files []File
}

// File is a text that a brief refers to. The runner writes it, readable by the agent, before it sends the brief.
type File struct {
	Path string // absolute
	Text string
}
