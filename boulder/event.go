package boulder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"time"
)

// Event is one thing that happened to a boulder. Events change a [State] ([State.Apply]), are stored in order, and are
// what `--json` prints ([Event.Shown]). In JSON an event is one flat object: type, time, boulder_id, seq, and the fields of
// its body.
type Event struct {
	Time      time.Time
	BoulderID string
	Seq       uint64 // place in the boulder's log, from 1; given by Apply
	Body      Body
}

// Body is what is particular to one type of event: one of the structs of this package that [TypeOf] knows.
type Body any

// Created begins a boulder. The whole head record comes with it.
type Created struct {
	Boulder Boulder         `json:"boulder"`
	Limits  json.RawMessage `json:"limits,omitempty" log:"only"` // of the process that runs it: what its decisions rest on
}

// Planned stores a plan that is not approved yet.
type Planned struct {
	Revision int    `json:"revision"`
	Origin   Origin `json:"origin"`

	Plan PlanRevision `json:"plan,omitzero" log:"only"`
}

// Decomposed adopts a plan revision, creates its sub-tasks and sets the boulder running. The revision is the one that
// was [Planned], or the next one if the user changed it before agreeing.
type Decomposed struct {
	Revision int         `json:"revision"`
	Origin   Origin      `json:"origin"`
	Edited   bool        `json:"edited,omitempty"`
	Goal     string      `json:"goal,omitempty"`
	SubTasks []PlannedIn `json:"sub_tasks"`

	Plan PlanRevision `json:"plan,omitzero" log:"only"`
	// GatesApproved: the user (plan file, answer at the prompt) or the configuration allows the plan's gates to run.
	GatesApproved bool     `json:"gates_approved"`
	Model         string   `json:"model,omitempty"`     // of sub-tasks for which neither they nor the plan name one
	Inherited     []string `json:"inherited,omitempty"` // sub-tasks of a fork that the original completed, and all before them

	Results map[string]Inherited `json:"results,omitempty" log:"only"` // what they came to
}

// PlannedIn is a sub-task as the event log shows it.
type PlannedIn struct {
	ID        string   `json:"id"`
	Subject   string   `json:"subject"`
	DependsOn []string `json:"depends_on"`
	Model     string   `json:"model,omitempty"`
}

// StatusChanged moves the boulder itself.
type StatusChanged struct {
	Status    Status `json:"status"`
	Reason    string `json:"reason,omitempty"`
	SubTaskID string `json:"sub_task_id,omitempty"` // the parked sub-task for which it is paused, if it is for one
	Decided   bool   `json:"decided,omitempty"`     // it is paused because the scheduler ended the run
}

// TakenUp says that a process goes on with a boulder that another one left. The time between them is not counted.
type TakenUp struct {
	LedgerModel string `json:"ledger_model,omitempty"` // of the process that goes on; empty: the same
	Diverted    bool   `json:"diverted,omitempty"`     // from now on
	Iterations  int    `json:"iterations,omitempty"`   // the bound of a loop from now on; 0: it stays as it is

	Limits json.RawMessage `json:"limits,omitempty" log:"only"` // as in [Created]
}

// ClockMoved says that the wall clock and the time of the process disagree: the machine slept, or its clock was set.
type ClockMoved struct {
	By time.Duration `json:"by"` // nanoseconds; below zero: it was set back
}

// Starting gives a queued attempt its slot. It is committed before the session is created.
type Starting struct {
	AttemptRef
	Tag    string `json:"tag"`
	Slot   int    `json:"slot,omitempty"`              // see [SubTask.Slot]
	Prompt string `json:"prompt,omitempty" log:"only"` // the brief
	Shared bool   `json:"shared,omitempty" log:"only"` // other boulders have run in the same process: they hold slots, too
}

// SubTaskStart says that the attempt's session exists. It is committed before the first prompt is sent.
type SubTaskStart struct {
	AttemptRef
	Description string `json:"description"` // the sub-task's subject
	Model       string `json:"model"`
	SessionID   string `json:"session_id"`
	Snapshot    string `json:"snapshot,omitempty" log:"only"`
	From        string `json:"from,omitempty" log:"only"`     // see [SubTask.From]
	Baseline    []Gate `json:"baseline,omitempty" log:"only"` // see [SubTask.Baseline]; nil where it was not measured now
}

// TurnSent says that a prompt is about to be sent with this message id. It is committed before it is sent.
type TurnSent struct {
	AttemptRef
	Turn      int      `json:"turn"`
	Kind      TurnKind `json:"kind"`
	MessageID string   `json:"message_id"`
	Resume    bool     `json:"resume,omitempty"` // the one resume prompt of this turn
	ToldUpTo  uint64   `json:"heard,omitempty"`  // that of the job's turn
	Server    string   `json:"server,omitempty"` // see [Attempt.Server]
}

// Nudged says that a prompt is about to be sent into a running turn that seems to be stuck. It is committed before.
type Nudged struct {
	AttemptRef
	Turn      int    `json:"turn"`
	Rule      Rule   `json:"rule"`
	MessageID string `json:"message_id"`
	Prompt    string `json:"prompt"`
}

// SubTaskProgress is a sign of life: a tool call, an edit, a change of the todo list, a wait, a call of the model.
type SubTaskProgress struct {
	AttemptRef
	Activity   string      `json:"activity"` // one line for people: "edit src/app.js"; empty: only Usage is new
	Checkpoint *Checkpoint `json:"checkpoint,omitempty"`
	TodosDone  int         `json:"todos_done,omitempty"`
	TodosTotal int         `json:"todos_total,omitempty"`
	Usage      Usage       `json:"usage"`            // of this turn so far
	Notice     bool        `json:"notice,omitempty"` // worth showing beside the steps: a wait for a provider, a refused permission
}

// TurnEnded hands in what a turn left behind. It is committed before anything follows from the verdict.
type TurnEnded struct {
	AttemptRef
	Turn     int      `json:"turn"`
	Ended    Ended    `json:"ended"`
	Evidence Evidence `json:"evidence,omitzero" log:"only"`
	// Cooldown is what became of that of the attempt's model, because it answered; nil: nothing.
	Cooldown *Cooldown `json:"cooldown,omitempty" log:"only"`
}

// GateRun tells how a gate of the ended turn went; or, at the end of a run, one of a completed sub-task.
type GateRun struct {
	AttemptRef
	Command  string `json:"command"`
	Passed   bool   `json:"passed"` // or no worse than before, where that is enough
	ExitCode int    `json:"exit_code"`
	NoWorse  string `json:"no_worse,omitempty"` // why a red gate counts as passed
	Output   string `json:"output,omitempty"`   // the tail, of a gate that did not pass
	TimedOut bool   `json:"timed_out,omitempty"`
	Millis   int64  `json:"duration_ms"`
	Tree     string `json:"tree,omitempty"`  // on which it ran to integrate the result of the attempt
	Final    bool   `json:"final,omitempty"` // it ran once more on the files that all sub-tasks left behind
}

// NewGateRun is the event of a run of a gate of t.
func NewGateRun(t *SubTask, attempt int, g Gate) GateRun {
	run := GateRun{
		AttemptRef: AttemptRef{SubTaskID: t.ID, Attempt: attempt}, Command: g.Command, Passed: g.Holds(), ExitCode: g.ExitCode,
		NoWorse: g.NoWorse, TimedOut: g.TimedOut, Millis: g.Duration.Milliseconds(),
	}
	if !g.Green() {
		run.Output = g.Output
	}
	return run
}

// Gate is the run that the event tells of.
func (b GateRun) Gate() Gate {
	return Gate{
		Command: b.Command, ExitCode: b.ExitCode, Output: b.Output, Duration: time.Duration(b.Millis) * time.Millisecond,
		TimedOut: b.TimedOut, NoWorse: b.NoWorse,
	}
}

// Judged hands in the verdict on an ended turn.
type Judged struct {
	AttemptRef
	Turn    int     `json:"turn"`
	Verdict Verdict `json:"verdict"`

	Stalls    int       `json:"stalls,omitempty" log:"only"`     // becomes that of the sub-task
	NeedsUser int       `json:"needs_user,omitempty" log:"only"` // the same
	Cooldown  *Cooldown `json:"cooldown,omitempty" log:"only"`   // as in [TurnEnded], of the ledger's model
}

// Continuation tells the same session to go on.
type Continuation struct {
	AttemptRef
	Reason    string   `json:"reason"`
	Remaining []string `json:"remaining"`
	Turn      int      `json:"turn"` // the one that this begins
	Prompt    string   `json:"prompt,omitempty" log:"only"`

	Track     json.RawMessage `json:"track,omitempty" log:"only"` // becomes that of the sub-task; empty: it stays as it is
	NotBefore time.Time       `json:"not_before,omitzero"`        // the end of a wait before the prompt, if there is one
}

// Retry ends an attempt without success and queues the next one in a fresh session.
type Retry struct {
	AttemptRef               // the attempt that ended
	Reason     string        `json:"reason"`
	Status     AttemptStatus `json:"status"`                         // what the ended attempt becomes
	Uncounted  bool          `json:"uncounted"`                      // the ended attempt is not a try (lost)
	Next       int           `json:"next"`                           // number of the queued attempt
	ByPerson   bool          `json:"by_person,omitempty" log:"only"` // the user wants another attempt
	Digest     string        `json:"digest,omitempty" log:"only"`    // of the failure, for the next brief

	Track json.RawMessage `json:"track,omitempty" log:"only"` // as in [Continuation]
}

// Trouble is a fault that is not the agent's: the attempt stays where it is and is taken up again at NotBefore.
type Trouble struct {
	AttemptRef
	Kind      TroubleKind `json:"kind,omitempty"`
	Reason    string      `json:"reason"`
	NotBefore time.Time   `json:"not_before"`
	Uncounted bool        `json:"uncounted,omitempty"` // a wait that a provider asked for: it does not count towards giving up
}

// Cooled makes a model wait: no prompt goes to it before Until, and fewer attempts at once use it until answers come again.
type Cooled struct {
	Model string `json:"model"`
	Cooldown
}

// ReplanStarted counts a replan and says for whose failure. It is committed before the Task Ledger is asked.
type ReplanStarted struct {
	AttemptRef          // as in [Replanning]
	Number     int      `json:"number"` // from 1, within the run
	Reason     string   `json:"reason"`
	Replaces   []string `json:"replaces"`
}

// ReplanTrouble is a fault while the Task Ledger was asked for a replan: it is asked again at NotBefore.
type ReplanTrouble struct {
	Reason    string    `json:"reason"`
	NotBefore time.Time `json:"not_before"`
	Uncounted bool      `json:"uncounted,omitempty"` // as in [Trouble]
}

// ReplanProposed stores a replan that the user is asked about. It waits for [OrderApprove] or [OrderDecline], or for
// who is asked at a terminal.
type ReplanProposed struct {
	AttemptRef
	Replacement
}

// Replanned adopts a new plan revision for what could not be done: the sub-tasks of Removed and those that Changed
// names are superseded, new ones take their place. Everything else stays as it is.
type Replanned struct {
	AttemptRef             // whose failure asked for it; this ends it
	Number     int         `json:"number"`
	Reason     string      `json:"reason"`
	Revision   int         `json:"revision"`
	Added      []PlannedIn `json:"added"`
	Changed    []Change    `json:"changed"`
	Removed    []string    `json:"removed"` // ids of sub-tasks that nothing took the place of

	Plan     PlanRevision `json:"plan,omitzero" log:"only"`
	SubTasks []Spec       `json:"sub_tasks,omitempty" log:"only"` // the new ones

	GatesApproved bool `json:"gates_approved"` // their gates may run
}

// Change is a sub-task that a replan put in the place of another.
type Change struct {
	From string    `json:"from"` // id of the superseded one
	To   PlannedIn `json:"to"`
}

// ReplanRefused ends a replan without a new plan; the sub-task fails.
type ReplanRefused struct {
	AttemptRef
	Reason string `json:"reason"`
}

// BudgetSet changes the budget of the run, or of a sub-task.
type BudgetSet struct {
	SubTaskID string `json:"sub_task_id,omitempty"` // empty: of the run
	Budget    Budget `json:"budget"`
}

// BudgetWarning says that most of a budget is used up. It is given once for each.
type BudgetWarning struct {
	SubTaskID string  `json:"sub_task_id,omitempty"` // empty: of the run
	Dimension string  `json:"dimension"`             // tokens | cost | time | attempts | calls
	Used      float64 `json:"used"`                  // tokens, US dollars, seconds, attempts, calls
	Limit     float64 `json:"limit"`
}

// Parked ends an attempt, as cancelled and not a try, because the sub-task needs the user. What depends on it waits.
type Parked struct {
	AttemptRef
	Reason  string   `json:"reason"`
	Digest  string   `json:"digest,omitempty" log:"only"` // for the next brief
	Awaits  []string `json:"awaits,omitempty"`            // blockers without whose answers it cannot continue
	AtLimit bool     `json:"at_limit,omitempty"`          // a loop has had all its turns; it goes on when it gets more
	Program string   `json:"program,omitempty"`           // what a gate needs and is not found; it goes on when that is there
}

// SessionLeft says that an order ended an attempt whose agent may be at work until it is Stopped. It may come after the
// end of the boulder.
type SessionLeft struct {
	LeftSession
	Stopped bool `json:"stopped,omitempty"`
}

// Unparked queues a parked sub-task again.
type Unparked struct {
	SubTaskID string `json:"sub_task_id"`
	Reason    string `json:"reason"`

	Track json.RawMessage `json:"track,omitempty" log:"only"` // becomes that of the sub-task; empty: it starts from zero
}

// Noted is a note of the user.
type Noted struct {
	SubTaskID string `json:"sub_task_id,omitempty"` // empty: for all
	Text      string `json:"text"`
}

// Reopened takes the end of a sub-task back, or its wait for the user: retried by the user, with all its tries.
type Reopened struct {
	SubTaskID string `json:"sub_task_id"`
	Reason    string `json:"reason"`
}

// Archived puts a boulder that is over out of sight, or back. Like [SessionLeft] and [Landed] it comes after the end.
type Archived struct {
	Archived bool `json:"archived"`
}

// UsageReport adds what a ledger call or a finished turn cost.
type UsageReport struct {
	SubTaskID string `json:"sub_task_id,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	Source    string `json:"source"` // plan | judge | attempt
	Model     string `json:"model,omitempty"`
	Usage     Usage  `json:"usage"`
}

// SubTaskDone ends a sub-task, one way or the other.
type SubTaskDone struct {
	AttemptRef
	Completed bool          `json:"completed"`
	Summary   string        `json:"summary"`
	Status    SubTaskStatus `json:"status"`

	AttemptStatus AttemptStatus `json:"attempt_status"` // what the attempt becomes
	Output        string        `json:"output,omitempty" log:"only"`
	ByPerson      bool          `json:"by_person,omitempty"` // the user skipped or cancelled it
	Blocked       []string      `json:"blocked,omitempty"`   // sub-tasks that can no longer run because of it; filled in by Apply
	Kept          []string      `json:"kept,omitempty"`      // dependents whose results stand ([Redone]); filled in by Apply
}

// TaskComplete ends the boulder.
type TaskComplete struct {
	AllCompleted bool   `json:"all_completed"`
	Summary      string `json:"summary"`
	Status       Status `json:"status"`
	Usage        Usage  `json:"usage"`
}

var typesByName, typesByBody = func() (map[string]eventType, map[reflect.Type]eventType) {
	names, bodies := make(map[string]eventType, len(eventTypes)), make(map[reflect.Type]eventType, len(eventTypes))
	for _, t := range eventTypes {
		names[t.name], bodies[t.body] = t, t
	}
	return names, bodies
}()

// TypeOf is the value of the JSON field "type" of an event with this body; empty for what is no body.
func TypeOf(b Body) string { return typesByBody[reflect.TypeOf(b)].name }

// Public reports whether the event belongs to the documented stream of `--json`.
func (e Event) Public() bool { return typesByBody[reflect.TypeOf(e.Body)].public }

// IsEventType reports whether there are events with this value of the JSON field "type".
func IsEventType(name string) bool { return typesByName[name].body != nil }

// PublicTypes are the bodies of the events of the documented stream of `--json`, by what their "type" is there.
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

// Shown is the event as `--json` prints it: without plans, prompts, evidence and outputs, the fields with the tag log:"only".
func (e Event) Shown() Event {
	body := reflect.New(reflect.TypeOf(e.Body)).Elem()
	body.Set(reflect.ValueOf(e.Body))
	for _, f := range reflect.VisibleFields(body.Type()) {
		if f.Tag.Get("log") == "only" {
			body.FieldByIndex(f.Index).SetZero()
		}
	}
	e.Body = body.Interface()
	return e
}

// MarshalJSON writes the flat object with everything that the event carries, as the log has it.
func (e Event) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // whoever encodes the event decides
	if err := enc.Encode(envelope{TypeOf(e.Body), e.Time, e.BoulderID, e.Seq}); err != nil {
		return nil, err
	}
	if err := enc.Encode(e.Body); err != nil {
		return nil, err
	}
	head, fields, _ := bytes.Cut(bytes.TrimSpace(text.Bytes()), []byte("}\n{"))
	if len(fields) > len("}") {
		head = append(head, ',')
	}
	return append(head, fields...), nil
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
	*e = Event{Time: head.Time, BoulderID: head.BoulderID, Seq: head.Seq, Body: body.Elem().Interface()}
	return nil
}
