// Package boulder is the domain: one request and all durable state needed to finish it.
//
// A [State] is the whole of one boulder in memory. [State.Apply] is the only way to change it; it takes one [Event],
// has no clock, no I/O and no goroutines, and gives the same state for the same events on every machine. So the log of
// events is all that a store has to keep; a [Snapshot] saves applying the whole of it. [State.Check] says whether the
// records agree with each other.
//
// The package imports nothing but the standard library and internal/dag, so that every other package can speak its words.
package boulder

import "time"

// Status is the state of a boulder:
//
//	planning → awaiting_approval → running ⇄ paused → synthesizing → completed | partial | failed | cancelled
type Status string

const (
	// Planning: the Task Ledger is being asked. Entered by [Created]. A crash leaves the request; a resume plans again.
	Planning Status = "planning"
	// AwaitingApproval: the plan is not approved yet. Entered by [Planned]. A crash leaves the plan; a resume asks again.
	AwaitingApproval Status = "awaiting_approval"
	// Running: sub-tasks are dispatched. Entered by [Decomposed], and by [StatusChanged] on a resume. A crash leaves
	// live attempts, which a resume picks up where they were.
	Running Status = "running"
	// Paused: nothing is dispatched until the user resumes; Reason says why. Entered by [StatusChanged]: the user paused, an
	// interrupt, a fault that ends the run but not the work (a wrong key). Turns at work may end meanwhile.
	Paused Status = "paused"
	// Synthesizing: no sub-task is ready or live; the answer is built, from stored records. Entered by [StatusChanged].
	Synthesizing Status = "synthesizing"
	// Completed: every sub-task is completed or skipped. Terminal, as are the others below.
	Completed Status = "completed"
	Partial   Status = "partial"   // some sub-tasks completed, others failed or are blocked by one that did; or a loop failed
	Failed    Status = "failed"    // no sub-task completed
	Cancelled Status = "cancelled" // by the user
)

// Terminal reports whether the status never changes again.
func (s Status) Terminal() bool {
	return s == Completed || s == Partial || s == Failed || s == Cancelled
}

// Boulder is the head record: what was asked, where, and how far it has come. The parts are records of their own.
type Boulder struct {
	ID       string `json:"id"`
	Task     string `json:"task"`           // the request, verbatim
	Goal     string `json:"goal,omitempty"` // one line, from the Task Ledger
	Status   Status `json:"status"`
	Reason   string `json:"reason,omitempty"`    // why it is in this status, for people
	WaitsFor string `json:"waits_for,omitempty"` // the parked sub-task for which it is paused

	Project  string `json:"project"`  // absolute path of the directory the sub-tasks work on
	Revision int    `json:"revision"` // current plan revision, from 1; 0 while planning

	Settings
	Line     Line   `json:"line,omitzero"`      // of an isolated boulder
	Baseline []Gate `json:"baseline,omitempty"` // the best runs of commands of no_worse, from before the first sub-task that has them
	// Worked is the wall clock of the run so far, nanoseconds: while it was running, and a process was at it.
	Worked   time.Duration `json:"worked,omitempty"`
	ClockAt  time.Time     `json:"clock_at,omitzero"`  // when Worked was last added to
	Attempts int           `json:"attempts,omitempty"` // that were started

	// Turns and TurnUsage count the ended turns of agents and what they used: what a turn is expected to use.
	Turns     int64 `json:"turns,omitempty"`
	TurnUsage Usage `json:"turn_usage,omitzero"`

	Replans   int                 `json:"replans,omitempty"`   // begun
	Wanted    []Replanning        `json:"wanted,omitempty"`    // replans that judges of completed sub-tasks asked for
	Replan    *Replanning         `json:"replan,omitempty"`    // the one that is being made
	Tried     []string            `json:"tried,omitempty"`     // [SpecsHash] of every part of a plan that was replaced
	Cooldowns map[string]Cooldown `json:"cooldowns,omitempty"` // by model
	NewFacts  []string            `json:"new_facts,omitempty"` // that judges noted, oldest first; at most 30
	Warned    []string            `json:"warned,omitempty"`    // budgets whose soft warning was given

	Left       []LeftSession `json:"left,omitempty"`  // sessions that may be at work although their attempts have ended
	Notes      []Note        `json:"notes,omitempty"` // of the user, oldest first; at most 30
	Tally      Tally         `json:"tally"`           // of the sub-tasks
	ForkOf     *Fork         `json:"fork_of,omitempty"`
	ArchivedAt time.Time     `json:"archived_at,omitzero"` // when it was put out of sight of `manager list`

	Usage     Usage     `json:"usage"` // of everything: attempts and ledger calls
	Summary   string    `json:"summary,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Seq       uint64    `json:"seq"` // number of the last event
}

// Settings are what a boulder was asked to be done with. They are stored, so that a resume keeps to them.
type Settings struct {
	Base        string   `json:"base,omitempty"`        // commit of the project when the plan was made; empty outside git
	PlanFile    string   `json:"plan_file,omitempty"`   // absolute path of the plan file that was run
	Constraints []string `json:"constraints,omitempty"` // of the user, before a plan takes them over
	PlanMode    PlanMode `json:"plan_mode,omitempty"`

	AskPlan    bool      `json:"ask_plan,omitempty"`    // the user is to be asked before the plan is adopted; a fork's was
	AskReplans bool      `json:"ask_replans,omitempty"` // the same for a replan
	Isolation  Isolation `json:"isolation,omitempty"`   // as it was asked for; [Boulder.Isolated] says what came of it
	CleanBase  bool      `json:"clean_base,omitempty"`  // slots begin at HEAD, without what is not committed
	Diverted   bool      `json:"diverted,omitempty"`    // blockers are recorded, and the agents go on; the user's switch goes before it
	Gates      []string  `json:"gates,omitempty"`       // of the configuration: of every sub-task, besides its own
	NoWorse    []string  `json:"no_worse,omitempty"`    // the same, for gates that may stay as red as before
	// IntegrationGates are those of every combined tree, besides the gates of the sub-tasks that it has the results of.
	IntegrationGates []string `json:"integration_gates,omitempty"`
	Scope            Scope    `json:"scope,omitempty"`
	// Generated are commands by the name or the path of a file, which may have * and ?. Run in its directory, one makes the file
	// again where results conflict in such files alone. Empty: none does.
	Generated map[string]string `json:"generated,omitempty"`

	// DoneWhen are the criteria of sub-tasks for which neither they nor their plan name any ([DoneWords]). Empty: the judge
	// alone. Checks are the commands behind them; without Tests, a sub-task that is done when tests pass is refused.
	DoneWhen []string `json:"done_when,omitempty"`
	Checks   Checks   `json:"checks,omitzero"`
	Loop     *Loop    `json:"loop,omitempty"` // nil: it is no loop

	Engine      string  `json:"engine,omitempty"`       // what else runs it, whose log this is a copy of; empty: a manager on this machine
	Agent       string  `json:"agent,omitempty"`        // default agent of the sub-tasks; empty: OpenCode's
	Model       string  `json:"model,omitempty"`        // default model of the sub-tasks, provider/model
	LedgerModel string  `json:"ledger_model,omitempty"` // model of the two ledgers, provider/model
	Budget      *Budget `json:"budget,omitempty"`       // of the run; a resume does not refill it
}

// LeftSession is a session that has to be stopped before anything else is run, see [SessionLeft].
type LeftSession struct {
	AttemptRef
	SessionID string `json:"session_id"`
	Server    string `json:"server,omitempty"` // see [Attempt.Server]
}

// Asks reports whether a plan or a replan waits for the user's yes.
func (b *Boulder) Asks() bool {
	plan := b.Revision > 0 && b.Tally.Planned == 0 && (b.Status == AwaitingApproval || b.Status == Paused)
	return plan || b.Replan != nil && b.Replan.Proposed != nil
}

// WorkedBy is the wall clock of the run until now: [Boulder.Worked], and what has passed since if it is at work.
func (b *Boulder) WorkedBy(now time.Time) time.Duration {
	switch b.Status {
	case Planning, Running, Synthesizing:
		return b.Worked + max(0, now.Sub(b.ClockAt))
	}
	return b.Worked
}

// Sources of a [UsageReport].
const (
	UsagePlan    = "plan"
	UsageReplan  = "replan"
	UsageJudge   = "judge"
	UsageAttempt = "attempt"
)

// Usage is what models were paid for. Tokens are counts; Input includes what was read from a cache, Output reasoning.
type Usage struct {
	Input      int64   `json:"input"`
	CacheRead  int64   `json:"cache_read,omitempty"`
	CacheWrite int64   `json:"cache_write,omitempty"`
	Output     int64   `json:"output"`
	Reasoning  int64   `json:"reasoning,omitempty"`
	Calls      int64   `json:"calls"`              // model calls (ledgers) and steps (agents)
	Cost       float64 `json:"cost"`               // US dollars
	Unpriced   int64   `json:"unpriced,omitempty"` // calls of unknown price: they are not in Cost, so that no sum is a guess
}

// Add returns the sum of both.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite,
		Output: u.Output + v.Output, Reasoning: u.Reasoning + v.Reasoning, Calls: u.Calls + v.Calls,
		Cost: u.Cost + v.Cost, Unpriced: u.Unpriced + v.Unpriced,
	}
}

// Sub returns what u has more than v, nothing of it below zero.
func (u Usage) Sub(v Usage) Usage {
	return Usage{
		Input: max(0, u.Input-v.Input), CacheRead: max(0, u.CacheRead-v.CacheRead), CacheWrite: max(0, u.CacheWrite-v.CacheWrite),
		Output: max(0, u.Output-v.Output), Reasoning: max(0, u.Reasoning-v.Reasoning), Calls: max(0, u.Calls-v.Calls),
		Cost: max(0, u.Cost-v.Cost), Unpriced: max(0, u.Unpriced-v.Unpriced),
	}
}

// Tokens is all input and output together.
func (u Usage) Tokens() int64 { return u.Input + u.Output }

// Replanning is a replan that was counted and is being made. A crash leaves it: a resume asks again, without counting.
type Replanning struct {
	// AttemptRef is whose failure asks for it; that attempt stays open until the new plan is there. Without an attempt
	// (0) the sub-task was completed, and what was found makes the rest of the plan wrong.
	AttemptRef
	Reason string `json:"reason"`
	// Replaces are the ids of the sub-tasks that the new ones stand in for, in plan order.
	Replaces  []string  `json:"replaces"`
	Troubles  int       `json:"troubles,omitempty"`  // faults in a row while asking
	Fault     string    `json:"fault,omitempty"`     // the newest of them
	NotBefore time.Time `json:"not_before,omitzero"` // the end of the back-off after it

	Proposed *Replacement `json:"proposed,omitempty"` // what the user is asked about
}

// Cooldown is the state of a model that answered with a rate limit or an overload.
type Cooldown struct {
	Until time.Time `json:"until"`                     // no prompt before
	Since time.Time `json:"since,omitzero" log:"only"` // the provider said so, or the user lifted it
	// Lifted was the end before the user lifted it, which is Until then. Zero: it was not.
	Lifted time.Time `json:"lifted,omitzero"`
	// Limit is how many attempts may hold a slot; it grows by one with every turn that ends well, until it is Full again.
	Limit  int    `json:"limit"`
	Full   int    `json:"full"`                      // the configured limit
	Hits   int    `json:"hits,omitempty" log:"only"` // in a row, without an answer between them
	Reason string `json:"reason"`
}

func (c Cooldown) valid() bool { return c.Limit >= 1 && c.Limit <= max(1, c.Full) }
