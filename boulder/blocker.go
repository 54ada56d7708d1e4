package boulder

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// BlockerCategory says what kind of thing a blocker is about.
type BlockerCategory string

const (
	BlockerPermission   BlockerCategory = "permission"
	BlockerArchitecture BlockerCategory = "architecture"
	BlockerSecurity     BlockerCategory = "security"
	BlockerDestructive  BlockerCategory = "destructive"
	BlockerQuestion     BlockerCategory = "question"
	BlockerOther        BlockerCategory = "other"
	// Of the manager:

	BlockerMerge  BlockerCategory = "merge"  // a result that cannot be integrated
	BlockerEscape BlockerCategory = "escape" // an agent edited the project itself, and not its slot
)

// BlockerCategories lists the categories in the order in which they are told to agents.
func BlockerCategories() []BlockerCategory {
	return []BlockerCategory{
		BlockerPermission, BlockerArchitecture, BlockerSecurity, BlockerDestructive, BlockerQuestion, BlockerOther,
	}
}

// BlockerStatus says whether the user has seen to a blocker.
type BlockerStatus string

const (
	BlockerPending  BlockerStatus = "pending"  // not answered yet
	BlockerAnswered BlockerStatus = "answered" // terminal
	BlockerSkipped  BlockerStatus = "skipped"  // the user gives no answer: go on without; terminal
)

// Settled reports whether nothing is waited for any more.
func (s BlockerStatus) Settled() bool { return s == BlockerAnswered || s == BlockerSkipped }

// Blocker is what only the user can answer: an agent's question, or a permission that it asked for. Its home is the
// database of package blockers; a boulder knows of those of its own sub-tasks what it needs, see [RaisedBlocker].
type Blocker struct {
	ID string `json:"id"` // B1, B2, …: within the project
	BlockerScope

	Category BlockerCategory `json:"category"`
	Question string          `json:"question"`
	Context  string          `json:"context"`
	// Hard: work on the sub-task cannot go on without the answer. The others are soft: the agent chose for itself.
	Hard            bool     `json:"blocks_progress"`
	Options         []string `json:"options,omitempty"`
	ChosenOption    string   `json:"chosen_option,omitempty"`
	ChosenReasoning string   `json:"chosen_reasoning,omitempty"`
	Ask             *Ask     `json:"ask,omitempty"` // what OpenCode asked; nil where the agent called the blocker tool

	Status    BlockerStatus `json:"status"`
	Answer    string        `json:"answer,omitempty"`
	Allowed   bool          `json:"allowed,omitempty"` // the permission that was asked for is given, for the rest of the sub-task
	Until     time.Time     `json:"until,omitzero"`    // so long the session waits for the user's answer; then it is diverted
	CreatedAt time.Time     `json:"created_at"`
	SettledAt time.Time     `json:"settled_at,omitzero"`
}

// Replied reports whether the agent got what the user said as the reply to its ask: it was said in time, and the session was
// there to hear it. With a permission that is given OpenCode takes no text.
func (b *Blocker) Replied() bool {
	inSession := b.Ask != nil && (b.Ask.Reply == ReplyDiverted || b.Ask.Reply == ReplyAllowed)
	return inSession && b.Status.Settled() && !b.SettledAt.After(b.Until) && (!b.Allowed || b.Answer == "")
}

// AskKind is what OpenCode asks the user for.
type AskKind string

const (
	AskPermission AskKind = "permission"
	AskQuestion   AskKind = "question"
)

// Ask is a request of OpenCode that was answered in the user's stead.
type Ask struct {
	Kind      AskKind `json:"kind"`
	RequestID string  `json:"request_id"` // OpenCode's
	// Permission and Patterns are of a permission, as OpenCode names them: bash, [git push *].
	Permission string   `json:"permission,omitempty"`
	Patterns   []string `json:"patterns,omitempty"`
	// Tool and Arguments are of the call that waited for it, where it is known.
	Tool      string   `json:"tool,omitempty"`
	Arguments string   `json:"arguments,omitempty"`
	Reply     AskReply `json:"reply"` // what the agent got
}

// AskReply is how an ask was answered.
type AskReply string

const (
	ReplyDiverted AskReply = "diverted" // refused, with the word to go on with something else
	ReplyAllowed  AskReply = "allowed"
	ReplyWaiting  AskReply = "waiting" // until [Blocker.Until] the user may answer
	ReplyGone     AskReply = "gone"    // the session did not wait any longer: aborted, or swept away with another refusal
)

// BlockerScope says where something came up. Outside of a run there is a session alone.
type BlockerScope struct {
	BoulderID string `json:"boulder_id,omitempty"`
	SubTaskID string `json:"sub_task_id,omitempty"`
	Attempt   int    `json:"attempt,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	// Diverted is that of the boulder.
	Diverted bool `json:"-"`
}

// BlockerTool is the tool with which agents report blockers, as OpenCode names the tool "blocker" of the server "manager".
const BlockerTool = "manager_blocker"

// SlashPrompt begins the prompt of /blockers in OpenCode.
const SlashPrompt = "The user has run the command /blockers."

// ClarifyPrompt stands in the prompt of `/blockers clarify`: what the agent asks then is for the user who typed it.
const ClarifyPrompt = "<output>\nCLARIFY\n"

// Diversion is what agents are told that are diverted; zero: they are not.
type Diversion struct {
	Tool string // with which they report blockers
	// Marker is the word with which they say that nothing is left to be done. It counts as the [Promise], which they are not
	// asked for.
	Marker string
	Soft   []string // what they may choose themselves, such as "a name"
}

// Word is what an agent writes, and only then, when everything is done.
func (d Diversion) Word() string { return cmp.Or(d.Marker, Promise) }

// BlockerCall is a call of that tool, as the session shows it that makes it.
type BlockerCall struct {
	BlockerScope
	CallID string
	Input  json.RawMessage
}

// Ruling is what to reply to an ask.
type Ruling struct {
	BlockerID string   // of its record; empty: what the policy simply allows leaves none
	Reply     AskReply // diverted | allowed | waiting
	// Message is for the agent; of a question that is answered, the answer.
	Message string
	Until   time.Time // of a wait
	ByUser  bool      // the user has answered or skipped it
}

// AsksPermission reports whether it records that OpenCode wanted a permission for an agent.
func (b *Blocker) AsksPermission() bool { return b.Ask != nil && b.Ask.Kind == AskPermission }

// RaisedBlocker is a blocker as its sub-task keeps it.
type RaisedBlocker struct {
	ID       string        `json:"id"`
	Escape   bool          `json:"escape,omitempty"` // it is a [BlockerEscape]
	Attempt  int           `json:"attempt"`
	Hard     bool          `json:"blocks_progress,omitempty"`
	Question string        `json:"question"`         // at most 500 characters: it is rewritten with every step
	Choice   string        `json:"choice,omitempty"` // of a soft one; at most 500 characters
	Status   BlockerStatus `json:"status"`
	Answer   string        `json:"answer,omitempty"`
	Allowed  bool          `json:"allowed,omitempty"`
	Seq      uint64        `json:"seq,omitempty"` // event that settled it: news for prompts that come later; 0 before
}

// BlockerRaised says that a blocker of a sub-task was recorded: by its agent, and then it is committed before the turn's end
// is, or because of the verdict on the turn.
type BlockerRaised struct {
	AttemptRef
	Blocker Blocker `json:"blocker"`
}

// BlockerSettled hands the user's answer to the sub-task. If that waited for nothing else, it is queued again.
type BlockerSettled struct {
	SubTaskID string        `json:"sub_task_id"`
	BlockerID string        `json:"blocker_id"`
	Status    BlockerStatus `json:"status"` // answered | skipped
	Answer    string        `json:"answer,omitempty"`
	Allowed   bool          `json:"allowed,omitempty"`
}

// AwaitedBy are the hard blockers that an attempt left and that are not settled.
func (t *SubTask) AwaitedBy(attempt int) []RaisedBlocker {
	return filter(t.Blockers, func(b RaisedBlocker) bool { return b.Hard && b.Attempt == attempt && !b.Status.Settled() })
}

// Awaited says what the user has to answer before a sub-task goes on; at least one blocker.
func Awaited(blockers []RaisedBlocker) string {
	question := strings.Join(strings.Fields(blockers[0].Question), " ") // an agent's: it makes no lines of its own
	text := fmt.Sprintf("an answer to %s: %s", blockers[0].ID, question)
	if more := len(blockers) - 1; more > 0 {
		text += fmt.Sprintf("; and to %d more", more)
	}
	return text
}

// SettledSince are the blockers that the user settled after the event with the number afterSeq.
func (t *SubTask) SettledSince(afterSeq uint64) []RaisedBlocker {
	return filter(t.Blockers, func(b RaisedBlocker) bool { return b.Status.Settled() && b.Seq > afterSeq })
}

func (s *State) blockerRaised(e *Event, o *Open, b BlockerRaised) error {
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
	kept := RaisedBlocker{
		ID: raised.ID, Escape: raised.Category == BlockerEscape, Attempt: b.Attempt, Hard: raised.Hard, Status: BlockerPending,
		Question: excerpt(raised.Question), Choice: excerpt(raised.ChosenOption),
	}
	if raised.Status.Settled() { // the user was faster
		kept.Status, kept.Answer, kept.Allowed, kept.Seq = raised.Status, raised.Answer, raised.Allowed, e.Seq
	}
	t.Blockers, t.UpdatedAt = append(slices.Clone(t.Blockers), kept), e.Time
	if o.Attempt.Status == AttemptMonitoring { // the verdicts have led to it
		t.NeedsUser = 0
	}
	return nil
}

// blockerSettled queues the sub-task when nothing that its newest attempt left is open any more.
func (s *State) blockerSettled(e *Event, b BlockerSettled) error {
	t, err := s.unfinished(b.SubTaskID)
	if err != nil {
		return err
	}
	i := t.blocker(b.BlockerID)
	switch {
	case i < 0:
		return fmt.Errorf("sub-task %q has no blocker %q", t.ID, b.BlockerID)
	case t.Blockers[i].Status.Settled():
		return fmt.Errorf("blocker %s is %s already", b.BlockerID, t.Blockers[i].Status)
	case !b.Status.Settled():
		return fmt.Errorf("a blocker cannot be settled as %q", b.Status)
	case b.Status == BlockerAnswered && b.Answer == "" && !b.Allowed:
		return fmt.Errorf("the answer to blocker %s is empty", b.BlockerID)
	case utf8.RuneCountInString(b.Answer) > maxNote:
		return fmt.Errorf("the answer to blocker %s has more than %d characters", b.BlockerID, maxNote)
	}
	waited := len(t.AwaitedBy(t.Attempts)) > 0
	t.Blockers = slices.Clone(t.Blockers)
	of := &t.Blockers[i]
	of.Status, of.Answer, of.Allowed, of.Seq = b.Status, b.Answer, b.Allowed, e.Seq
	t.UpdatedAt = e.Time
	if t.Parked && waited && len(t.AwaitedBy(t.Attempts)) == 0 {
		if s.Boulder.WaitsFor == t.ID {
			s.Boulder.Reason = fmt.Sprintf("%s is %s: sub-task %q can go on", b.BlockerID, b.Status, t.ID)
		}
		s.again(e, t, nil)
	}
	return nil
}

// unanswered refuses what would keep an attempt going that has left something open that it cannot do without.
func unanswered(o *Open) error {
	if awaited := o.SubTask.AwaitedBy(o.Attempt.Attempt); len(awaited) > 0 {
		return fmt.Errorf("attempt %d of %q waits for an answer to %s", o.Attempt.Attempt, o.SubTask.ID, awaited[0].ID)
	}
	return nil
}

// maxKept is how much of a question, and of a choice, a sub-task keeps, in characters.
const maxKept = 500

func excerpt(text string) string {
	if all := []rune(text); len(all) > maxKept {
		return string(all[:maxKept-1]) + "…"
	}
	return text
}

func (t *SubTask) blocker(id string) int {
	return slices.IndexFunc(t.Blockers, func(b RaisedBlocker) bool { return b.ID == id })
}
