package boulder

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// BlockerCategory is the subject of a blocker.
type BlockerCategory string

const (
	BlockerPermission   BlockerCategory = "permission"
	BlockerArchitecture BlockerCategory = "architecture"
	BlockerSecurity     BlockerCategory = "security"
	BlockerDestructive  BlockerCategory = "destructive"
	BlockerQuestion     BlockerCategory = "question"
	BlockerOther        BlockerCategory = "other"
	// Raised by the manager:

	BlockerMerge  BlockerCategory = "merge"  // a result that cannot be integrated
	BlockerEscape BlockerCategory = "escape" // an agent edited the project instead of its slot
)

// BlockerCategories lists the categories for agents, in the order in which agents see them.
func BlockerCategories() []BlockerCategory {
	return []BlockerCategory{
		BlockerPermission, BlockerArchitecture, BlockerSecurity, BlockerDestructive, BlockerQuestion, BlockerOther,
	}
}

// BlockerStatus says whether the user has settled a blocker.
type BlockerStatus string

const (
	BlockerPending  BlockerStatus = "pending"  // not answered yet
	BlockerAnswered BlockerStatus = "answered" // terminal
	BlockerSkipped  BlockerStatus = "skipped"  // the user gives no answer: continue without; terminal
)

// Settled reports whether no answer is awaited any more.
func (s BlockerStatus) Settled() bool { return s == BlockerAnswered || s == BlockerSkipped }

// Blocker is what only the user can answer: an agent's question or permission request. One of a run is its event
// [BlockerRaised], and what its sub-task keeps of that; package blockers stores those of sessions outside of runs.
type Blocker struct {
	ID string `json:"id"` // unique in the project: B1, B2, … of runs, W1, W2, … of other sessions
	BlockerScope

	Category BlockerCategory `json:"category"`
	Question string          `json:"question"`
	Context  string          `json:"context"`
	// Hard: the sub-task cannot continue without the answer. Soft ones are those where the agent chose for itself.
	Hard            bool     `json:"blocks_progress"`
	Options         []string `json:"options,omitempty"`
	ChosenOption    string   `json:"chosen_option,omitempty"`
	ChosenReasoning string   `json:"chosen_reasoning,omitempty"`
	Ask             *Ask     `json:"ask,omitempty"` // OpenCode's request, if it was one
	// PlanQuestion is the id of the plan's question that was answered by default, with ChosenOption: a blocker of no sub-task.
	PlanQuestion string `json:"plan_question,omitempty"`

	Status    BlockerStatus `json:"status"`
	Answer    string        `json:"answer,omitempty"`
	Allowed   bool          `json:"allowed,omitempty"` // the permission is granted for the rest of the sub-task
	Until     time.Time     `json:"until,omitzero"`    // end of the session's wait for the user; then it is diverted
	Gone      bool          `json:"gone,omitempty"`    // that wait ended before: it was aborted, or another client replied
	Replied   bool          `json:"replied,omitempty"` // the waiting session got the whole answer: no prompt repeats it
	CreatedAt time.Time     `json:"created_at"`
	SettledAt time.Time     `json:"settled_at,omitzero"`
	Seq       uint64        `json:"seq,omitempty"` // event that settled it, and that later prompts report; 0 outside of runs

	Key    string   `json:"same,omitempty"`   // equal for repeats of an ask or a call
	Grants []string `json:"grants,omitempty"` // keys of what the user permits by allowing it
}

// Waiting reports whether a session waits for the answer at this time. One of a run waits only while its attempt is at
// work, which its sub-task shows.
func (b *Blocker) Waiting(now time.Time) bool {
	return !b.Status.Settled() && !b.Gone && now.Before(b.Until)
}

// AskKind is what OpenCode asks the user for.
type AskKind string

const (
	AskPermission AskKind = "permission"
	AskQuestion   AskKind = "question"
)

// Ask is a request of OpenCode that the manager answered in place of the user.
type Ask struct {
	Kind      AskKind `json:"kind"`
	RequestID string  `json:"request_id"` // OpenCode's
	// Permission and Patterns describe a permission in OpenCode's terms: bash, [git push *].
	Permission string   `json:"permission,omitempty"`
	Patterns   []string `json:"patterns,omitempty"`
	// Tool and Arguments are those of the waiting call, if known.
	Tool      string `json:"tool,omitempty"`
	Arguments string `json:"arguments,omitempty"`
}

// AskReply is how an ask is answered.
type AskReply string

const (
	ReplyDiverted AskReply = "diverted" // refused, with advice to continue with something else
	ReplyAllowed  AskReply = "allowed"
	ReplyWaiting  AskReply = "waiting" // the user may answer until [Blocker.Until]
)

// BlockerScope says where a blocker came up. Outside a run, only the session is set.
type BlockerScope struct {
	BoulderID string `json:"boulder_id,omitempty"`
	SubTaskID string `json:"sub_task_id,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	Diverted  bool   `json:"-"` // [Settings.Diverted] of the boulder
}

// Limits on a blocker's texts, in characters.
const (
	MaxQuestion = 2_000
	MaxContext  = 10_000
)

// BlockerTool is the tool for reporting blockers, as OpenCode names tool "blocker" of the server "manager".
const BlockerTool = "manager_blocker"

// SlashPrompt begins the prompt of /blockers in OpenCode.
const SlashPrompt = "The user has run the command /blockers."

// ClarifyPrompt marks the prompt of `/blockers clarify`: the agent's asks then go to the user who typed it.
const ClarifyPrompt = "<output>\nCLARIFY\n"

// Diversion is what diverted agents are told; zero: the agent is not diverted.
type Diversion struct {
	Tool string // for reporting blockers
	// Marker is the word for "nothing is left to do". It counts as the [Promise], which is then not asked for.
	Marker string
	Soft   []string // choices left to the agent, such as "a name"
}

// Word returns what an agent writes when everything is done, and only then.
func (d Diversion) Word() string { return cmp.Or(d.Marker, Promise) }

// BlockerCall is a call of [BlockerTool] as its session shows it.
type BlockerCall struct {
	BlockerScope
	CallID string
	Input  json.RawMessage
}

// BlockerBook keeps the blockers of one sub-task or, outside of runs, of one session.
type BlockerBook interface {
	// Blockers returns those that are stored, oldest first.
	Blockers(ctx context.Context) ([]Blocker, error)
	// Raise stores a blocker, and returns it with its id.
	Raise(ctx context.Context, b Blocker) (Blocker, error)
	// EndWait stores that the session does not wait for the answer any more; replied: as it has it.
	EndWait(ctx context.Context, id string, replied bool) error
}

// Ruling is the reply to an ask.
type Ruling struct {
	BlockerID string   // of the record; empty if the policy allows the ask without one
	Reply     AskReply // diverted | allowed | waiting
	// Message is for the agent; for an answered question, the answer.
	Message string
	Until   time.Time // end of the wait
	ByUser  bool      // the user answered or skipped it
}

// AsksPermission reports whether the blocker records a permission request.
func (b *Blocker) AsksPermission() bool { return b.Ask != nil && b.Ask.Kind == AskPermission }

// BlockerRaised records a sub-task's blocker: raised by its agent, before the turn's end, or because of the verdict. Without a
// sub-task it is a question of the plan that was answered by default.
type BlockerRaised struct {
	AttemptRef
	Blocker Blocker `json:"blocker"` // its id is given when this is applied
}

// WaitEnded says that the session of an attempt no longer waits for the answer to a blocker: it has it, or it was
// aborted, or another client of the server replied.
type WaitEnded struct {
	AttemptRef
	BlockerID string `json:"blocker_id"`
	Replied   bool   `json:"replied,omitempty"` // see [Blocker.Replied]
}

// BlockerSettled gives the user's answer to the sub-task, and queues it again if it waited for nothing else. Without one it
// answers a question of the plan, also after the end.
type BlockerSettled struct {
	SubTaskID string        `json:"sub_task_id,omitempty"`
	BlockerID string        `json:"blocker_id"`
	Status    BlockerStatus `json:"status"` // answered | skipped
	Answer    string        `json:"answer,omitempty"`
	Allowed   bool          `json:"allowed,omitempty"`
}

// AwaitedBy returns the unsettled hard blockers of an attempt, without those left aside, given by their ids.
func (t *SubTask) AwaitedBy(attempt int, aside ...string) []Blocker {
	return filter(t.Blockers, func(b Blocker) bool {
		return b.Hard && b.Attempt == attempt && !b.Status.Settled() && !slices.Contains(aside, b.ID)
	})
}

// Awaited says what the user has to answer before a sub-task continues. There must be at least one blocker.
func Awaited(blockers []Blocker) string {
	question := strings.Join(strings.Fields(blockers[0].Question), " ") // an agent's text must not add lines
	text := fmt.Sprintf("an answer to %s: %s", blockers[0].ID, question)
	if more := len(blockers) - 1; more > 0 {
		text += fmt.Sprintf("; and to %d more", more)
	}
	return text
}

// Raised returns the blockers of a boulder: of its plan, and of its sub-tasks in plan order.
func Raised(of Boulder, tasks []*SubTask) []Blocker {
	all := slices.Clone(of.Blockers)
	for _, t := range tasks {
		all = append(all, t.Blockers...)
	}
	return all
}

// SettledSince returns the blockers that the user settled after event afterSeq.
func (t *SubTask) SettledSince(afterSeq uint64) []Blocker {
	return filter(t.Blockers, func(b Blocker) bool { return b.Status.Settled() && b.Seq > afterSeq })
}

func (s *State) blockerRaised(e *Event, b BlockerRaised) error {
	if b.SubTaskID == "" {
		return s.questionRaised(e, b)
	}
	o, err := s.at(b.AttemptRef, AttemptExecuting, AttemptMonitoring)
	if err != nil {
		return err
	}
	t, raised := o.SubTask, b.Blocker
	if raised.ID == "" || raised.Question == "" {
		return fmt.Errorf("blocker %q has no id or no question", raised.ID)
	}
	if o.Attempt.Status == AttemptMonitoring && o.Turn.Verdict == nil {
		return fmt.Errorf("turn %d of %q is over, and was not judged", o.Turn.Number, t.ID)
	}
	if t.blocker(raised.ID) >= 0 {
		return fmt.Errorf("blocker %s of sub-task %q is known", raised.ID, t.ID)
	}
	if raised.Status != BlockerPending {
		return fmt.Errorf("blocker %s is %q: it was just raised", raised.ID, raised.Status)
	}
	raised.BoulderID, raised.SubTaskID, raised.Attempt = e.BoulderID, t.ID, b.Attempt
	t.Blockers, t.UpdatedAt, o.Attempt.UpdatedAt = append(slices.Clone(t.Blockers), raised), e.Time, e.Time
	s.Boulder.BlockersRaised++
	if o.Attempt.Status == AttemptMonitoring { // the counted verdicts led to this blocker
		t.NeedsUser = 0
	}
	return nil
}

func (s *State) blockerSettled(e *Event, b BlockerSettled) error {
	if b.SubTaskID == "" {
		return s.questionSettled(e, b)
	}
	t, err := s.unfinished(b.SubTaskID)
	if err != nil {
		return err
	}
	i := t.blocker(b.BlockerID)
	if i < 0 {
		return fmt.Errorf("sub-task %q has no blocker %q", t.ID, b.BlockerID)
	}
	if err := t.Blockers[i].settleable(b); err != nil {
		return err
	}
	waited := len(t.AwaitedBy(t.Attempts)) > 0
	t.Blockers = slices.Clone(t.Blockers)
	t.Blockers[i].settle(e, b)
	t.UpdatedAt = e.Time
	if t.Parked && waited && len(t.AwaitedBy(t.Attempts)) == 0 {
		if s.Boulder.WaitsFor == t.ID {
			s.Boulder.Reason = fmt.Sprintf("%s is %s: sub-task %q can continue", b.BlockerID, b.Status, t.ID)
		}
		s.requeue(e, t, nil)
	}
	return nil
}

func (s *State) waitEnded(e *Event, o *Open, b WaitEnded) error {
	t := o.SubTask
	i := t.blocker(b.BlockerID)
	switch {
	case i < 0 || t.Blockers[i].Attempt != b.Attempt:
		return fmt.Errorf("attempt %d of sub-task %q has no blocker %q", b.Attempt, t.ID, b.BlockerID)
	case !b.Replied && t.Blockers[i].Until.IsZero():
		return fmt.Errorf("nothing waits for blocker %s", b.BlockerID)
	case b.Replied && !t.Blockers[i].Status.Settled():
		return fmt.Errorf("blocker %s has no answer that the session could have", b.BlockerID)
	}
	t.Blockers = slices.Clone(t.Blockers)
	of := &t.Blockers[i]
	of.Replied, of.Gone = of.Replied || b.Replied, of.Gone || !b.Replied
	t.UpdatedAt = e.Time
	return nil
}

// unanswered refuses to continue an attempt that awaits an answer, unless the question is left aside.
func unanswered(o *Open, aside ...string) error {
	if awaited := o.SubTask.AwaitedBy(o.Attempt.Attempt, aside...); len(awaited) > 0 {
		return fmt.Errorf("attempt %d of %q waits for an answer to %s", o.Attempt.Attempt, o.SubTask.ID, awaited[0].ID)
	}
	return nil
}

func (t *SubTask) blocker(id string) int {
	return slices.IndexFunc(t.Blockers, func(b Blocker) bool { return b.ID == id })
}
