package boulder

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

func (s *State) noted(e *Event, b Noted) error {
	if b.Text == "" || utf8.RuneCountInString(b.Text) > maxNote {
		return fmt.Errorf("a note has 1 to %d characters", maxNote)
	}
	if _, err := s.unfinished(b.SubTaskID); b.SubTaskID != "" && err != nil {
		return err
	}
	notes := append(slices.Clone(s.Boulder.Notes), Note{Seq: e.Seq, SubTaskID: b.SubTaskID, Text: b.Text, At: e.Time})
	s.Boulder.Notes = notes[max(0, len(notes)-maxNotes):]
	return nil
}

func (s *State) sessionLeft(_ *Event, b SessionLeft) error {
	left := b.LeftSession
	switch known := slices.Contains(s.Boulder.LeftSessions, left); {
	case b.SessionID == "" || known != b.Stopped:
		return fmt.Errorf("session %q cannot be left, or stopped, now", b.SessionID)
	case b.Stopped:
		s.Boulder.LeftSessions = without(s.Boulder.LeftSessions, []LeftSession{left})
	default:
		s.Boulder.LeftSessions = append(slices.Clone(s.Boulder.LeftSessions), left)
	}
	return nil
}

func (s *State) archived(e *Event, b Archived) error {
	switch {
	case !s.Boulder.Status.Terminal():
		return fmt.Errorf("boulder %s is %s: only what is over can be archived", s.Boulder.ID, s.Boulder.Status)
	case b.Archived != s.Boulder.ArchivedAt.IsZero():
		return fmt.Errorf("boulder %s: archived is already %t", s.Boulder.ID, b.Archived)
	}
	s.Boulder.ArchivedAt = time.Time{}
	if b.Archived {
		s.Boulder.ArchivedAt = e.Time
	}
	return nil
}

// reopened reverts an end for the user, but not in a boulder that is over, nor where something builds on that end.
func (s *State) reopened(e *Event, b Reopened) error {
	t, err := s.known(b.SubTaskID)
	switch {
	case err != nil:
		return err
	case !t.Parked && t.Status != SubTaskFailed && t.Status != SubTaskCancelled:
		return fmt.Errorf("sub-task %q is %s", t.ID, t.Status)
	}
	if err := s.undoable(t); err != nil {
		return err
	}
	if d := s.impossibleDependency(t); d != nil {
		return fmt.Errorf("sub-task %q depends on %q, which is %s", t.ID, d.ID, d.Status)
	}
	s.Root(t).Judged = 0
	t.Tries, t.Lost, t.Stalls, t.LastResult, t.Summary, t.EndSeq, t.Track = 0, 0, 0, "", "", 0, nil
	t.Unresolved = 0
	s.setSubTask(e, t, SubTaskPending, "")
	if s.Boulder.WaitsFor == t.ID {
		s.Boulder.Reason = fmt.Sprintf("sub-task %q can continue: %s", t.ID, b.Reason)
	}
	if s.ready(t) { // otherwise it was cancelled before its turn came
		s.begin(e, t)
	}
	s.release(e, t)
	return nil
}

// undoable refuses to revert an end during a replan: what that releases may depend on what is being replaced.
func (s *State) undoable(t *SubTask) error {
	if t.neverSatisfies() && s.Boulder.Replan != nil {
		return fmt.Errorf("sub-task %q is %s, and a replan is being made", t.ID, t.Status)
	}
	return nil
}

// neverSatisfies reports whether dependents of the sub-task can currently never run.
func (t *SubTask) neverSatisfies() bool {
	switch t.Status {
	case SubTaskFailed, SubTaskCancelled, SubTaskSuperseded:
		return true
	case SubTaskBlocked:
		return !t.Parked
	}
	return false
}

// satisfies reports whether a dependency with this status lets its dependents run.
func (s SubTaskStatus) satisfies() bool { return s == SubTaskCompleted || s == SubTaskSkipped }

// droppable returns why a sub-task cannot be skipped or cancelled, or nil. The scheduler may only skip a pending
// sub-task that nothing unfinished depends on, because the goal is achieved without it. The user may also end others.
func (s *State) droppable(b SubTaskDone) error {
	t, err := s.known(b.SubTaskID)
	switch {
	case err != nil:
		return err
	case b.Completed || b.AttemptStatus != AttemptCancelled:
		return fmt.Errorf("sub-task %q cannot be %s with an attempt that is %s", t.ID, b.Status, b.AttemptStatus)
	case b.ByUser && b.Status == SubTaskSkipped:
		if t.Status.satisfies() || t.Status == SubTaskSuperseded {
			return fmt.Errorf("sub-task %q is %s", t.ID, t.Status)
		}
		return s.undoable(t)
	case b.ByUser:
		if t.Status.Terminal() {
			return fmt.Errorf("sub-task %q is %s", t.ID, t.Status)
		}
		return nil
	case t.Status != SubTaskPending || b.Status != SubTaskSkipped:
		return fmt.Errorf("sub-task %q is %s, and only the user can make it %s", t.ID, t.Status, b.Status)
	}
	for _, id := range t.Blocks {
		if s.byID[id].Unfinished() {
			return fmt.Errorf("sub-task %q depends on %q", id, t.ID)
		}
	}
	return nil
}
