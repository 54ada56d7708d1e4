package boulder

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// OrderKind is what the user can order.
type OrderKind string

const (
	OrderPause  OrderKind = "pause"  // start nothing new; with Now, stop running turns
	OrderResume OrderKind = "resume" // end a pause
	OrderCancel OrderKind = "cancel" // end the sub-task, or the boulder without one, for good
	OrderRetry  OrderKind = "retry"  // give a sub-task a fresh session with all its tries
	OrderSkip   OrderKind = "skip"   // continue as if the sub-task were done
	OrderNote   OrderKind = "note"   // tell the agents and the judge something

	OrderApprove OrderKind = "approve" // agree to the waiting plan or replan, and its gates
	OrderDecline OrderKind = "decline" // refuse the waiting replan; a plan is refused by a cancel
	OrderRevise  OrderKind = "revise"  // have the ledger change the waiting plan or replan as Text says

	OrderEdit OrderKind = "edit" // adopt the user's edit of the plan, or another model for sub-tasks without one

	OrderSettle OrderKind = "settle" // answer a blocker of a sub-task, or continue without an answer

	OrderArchive   OrderKind = "archive"   // hide a finished boulder from lists
	OrderUnarchive OrderKind = "unarchive" // show it again

	OrderLanded OrderKind = "landed" // record what became of an isolated boulder's results

	OrderRedo OrderKind = "redo" // do completed sub-tasks again
	OrderKeep OrderKind = "keep" // accept a sub-task's result as up to date
)

// Order is an order of the user, from any terminal. It is done when the database's holder has its effect on disk.
type Order struct {
	Do        OrderKind `json:"do"`
	SubTaskID string    `json:"sub_task_id,omitempty"` // of cancel, retry and skip; optional for a note and a settle
	Text      string    `json:"text,omitempty"`        // of note and revise; of redo, for each; of settle the answer, if any
	Now       bool      `json:"now,omitempty"`         // of a pause
	BlockerID string    `json:"blocker_id,omitempty"`  // of a settle
	Allowed   bool      `json:"allowed,omitempty"`     // of a settle: the permission is granted
	Landed    *Landed   `json:"landed,omitempty"`      // of landed
	Redone    *Redone   `json:"redone,omitempty"`      // of redo
	Kept      *Kept     `json:"kept,omitempty"`        // of keep
	// Hash is what the user was shown: of approve, decline and revise [Snapshot.Asked], with an edit the current plan's hash.
	Hash string `json:"hash,omitempty"`
	Plan *Plan  `json:"plan,omitempty"` // of approve, revise, edit and retry: as the user edited it
	// Model and Effort are of edit, see [ModelSet].
	Model  Models `json:"model,omitempty"`
	Effort string `json:"effort,omitempty"`
}

const maxNote = 4_000 // characters; a longer text belongs in a file that the note names

const maxNotes = 30 // newest notes in the state; the log keeps all

// Validate refuses an incomplete or contradictory order.
func (o Order) Validate() error {
	is := func(kinds ...OrderKind) bool { return slices.Contains(kinds, o.Do) }
	takesText := is(OrderNote, OrderRevise) || is(OrderSettle, OrderRedo) && o.Text != ""
	agrees := is(OrderApprove, OrderDecline, OrderRevise)
	whole := agrees || is(OrderPause, OrderResume, OrderArchive, OrderUnarchive, OrderLanded, OrderRedo, OrderKeep, OrderEdit)
	edits := is(OrderEdit, OrderRetry) && o.Plan != nil
	switch {
	case whole && o.SubTaskID != "":
		return fmt.Errorf("%s is for the whole boulder, not for a sub-task", o.Do)
	case !whole && !is(OrderCancel, OrderRetry, OrderSkip, OrderNote, OrderSettle):
		return fmt.Errorf("there is no order %q", o.Do)
	case is(OrderLanded) != (o.Landed != nil) || is(OrderRedo) != (o.Redone != nil) || is(OrderKeep) != (o.Kept != nil):
		return fmt.Errorf("%s has to say what has landed, is redone or kept, and nothing else may", o.Do)
	case (agrees || edits) != (o.Hash != "") || !is(OrderApprove, OrderRevise) && !edits && o.Plan != nil:
		return fmt.Errorf("%s has to say which plan was shown, and nothing else may", o.Do)
	case is(OrderEdit) && o.Plan == nil && o.Model == "" && o.Effort == "", !is(OrderEdit) && (o.Model != "" || o.Effort != ""):
		return fmt.Errorf("%s has to say what changes, and nothing else names a model or an effort", o.Do)
	case is(OrderSettle) && o.BlockerID == "":
		return fmt.Errorf("%s needs a blocker", o.Do)
	case is(OrderRetry, OrderSkip) && o.SubTaskID == "":
		return fmt.Errorf("%s needs a sub-task", o.Do)
	case !takesText && o.Text != "":
		return fmt.Errorf("%s takes no text", o.Do)
	case takesText && strings.TrimSpace(o.Text) == "":
		return fmt.Errorf("a %s needs a text", o.Do)
	case utf8.RuneCountInString(o.Text) > maxNote:
		return fmt.Errorf("the text has more than %d characters: put it into a file of the project and name that", maxNote)
	case !is(OrderSettle) && (o.BlockerID != "" || o.Allowed):
		return fmt.Errorf("%s is not about a blocker", o.Do)
	case o.Now && !is(OrderPause):
		return fmt.Errorf("%s is never put off, so it has no \"now\"", o.Do)
	}
	return nil
}

// Note is what the user told agents and judge. It counts from the next prompt and the next judgement.
type Note struct {
	Seq       uint64    `json:"seq"` // of the event
	SubTaskID string    `json:"sub_task_id,omitempty"`
	Text      string    `json:"text"`
	At        time.Time `json:"at"`
}

// NotesFor returns the notes for a sub-task that came after event afterSeq, oldest first.
func (b *Boulder) NotesFor(subTaskID string, afterSeq uint64) []string {
	var texts []string
	for _, n := range b.Notes {
		if n.Seq > afterSeq && (n.SubTaskID == "" || n.SubTaskID == subTaskID) {
			texts = append(texts, n.Text)
		}
	}
	return texts
}

// Tally counts sub-tasks by status, so that a list needs no other record. Superseded ones do not count.
type Tally struct {
	Planned    int `json:"planned"`
	InProgress int `json:"in_progress,omitempty"`
	Completed  int `json:"completed,omitempty"`
	Skipped    int `json:"skipped,omitempty"`
	Failed     int `json:"failed,omitempty"`
	Blocked    int `json:"blocked,omitempty"`
	Cancelled  int `json:"cancelled,omitempty"`
}

func tallyOf(subTasks []*SubTask) Tally {
	var t Tally
	for _, st := range subTasks {
		t.add(st.Status, 1)
	}
	return t
}

func (t *Tally) add(status SubTaskStatus, n int) {
	counts := map[SubTaskStatus]*int{
		SubTaskInProgress: &t.InProgress, SubTaskCompleted: &t.Completed, SubTaskSkipped: &t.Skipped,
		SubTaskFailed: &t.Failed, SubTaskBlocked: &t.Blocked, SubTaskCancelled: &t.Cancelled,
	}
	if count := counts[status]; count != nil {
		*count += n
	}
	if status != SubTaskSuperseded {
		t.Planned += n
	}
}

// Fork names the boulder that this one was forked from.
type Fork struct {
	BoulderID string   `json:"boulder_id"`
	SubTasks  []string `json:"sub_tasks"` // redone from these on
}

// Inherited is what a sub-task of a fork takes over from the original, which completed it.
type Inherited struct {
	Summary  string   `json:"summary"`
	Output   string   `json:"output,omitempty"`
	Files    []string `json:"files,omitempty"`
	Baseline []Gate   `json:"baseline,omitempty"` // [SubTask.Baseline], for the no_worse gates
}
