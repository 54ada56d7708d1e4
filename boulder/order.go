package boulder

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// OrderKind is what the user can tell a boulder to do.
type OrderKind string

const (
	OrderPause  OrderKind = "pause"  // start nothing new; with Now, stop what is at work
	OrderResume OrderKind = "resume" // take a pause back
	OrderCancel OrderKind = "cancel" // end the sub-task, or without one the boulder, for good
	OrderRetry  OrderKind = "retry"  // give a sub-task a fresh session, with all its tries
	OrderSkip   OrderKind = "skip"   // go on as if the sub-task were done
	OrderNote   OrderKind = "note"   // tell the agents and the judge something

	OrderApprove OrderKind = "approve" // agree to the plan or the replan that waits for it, and to its gates
	OrderDecline OrderKind = "decline" // refuse the replan that waits; a plan is refused with a cancel

	OrderSettle OrderKind = "settle" // answer a blocker of a sub-task, or say that there will be no answer

	OrderArchive   OrderKind = "archive"   // put what is over out of sight
	OrderUnarchive OrderKind = "unarchive" // bring it back

	OrderLanded OrderKind = "landed" // note what became of the results of an isolated boulder

	OrderRedo OrderKind = "redo" // do completed sub-tasks again
	OrderKeep OrderKind = "keep" // take the result of a sub-task as up to date
)

// Order is the user's word, from this terminal or another one. What it does is written into the boulder's log by whoever
// holds the database; it is done when it is on disk.
type Order struct {
	Do        OrderKind `json:"do"`
	SubTaskID string    `json:"sub_task_id,omitempty"` // of cancel, retry, skip and settle; a note may have one
	Text      string    `json:"text,omitempty"`        // of a note; of a redo one for each; of a settle the answer, none: go on without
	Now       bool      `json:"now,omitempty"`         // of a pause
	BlockerID string    `json:"blocker_id,omitempty"`  // of a settle
	Allowed   bool      `json:"allowed,omitempty"`     // of a settle: the permission that was asked for is given
	Landed    *Landed   `json:"landed,omitempty"`      // of landed
	Redone    *Redone   `json:"redone,omitempty"`      // of redo
	Kept      *Kept     `json:"kept,omitempty"`        // of keep
	Hash      string    `json:"hash,omitempty"`        // of approve and decline: what the user was shown: [Snapshot.Asked]
	Plan      *Plan     `json:"plan,omitempty"`        // of an approve: the user's own, instead of the one that was shown
}

// maxNote is the longest note, in characters: the user's aside. A longer text belongs into a file that it names.
const maxNote = 4_000

// maxNotes is how many notes a boulder keeps at hand, the newest; all of them stay in its log.
const maxNotes = 30

// Validate refuses an order that means nothing.
func (o Order) Validate() error {
	is := func(kinds ...OrderKind) bool { return slices.Contains(kinds, o.Do) }
	takesText := o.Do == OrderNote || is(OrderSettle, OrderRedo) && o.Text != ""
	agrees := is(OrderApprove, OrderDecline)
	whole := agrees || is(OrderPause, OrderResume, OrderArchive, OrderUnarchive, OrderLanded, OrderRedo, OrderKeep)
	switch {
	case whole && o.SubTaskID != "":
		return fmt.Errorf("%s is for the whole boulder, not for a sub-task", o.Do)
	case !whole && !is(OrderCancel, OrderRetry, OrderSkip, OrderNote, OrderSettle):
		return fmt.Errorf("there is no order %q", o.Do)
	case is(OrderLanded) != (o.Landed != nil) || is(OrderRedo) != (o.Redone != nil) || is(OrderKeep) != (o.Kept != nil):
		return fmt.Errorf("%s has to say what has landed, is redone or kept, and nothing else may", o.Do)
	case agrees != (o.Hash != "") || !is(OrderApprove) && o.Plan != nil:
		return fmt.Errorf("%s has to say which plan was shown, and nothing else may", o.Do)
	case is(OrderSettle) && o.BlockerID == "":
		return fmt.Errorf("%s needs a blocker", o.Do)
	case is(OrderRetry, OrderSkip, OrderSettle) && o.SubTaskID == "":
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

// Note is what the user told the agents and the judge. It counts from the next prompt and the next judgement on.
type Note struct {
	Seq       uint64    `json:"seq"` // of the event
	SubTaskID string    `json:"sub_task_id,omitempty"`
	Text      string    `json:"text"`
	At        time.Time `json:"at"`
}

// NotesFor are the notes that concern a sub-task and were made after the event with the number afterSeq, oldest first.
func (b *Boulder) NotesFor(subTaskID string, afterSeq uint64) []string {
	var texts []string
	for _, n := range b.Notes {
		if n.Seq > afterSeq && (n.SubTaskID == "" || n.SubTaskID == subTaskID) {
			texts = append(texts, n.Text)
		}
	}
	return texts
}

// Tally counts the sub-tasks of a boulder by status, so that a list needs no other record. Superseded ones do not count.
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

// Fork says of which boulder another one is a copy that goes another way.
type Fork struct {
	BoulderID string `json:"boulder_id"`
	SubTaskID string `json:"sub_task_id"` // from which on it is done again
}

// Inherited is what a sub-task of a fork takes over from the original, in which it was completed.
type Inherited struct {
	Summary string   `json:"summary"`
	Output  string   `json:"output,omitempty"`
	Files   []string `json:"files,omitempty"`
	// Baseline is that of the sub-task: by it its gates of no_worse are judged again.
	Baseline []Gate `json:"baseline,omitempty"`
}
