// Package boulder is the domain: one request and all durable state needed to finish it.
//
// A [State] is one boulder in memory. [State.Apply], which takes one [Event], is the only way to change it. Apply has
// no clock, no I/O and no goroutines: the same events give the same state on every machine. A store therefore needs
// only the event log; a [Snapshot] saves applying all of it. [State.Check] verifies that the records are consistent.
//
// The package imports only the standard library and internal/dag, so that every other package can import it.
package boulder

import (
	"math"
	"time"
)

// Status is the state of a boulder:
//
//	planning → awaiting_approval → running ⇄ paused → synthesizing → completed | partial | failed | cancelled
type Status string

const (
	// Planning: the Task Ledger makes the plan, or revises it. Entered by [Created] and [RevisionAsked]. A crash keeps the
	// request and the comment; a resume plans again.
	Planning Status = "planning"
	// AwaitingApproval: the plan is not approved. Entered by [Planned] and [RevisionRefused]. A crash keeps the plan; a resume asks again.
	AwaitingApproval Status = "awaiting_approval"
	// Running: sub-tasks are dispatched. Entered by [Decomposed], and by [StatusChanged] on a resume. A crash leaves
	// live attempts, which a resume continues.
	Running Status = "running"
	// Paused: nothing is dispatched until the user resumes; Reason says why. Entered by [StatusChanged]: the user, an
	// interrupt, or a fault that ends the run but not the work (a wrong key). Turns in progress may still end.
	Paused Status = "paused"
	// Synthesizing: no sub-task is ready or live; the answer is built from stored records. Entered by [StatusChanged].
	Synthesizing Status = "synthesizing"
	// Completed: every sub-task is completed or skipped. Terminal, as are the others below.
	Completed Status = "completed"
	Partial   Status = "partial"   // some sub-tasks completed, others failed or are blocked by a failure; or a loop failed
	Failed    Status = "failed"    // no sub-task completed
	Cancelled Status = "cancelled" // by the user
)

// Terminal reports whether the boulder is over. Only [Redone] can change such a status.
func (s Status) Terminal() bool {
	return s == Completed || s == Partial || s == Failed || s == Cancelled
}

// Boulder is the head record: what was asked, where, and how far it has come.
type Boulder struct {
	ID       string `json:"id"`
	Task     string `json:"task"`           // the request, verbatim
	Goal     string `json:"goal,omitempty"` // one line, from the Task Ledger
	Status   Status `json:"status"`
	Reason   string `json:"reason,omitempty"`    // why it has this status, for the user
	WaitsFor string `json:"waits_for,omitempty"` // the parked sub-task that it is paused for

	Project  string `json:"project"`  // absolute path of the directory that the sub-tasks work on
	Revision int    `json:"revision"` // current plan revision, from 1; 0 while planning

	Settings
	Trunk    Trunk  `json:"trunk,omitzero"`     // of an isolated boulder; else zero
	Baseline []Gate `json:"baseline,omitempty"` // best runs before the work, see [SubTask.Baseline]
	// Worked is the wall-clock time in nanoseconds during which a process ran the boulder, pauses excluded.
	Worked   time.Duration `json:"worked,omitempty"`
	ClockAt  time.Time     `json:"clock_at,omitzero"`  // when Worked was last updated
	Attempts int           `json:"attempts,omitempty"` // started so far

	// Turns and TurnUsage sum the agents' ended turns; their quotient is the expected usage of a turn.
	Turns     int64 `json:"turns,omitempty"`
	TurnUsage Usage `json:"turn_usage,omitzero"`

	PlanState
	Switches  int                 `json:"switches,omitempty"`   // [Switched] events
	LedgerNow string              `json:"ledger_now,omitempty"` // the model of both ledgers in place of the first of LedgerModel
	Cooldowns map[string]Cooldown `json:"cooldowns,omitempty"`  // by model
	NewFacts  []string            `json:"new_facts,omitempty"`  // noted by judges, oldest first; at most 30
	Warned    []string            `json:"warned,omitempty"`     // keys of the [BudgetWarning] events

	LeftSessions   []LeftSession `json:"left_sessions,omitempty"` // sessions that may still be running although their attempts ended
	Notes          []Note        `json:"notes,omitempty"`         // from the user, oldest first; at most 30
	Tally          Tally         `json:"tally"`
	BlockersRaised int           `json:"blockers_raised,omitempty"` // blockers so far
	Blockers       []Blocker     `json:"blockers,omitempty"`        // questions of the plan that were answered by default; no sub-task's
	ForkOf         *Fork         `json:"fork_of,omitempty"`
	ArchivedAt     time.Time     `json:"archived_at,omitzero"` // when it was hidden from `manager list`

	Usage     Usage     `json:"usage"`               // attempts, looks and ledger calls together
	LookUsage Usage     `json:"look_usage,omitzero"` // of looks
	Answer    string    `json:"answer,omitempty"`    // of [TaskComplete], as is the summary
	Summary   string    `json:"summary,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Seq       uint64    `json:"seq"` // of the last event
}

// PlanState is how the plan comes about and changes.
type PlanState struct {
	Comment    string     `json:"comment,omitempty"`    // what the user wants changed in the plan, which is being revised
	Revised    int        `json:"revised,omitempty"`    // how often the user wanted it revised: then it is not adopted unasked
	PlanFaults PlanFaults `json:"plan_faults,omitzero"` // before the first plan, or while the request is checked
	Prepared   *Prepared  `json:"prepared,omitempty"`   // before the first plan; nil: the user is not asked anything
	Look       *Look      `json:"look,omitempty"`       // the newest; nil: there was none

	Replans       int           `json:"replans,omitempty"`        // started so far
	Extensions    int           `json:"extensions,omitempty"`     // likewise, to add what was missing of the request
	Check         *RequestCheck `json:"check,omitempty"`          // the newest; see [Boulder.Checked]
	CheckedAt     int           `json:"checked_at,omitempty"`     // Attempts when it was stored
	ReplansWanted []Replanning  `json:"replans_wanted,omitempty"` // replans that verdicts on completed sub-tasks asked for
	Replan        *Replanning   `json:"replan,omitempty"`         // the replan in progress
	TriedParts    []string      `json:"tried_parts,omitempty"`    // [SpecsHash] of each replaced part and of its replacement
}

// Settings are the options that a boulder was created with. They are stored, so that a resume keeps them.
type Settings struct {
	Base        string   `json:"base,omitempty"`        // commit of the project at planning time; empty outside git
	PlanFile    string   `json:"plan_file,omitempty"`   // absolute path of the plan file that was run
	Constraints []string `json:"constraints,omitempty"` // from the user, before a plan takes them over
	PlanMode    PlanMode `json:"plan_mode,omitempty"`
	LookMode    LookMode `json:"look_mode,omitempty"`
	LookModel   string   `json:"look_model,omitempty"` // of looks, provider/model; empty: as sub-tasks that name none
	Review      bool     `json:"review,omitempty"`     // a look reads the changes before the request is checked
	ReviewModel string   `json:"review_model,omitempty"`

	// StartAt is when work may begin; zero: at once. Until then nothing is asked or sent, and no time is counted.
	StartAt time.Time `json:"start_at,omitzero"`

	AskPlan    bool      `json:"ask_plan,omitempty"`    // ask the user before the plan is adopted; not for a fork's plan
	AskReplans bool      `json:"ask_replans,omitempty"` // ask the user before a replan is adopted
	Isolation  Isolation `json:"isolation,omitempty"`   // as requested; see [Boulder.Isolated] for the outcome
	CleanBase  bool      `json:"clean_base,omitempty"`  // slots begin at HEAD, without uncommitted changes
	Diverted   bool      `json:"diverted,omitempty"`    // record blockers and continue; the user's switch overrides it
	Gates      []string  `json:"gates,omitempty"`       // from the configuration, for every sub-task
	NoWorse    []string  `json:"no_worse,omitempty"`    // likewise; these may stay as red as they were
	// IntegrationGates run on every combined tree, as do the gates of the sub-tasks whose results are in it.
	IntegrationGates []string `json:"integration_gates,omitempty"`
	Scope            Scope    `json:"scope,omitempty"`
	// Generated maps a file's name or path, with * and ? as wildcards, to a command that regenerates the file when run
	// in its directory. It is used where results conflict only in such files.
	Generated map[string]string `json:"generated,omitempty"`

	// DoneWhen are the criteria ([DoneWords]) of sub-tasks for which neither they nor their plan name any. Empty: the
	// judge decides, besides the gates. Checks are the commands behind them; without Checks.Tests, [DoneTests] is refused.
	DoneWhen []string `json:"done_when,omitempty"`
	Checks   Checks   `json:"checks,omitzero"`
	Loop     *Loop    `json:"loop,omitempty"` // nil: not a loop

	Engine string `json:"engine,omitempty"` // external engine whose log this copies; empty: this manager
	Agent  string `json:"agent,omitempty"`  // default for sub-tasks; empty: OpenCode's default
	Model  Models `json:"model,omitempty"`  // default for sub-tasks
	Effort string `json:"effort,omitempty"` // of models of sub-tasks that are named without one
	// Describe says what models are good at (by provider/model, perhaps with an effort), which the planner may give to sub-tasks.
	Describe    map[string]string `json:"describe,omitempty"`
	Fallback    Models            `json:"fallback,omitempty"`     // behind a model of sub-tasks that is named alone
	LedgerModel Models            `json:"ledger_model,omitempty"` // of both ledgers; see [Boulder.Ledger] for the one in use
	Budget      *Budget           `json:"budget,omitempty"`       // of the run; a resume does not refill it
}

// LeftSession is a session that must be stopped before anything else runs, see [SessionLeft].
type LeftSession struct {
	AttemptRef
	SessionID string `json:"session_id"`
	Server    string `json:"server,omitempty"` // see [Attempt.Server]
}

// ShortID returns the end of a boulder's id, by which people know it: its first half is the time, the end is random. Programs get
// the whole id; both are taken where a boulder is named.
func ShortID(id string) string { return id[max(0, len(id)-6):] }

// Asks reports whether a plan or a replan waits for the user's approval.
func (b *Boulder) Asks() bool {
	plan := b.Revision > 0 && b.Tally.Planned == 0 && b.Comment == "" && (b.Status == AwaitingApproval || b.Status == Paused)
	return plan || b.Replan != nil && b.Replan.Proposed != nil
}

// Asking reports whether the user is asked what the planner asks.
func (b *Boulder) Asking() bool {
	return b.Status == Planning && b.Prepared != nil && !b.Prepared.Asked && b.Look == nil
}

// Waits reports whether the boulder may not begin yet.
func (b *Boulder) Waits(now time.Time) bool { return now.Before(b.StartAt) && !b.Status.Terminal() }

// CountedTo is the time up to which [Boulder.Worked] has the work.
func (b *Boulder) CountedTo() time.Time {
	if b.ClockAt.Before(b.StartAt) {
		return b.StartAt
	}
	return b.ClockAt
}

// WorkedBy returns [Boulder.Worked] including the time since [Boulder.CountedTo] if the boulder is at work.
func (b *Boulder) WorkedBy(now time.Time) time.Duration {
	switch b.Status {
	case Planning, Running, Synthesizing:
		if b.Asking() {
			return b.Worked
		}
		return b.Worked + max(0, now.Sub(b.CountedTo()))
	}
	return b.Worked
}

// Sources of a [UsageReport].
const (
	UsagePlan    = "plan"
	UsageReplan  = "replan"
	UsageJudge   = "judge"
	UsageCheck   = "check"
	UsageLook    = "look"
	UsageAttempt = "attempt"
)

// Usage is what model calls used, in tokens. Input includes cache reads, Output includes reasoning.
type Usage struct {
	Input      int64   `json:"input"`
	CacheRead  int64   `json:"cache_read,omitempty"`
	CacheWrite int64   `json:"cache_write,omitempty"`
	Output     int64   `json:"output"`
	Reasoning  int64   `json:"reasoning,omitempty"`
	Calls      int64   `json:"calls"`              // model calls (ledgers) and steps (agents)
	Cost       float64 `json:"cost"`               // US dollars
	Unpriced   int64   `json:"unpriced,omitempty"` // calls of unknown price, not in Cost: sums contain no guess
}

// Add returns the sum of both.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: plus(u.Input, v.Input), CacheRead: plus(u.CacheRead, v.CacheRead), CacheWrite: plus(u.CacheWrite, v.CacheWrite),
		Output: plus(u.Output, v.Output), Reasoning: plus(u.Reasoning, v.Reasoning), Calls: u.Calls + v.Calls,
		Cost: u.Cost + v.Cost, Unpriced: u.Unpriced + v.Unpriced,
	}
}

// plus saturates, or a sum that wraps would be below every budget.
func plus(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Sane returns u without counts that no call can have: negative ones, and those above 10^12, the largest that is
// believed. A cost below zero or of more than a million dollars is unknown.
func (u Usage) Sane() Usage {
	const most = 1e12
	for _, n := range []*int64{&u.Input, &u.CacheRead, &u.CacheWrite, &u.Output, &u.Reasoning} {
		if *n < 0 || *n > most {
			*n = 0
		}
	}
	if !(u.Cost >= 0 && u.Cost <= 1e6) { // NaN included
		u.Cost, u.Unpriced = 0, 1
	}
	return u
}

// Sub returns u minus v, each field at least zero.
func (u Usage) Sub(v Usage) Usage {
	return Usage{
		Input: max(0, u.Input-v.Input), CacheRead: max(0, u.CacheRead-v.CacheRead), CacheWrite: max(0, u.CacheWrite-v.CacheWrite),
		Output: max(0, u.Output-v.Output), Reasoning: max(0, u.Reasoning-v.Reasoning), Calls: max(0, u.Calls-v.Calls),
		Cost: max(0, u.Cost-v.Cost), Unpriced: max(0, u.Unpriced-v.Unpriced),
	}
}

// Tokens returns input and output together.
func (u Usage) Tokens() int64 { return plus(u.Input, u.Output) }

// Replanning is a counted replan in progress. A crash keeps it: a resume asks again, without counting.
type Replanning struct {
	// AttemptRef is the attempt whose failure asks for it; the attempt stays open until the new plan is adopted.
	// Attempt 0: the sub-task was completed, but its result invalidates the remaining plan. Zero: an extension.
	AttemptRef
	Reason string `json:"reason"`
	// Replaces are the ids of the sub-tasks to be replaced, in plan order.
	Replaces []string `json:"replaces"`
	Missing  []string `json:"missing,omitempty"` // see [ReplanStarted]
	PlanFaults
	Proposed *Replacement `json:"proposed,omitempty"` // awaits the user's approval
	// Was is an earlier proposal, and Comment says what the user wants changed in it; with no Proposed it is being revised.
	Was     *Replacement `json:"was,omitempty"`
	Comment string       `json:"comment,omitempty"`
}

// Faults returns those of the replan in progress, or else of the boulder.
func (b *Boulder) Faults() *PlanFaults {
	if b.Replan != nil {
		return &b.Replan.PlanFaults
	}
	return &b.PlanFaults
}

// PlanFaults are the consecutive faults while the Task Ledger is asked for a plan.
type PlanFaults struct {
	Troubles  int       `json:"troubles,omitempty"`
	Fault     string    `json:"fault,omitempty"`     // the last one
	NotBefore time.Time `json:"not_before,omitzero"` // end of the back-off after it
}

// Cooldown is the state of a model that returned a rate-limit or overload error.
type Cooldown struct {
	Until time.Time `json:"until"`                     // no prompt before this time
	Since time.Time `json:"since,omitzero" log:"only"` // when the provider refused, or the user lifted it
	// Reset is the end that the provider named last. Until may be later: it is believed once. Zero: it named none.
	Reset time.Time `json:"reset,omitzero"`
	// Lifted is the original end of a cool-down that the user lifted at Until. Zero: not lifted.
	Lifted time.Time `json:"lifted,omitzero"`
	// Limit is how many attempts may hold a slot. It grows by one with every successful turn, up to Full.
	Limit  int    `json:"limit"`
	Full   int    `json:"full"`                      // the configured limit
	Hits   int    `json:"hits,omitempty" log:"only"` // refusals since the last answer
	Reason string `json:"reason"`
	// Out is set while the next model of a list takes the place of this one, until it has answered again: after Until, one
	// attempt asks it. Empty: attempts wait for it.
	Out Outage `json:"out,omitempty"`
}

func (c Cooldown) valid() bool { return c.Limit >= 1 && c.Limit <= max(1, c.Full) }
