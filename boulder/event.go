package boulder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Event is one change of a boulder: it changes a [State] ([State.Apply]), is logged in order, and is printed by
// `--json` ([Event.Shown]). In JSON it is one flat object: type, time, boulder_id, seq, and the fields of its body.
type Event struct {
	Time      time.Time
	BoulderID string
	Seq       uint64 // place in the boulder's log, from 1; set by Apply
	Body      Body
}

// Created begins a boulder with its head record.
type Created struct {
	Boulder Boulder         `json:"boulder"`
	Limits  json.RawMessage `json:"limits,omitempty" log:"only"` // of its process: the basis of its decisions
}

// Planned stores a plan that is not approved yet.
type Planned struct {
	Revision int    `json:"revision"`
	Origin   Origin `json:"origin"`

	Plan PlanRevision `json:"plan,omitzero" log:"only"`
}

// Decomposed adopts a plan, creates its sub-tasks and starts the run. Its revision is [Planned], or the next if edited.
type Decomposed struct {
	Revision int         `json:"revision"`
	Origin   Origin      `json:"origin"`
	Edited   bool        `json:"edited,omitempty"`
	Goal     string      `json:"goal,omitempty"`
	SubTasks []PlannedIn `json:"sub_tasks"`

	Plan          PlanRevision `json:"plan,omitzero" log:"only"`
	GatesApproved bool         `json:"gates_approved"`      // by the user (plan file, prompt) or the configuration
	Model         Models       `json:"model,omitempty"`     // of sub-tasks if neither they nor the plan name one
	Inherited     []string     `json:"inherited,omitempty"` // completed in the original of a fork, with all dependencies

	Results map[string]Inherited `json:"results,omitempty" log:"only"` // of the inherited sub-tasks
}

// RevisionAsked says what the user wants changed in the plan, or the replan, that awaits approval. Committed before the Task
// Ledger is asked.
type RevisionAsked struct {
	Comment string `json:"comment"`

	Plan *PlanRevision `json:"plan,omitempty" log:"only"` // the plan with the user's own edits, the next revision; nil: unchanged
}

// RevisionRefused ends a revision without another plan: the one before awaits approval again.
type RevisionRefused struct {
	Reason string `json:"reason"`
}

// PlannedIn is a sub-task as planning events show it.
type PlannedIn struct {
	ID        string   `json:"id"`
	Subject   string   `json:"subject"`
	DependsOn []string `json:"depends_on"`
	Model     Models   `json:"model,omitempty"`
}

// StatusChanged moves the boulder to another status.
type StatusChanged struct {
	Status    Status `json:"status"`
	Reason    string `json:"reason,omitempty"`
	SubTaskID string `json:"sub_task_id,omitempty"` // the parked sub-task that it is paused for, if any
	Decided   bool   `json:"decided,omitempty"`     // paused because the scheduler ended the run
}

// Resumed says that a process continues a boulder that another one left. The time between them does not count.
type Resumed struct {
	LedgerModel Models `json:"ledger_model,omitempty"` // from now on; empty: unchanged
	Diverted    bool   `json:"diverted,omitempty"`     // from now on
	Iterations  int    `json:"iterations,omitempty"`   // bound of a loop from now on; 0: unchanged

	Limits json.RawMessage `json:"limits,omitempty" log:"only"` // as in [Created]
}

// ClockMoved says that wall clock and monotonic clock disagree: the machine slept, or its clock was set.
type ClockMoved struct {
	By time.Duration `json:"by"` // nanoseconds; negative: set back
}

// Starting gives a queued attempt its slot. Committed before the session is created.
type Starting struct {
	AttemptRef
	Tag    string `json:"tag"`
	Slot   int    `json:"slot,omitempty"`              // see [SubTask.Slot]
	Prompt string `json:"prompt,omitempty" log:"only"` // the brief
	Shared bool   `json:"shared,omitempty" log:"only"` // other boulders run in the same process and hold slots too
}

// SubTaskStart says that the attempt's session exists. Committed before the first prompt is sent.
type SubTaskStart struct {
	AttemptRef
	Description string `json:"description"` // the sub-task's subject
	Model       string `json:"model"`
	Effort      string `json:"effort,omitempty"` // as in [Attempt]
	SessionID   string `json:"session_id"`
	Snapshot    string `json:"snapshot,omitempty" log:"only"`
	Repo        *Repo  `json:"repo,omitempty" log:"only"`     // see [SubTask.Repo]
	From        string `json:"from,omitempty" log:"only"`     // see [SubTask.From]
	Dir         string `json:"dir,omitempty"`                 // see [SubTask.Dir]
	Baseline    []Gate `json:"baseline,omitempty" log:"only"` // see [SubTask.Baseline]; nil if not measured now
}

// TurnSent says that a prompt is about to be sent with this message id. Committed before it is sent.
type TurnSent struct {
	AttemptRef
	Turn      int      `json:"turn"`
	Kind      TurnKind `json:"kind"`
	MessageID string   `json:"message_id"`
	Resume    bool     `json:"resume,omitempty"`     // the one resume prompt of this turn
	ToldUpTo  uint64   `json:"told_up_to,omitempty"` // see [Turn.ToldUpTo]
	Server    string   `json:"server,omitempty"`     // see [Attempt.Server]
}

// EffortMissing says that the model of an attempt lacks the effort that it is to have: it is prompted without. Committed before
// that.
type EffortMissing struct {
	AttemptRef
	Model  string   `json:"model"`
	Effort string   `json:"effort"`
	Has    []string `json:"has,omitempty"` // the efforts of the model
}

// Nudged says that a prompt is about to be sent into a running turn that seems to be stuck. Committed before that.
type Nudged struct {
	AttemptRef
	Turn      int    `json:"turn"`
	Rule      Rule   `json:"rule"`
	MessageID string `json:"message_id"`
	Prompt    string `json:"prompt"`
}

// SubTaskProgress is a sign of life: a tool call, an edit, a change of the todo list, a wait, a model call.
type SubTaskProgress struct {
	AttemptRef
	Activity   string      `json:"activity"` // one line for the user: "edit src/app.js"; empty: only Usage is new
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	TodosDone  int         `json:"todos_done,omitempty"`
	TodosTotal int         `json:"todos_total,omitempty"`
	Usage      Usage       `json:"usage"`            // of this turn so far
	Notice     bool        `json:"notice,omitempty"` // worth showing: a wait for a provider, a refused permission
}

// TurnEnded records the result of a turn. Committed before it is judged.
type TurnEnded struct {
	AttemptRef
	Turn     int       `json:"turn"`
	Ended    Ended     `json:"ended"`
	Evidence Evidence  `json:"evidence,omitzero" log:"only"`
	Cooldown *Cooldown `json:"cooldown,omitempty" log:"only"` // of the attempt's model after it answered; nil: unchanged
}

// GateRun records a gate of the ended turn or, at the end of a run, of a completed sub-task.
type GateRun struct {
	AttemptRef
	Command  string `json:"command"`
	Passed   bool   `json:"passed"` // or no worse than before, where that suffices
	ExitCode int    `json:"exit_code"`
	NoWorse  string `json:"no_worse,omitempty"` // why a red gate counts as passed
	Output   string `json:"output,omitempty"`   // the tail, if the gate failed
	TimedOut bool   `json:"timed_out,omitempty"`
	Millis   int64  `json:"duration_ms"`
	Tree     string `json:"tree,omitempty"`  // set if it ran to integrate the attempt's result
	Final    bool   `json:"final,omitempty"` // it ran again on the final files of all sub-tasks
	// FlakySuspected: it was red on the same files just before.
	FlakySuspected bool `json:"flaky_suspected,omitempty"`
}

// NewGateRun returns the event for a run of a gate of t.
func NewGateRun(t *SubTask, attempt int, g Gate) GateRun {
	run := GateRun{
		AttemptRef: AttemptRef{SubTaskID: t.ID, Attempt: attempt}, Command: g.Command, Passed: g.Holds(), ExitCode: g.ExitCode,
		NoWorse: g.NoWorse, TimedOut: g.TimedOut, Millis: g.Duration.Milliseconds(), FlakySuspected: g.FlakySuspected,
	}
	if !g.Green() {
		run.Output = g.Output
	}
	return run
}

// Gate returns the recorded run.
func (b GateRun) Gate() Gate {
	return Gate{
		Command: b.Command, ExitCode: b.ExitCode, Output: b.Output, Duration: time.Duration(b.Millis) * time.Millisecond,
		TimedOut: b.TimedOut, NoWorse: b.NoWorse, FlakySuspected: b.FlakySuspected,
	}
}

// Judged records the verdict on an ended turn.
type Judged struct {
	AttemptRef
	Turn    int     `json:"turn"`
	Verdict Verdict `json:"verdict"`

	Stalls    int       `json:"stalls,omitempty" log:"only"`     // the sub-task's new count
	NeedsUser int       `json:"needs_user,omitempty" log:"only"` // likewise
	Cooldown  *Cooldown `json:"cooldown,omitempty" log:"only"`   // of the ledger's model; nil: unchanged
}

// Continuation prompts the same session to continue.
type Continuation struct {
	AttemptRef
	Reason    string   `json:"reason"`
	Remaining []string `json:"remaining"`
	Turn      int      `json:"turn"` // number of the new turn
	// Aside are the ids of unanswered hard blockers: the prompt asks for what does not need the answers. The turn before need
	// not be judged then.
	Aside  []string `json:"aside,omitempty"`
	Prompt string   `json:"prompt,omitempty" log:"only"`

	Track     json.RawMessage `json:"track,omitempty" log:"only"` // the sub-task's new Track; empty: unchanged
	NotBefore time.Time       `json:"not_before,omitzero"`        // end of a wait before the prompt, if any
}

// Retry ends an attempt without success and queues the next one, in a fresh session.
type Retry struct {
	AttemptRef               // the attempt that ended
	Reason     string        `json:"reason"`
	Status     AttemptStatus `json:"status"`                       // what the ended attempt becomes
	Uncounted  bool          `json:"uncounted"`                    // the ended attempt does not count as a try
	Next       int           `json:"next"`                         // number of the queued attempt
	ByUser     bool          `json:"by_user,omitempty" log:"only"` // the user ordered it
	Digest     string        `json:"digest,omitempty" log:"only"`  // of the failure, for the next brief

	Track json.RawMessage `json:"track,omitempty" log:"only"` // as in [Continuation]
}

// Trouble is a fault that is not the agent's: the attempt keeps its state and resumes at NotBefore.
type Trouble struct {
	AttemptRef
	Kind      TroubleKind `json:"kind,omitempty"`
	Reason    string      `json:"reason"`
	NotBefore time.Time   `json:"not_before"`
	Uncounted bool        `json:"uncounted,omitempty"` // a wait that a provider asked for; no step towards giving up
}

// Cooled makes a model wait: no prompt before Until, and fewer attempts at once until answers come again.
type Cooled struct {
	Model string `json:"model"`
	Cooldown
}

// ReplanStarted counts a replan and names the failure behind it. Committed before the Task Ledger is asked.
type ReplanStarted struct {
	AttemptRef          // as in [Replanning]
	Number     int      `json:"number"` // from 1, within the run; extensions are counted by themselves
	Reason     string   `json:"reason"`
	Replaces   []string `json:"replaces"`
	Missing    []string `json:"missing,omitempty"` // of the request: an extension, which replaces nothing, of no sub-task
}

// PlanTrouble is a fault while asking a ledger for a plan or a replan, or whether the request is met, or during a look; it is
// tried again at NotBefore.
type PlanTrouble struct {
	Reason    string    `json:"reason"`
	NotBefore time.Time `json:"not_before"`
	Uncounted bool      `json:"uncounted,omitempty"` // as in [Trouble]
}

// ReplanProposed stores a replan that awaits the user: [OrderApprove], [OrderDecline] or an answer at the terminal.
type ReplanProposed struct {
	AttemptRef
	Replacement
}

// Replanned adopts a plan revision for what failed: new sub-tasks supersede those in Removed and Changed, others stay.
type Replanned struct {
	AttemptRef             // the failed attempt, which ends
	Number     int         `json:"number"`
	Reason     string      `json:"reason"`
	Revision   int         `json:"revision"`
	Added      []PlannedIn `json:"added"`
	Changed    []Change    `json:"changed"`
	Removed    []string    `json:"removed"`           // ids of sub-tasks without a successor
	Missing    []string    `json:"missing,omitempty"` // of the request: an extension, which only adds

	Plan     PlanRevision `json:"plan,omitzero" log:"only"`
	SubTasks []Spec       `json:"sub_tasks,omitempty" log:"only"` // the new ones

	GatesApproved bool     `json:"gates_approved"`          // the new gates may run
	GatesNotRun   []string `json:"gates_not_run,omitempty"` // new gates that nobody approved: agents are told of them
}

// Change is a sub-task that replaces another in a replan.
type Change struct {
	From string    `json:"from"` // id of the superseded one
	To   PlannedIn `json:"to"`
}

// ReplanRefused ends a replan without a new plan; the sub-task fails.
type ReplanRefused struct {
	AttemptRef
	Reason string `json:"reason"`
}

// BudgetSet changes the budget of the run or of a sub-task.
type BudgetSet struct {
	SubTaskID string `json:"sub_task_id,omitempty"` // empty: of the run
	Budget    Budget `json:"budget"`
}

// BudgetWarning says that a budget is mostly used. Given once for each budget and dimension.
type BudgetWarning struct {
	SubTaskID string  `json:"sub_task_id,omitempty"` // empty: of the run
	Dimension string  `json:"dimension"`             // tokens | cost | time | attempts | calls
	Used      float64 `json:"used"`                  // tokens, US dollars, seconds, attempts, calls
	Limit     float64 `json:"limit"`
}

// Parked ends an attempt as cancelled and uncounted, because the sub-task needs the user. Its dependents wait.
type Parked struct {
	AttemptRef
	Reason  string   `json:"reason"`
	Digest  string   `json:"digest,omitempty" log:"only"` // for the next brief
	Awaits  []string `json:"awaits,omitempty"`            // blockers that it cannot continue without
	AtLimit bool     `json:"at_limit,omitempty"`          // a loop used all its turns; it continues when given more
	Program string   `json:"program,omitempty"`           // missing program of a gate; it continues once installed
}

// SessionLeft says that an order ended an attempt whose session may run until Stopped. It may follow the boulder's end.
type SessionLeft struct {
	LeftSession
	Stopped bool `json:"stopped,omitempty"`
}

// Unparked queues a parked sub-task again.
type Unparked struct {
	SubTaskID string `json:"sub_task_id"`
	Reason    string `json:"reason"`

	Track json.RawMessage `json:"track,omitempty" log:"only"` // the sub-task's new Track; empty: reset
}

// Noted is a note from the user.
type Noted struct {
	SubTaskID string `json:"sub_task_id,omitempty"` // empty: for all
	Text      string `json:"text"`
}

// Reopened reverts the end of a sub-task, or its wait for the user. It has all its tries again.
type Reopened struct {
	SubTaskID string `json:"sub_task_id"`
	Reason    string `json:"reason"`
}

// Archived hides a boulder from lists, or shows it again. It comes after the end, like [SessionLeft] and [Landed].
type Archived struct {
	Archived bool `json:"archived"`
}

// UsageReport adds the cost of a ledger call or a finished turn.
type UsageReport struct {
	SubTaskID string `json:"sub_task_id,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	Source    string `json:"source"` // plan | look | replan | judge | check | attempt
	Model     string `json:"model,omitempty"`
	Usage     Usage  `json:"usage"`
}

// SubTaskDone ends a sub-task, successfully or not.
type SubTaskDone struct {
	AttemptRef
	Completed bool          `json:"completed"`
	Summary   string        `json:"summary"`
	Status    SubTaskStatus `json:"status"`

	AttemptStatus AttemptStatus `json:"attempt_status"` // final status of the attempt
	Output        string        `json:"output_data,omitempty"`
	ByUser        bool          `json:"by_user,omitempty"` // the user skipped or cancelled it
	Blocked       []string      `json:"blocked,omitempty"` // dependents that can no longer run; set by Apply
	Kept          []string      `json:"kept,omitempty"`    // dependents whose results stand ([Redone]); set by Apply
}

// TaskComplete ends the boulder.
type TaskComplete struct {
	AllCompleted bool   `json:"all_completed"`
	Answer       string `json:"answer"`  // what the user asked for, or what there is now; the summary if no model wrote it
	Summary      string `json:"summary"` // made of the records
	Status       Status `json:"status"`
	// Request are the things that the request asks for, as far as a model checked them after all work.
	Request []RequestRow `json:"request,omitempty"`
	Missing []string     `json:"missing,omitempty"` // of the request; then the status is partial
	// RequestUnchecked: the model gave no usable answer to whether the request is met. The gates alone decided.
	RequestUnchecked bool  `json:"request_unchecked,omitempty"`
	Usage            Usage `json:"usage"`
}

var typesByName, typesByBody = func() (map[string]eventType, map[reflect.Type]eventType) {
	names, bodies := make(map[string]eventType, len(eventTypes)), make(map[reflect.Type]eventType, len(eventTypes))
	for _, t := range eventTypes {
		names[t.name], bodies[t.body] = t, t
	}
	return names, bodies
}()

// TypeOf returns the JSON field "type" of an event with this body, or "" if b is not a body.
func TypeOf(b Body) string { return typesByBody[reflect.TypeOf(b)].name }

// Public reports whether the event belongs to the documented stream of `--json`.
func (e Event) Public() bool { return typesByBody[reflect.TypeOf(e.Body)].public }

// EventTypes returns the JSON fields "type" of all events, sorted.
func EventTypes() []string { return slices.Sorted(maps.Keys(typesByName)) }

// PublicTypes returns the bodies of the events in the documented stream of `--json`, by "type".
func PublicTypes() iter.Seq2[string, reflect.Type] {
	return func(yield func(string, reflect.Type) bool) {
		for _, t := range eventTypes {
			if t.public && !yield(t.name, t.body) {
				return
			}
		}
	}
}

type envelope struct {
	Type      string    `json:"type"`
	Time      time.Time `json:"time"`
	BoulderID string    `json:"boulder_id"`
	Seq       uint64    `json:"seq"`
}

// Shown returns the event as `--json` prints it: without fields tagged log:"only" (plans, prompts, evidence, outputs).
func (e Event) Shown() Event {
	body := reflect.New(reflect.TypeOf(e.Body)).Elem()
	body.Set(reflect.ValueOf(e.Body))
	for _, f := range reflect.VisibleFields(body.Type()) {
		if f.Tag.Get("log") == "only" {
			body.FieldByIndex(f.Index).SetZero()
		}
	}
	e.Body = body.Interface().(Body)
	return e
}

// MarshalJSON writes the flat object with all fields, as in the log: the envelope's, then the body's.
func (e Event) MarshalJSON() ([]byte, error) {
	head, err := jsonFields(envelope{TypeOf(e.Body), e.Time, e.BoulderID, e.Seq})
	if err != nil {
		return nil, err
	}
	fields, err := jsonFields(e.Body)
	if err != nil {
		return nil, err
	}
	if len(fields) > 0 {
		head = append(head, ',')
	}
	return slices.Concat([]byte("{"), head, fields, []byte("}")), nil
}

// jsonFields returns the fields of a struct in JSON, without the braces around them. The caller's encoder escapes HTML.
func jsonFields(v any) ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(bytes.TrimPrefix(text.Bytes(), []byte("{")), []byte("}\n")), err
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *Event) UnmarshalJSON(data []byte) error {
	var head envelope
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	known, ok := typesByName[head.Type]
	if !ok {
		return fmt.Errorf("unknown event type %q", head.Type)
	}
	body := reflect.New(known.body)
	if err := json.Unmarshal(data, body.Interface()); err != nil {
		return fmt.Errorf("event %q: %w", head.Type, err)
	}
	*e = Event{Time: head.Time, BoulderID: head.BoulderID, Seq: head.Seq, Body: body.Elem().Interface().(Body)}
	return nil
}
