package boulder

import "fmt"

// CheckRequest is the input for the last question of a boulder: is the whole request met?
type CheckRequest struct {
	Model string `json:",omitempty"` // to ask, provider/model; empty: the ledger's own

	Task        string
	Goal        string
	Constraints []string     // from the user, verbatim
	Rows        []Obligation // of the plan, but those that the request puts off
	Review      []Finding    // of a look at the changes, those with a place
	Notes       []string     // notes and answers of the user, oldest first
	Questions   []Question   // of the plan; Notes have the user's answers
	SubTasks    []SubTask    // those of the current plan
	Extended    bool         // what was missing once has been added to the plan, and is done
}

// RequestCheck is the Progress Ledger's answer to a [CheckRequest], after normalization.
type RequestCheck struct {
	// Rows are the things that the request asks for or forbids. There are none if it is Unchecked.
	Rows    []RequestRow `json:"rows,omitempty"`
	Missing []string     `json:"missing,omitempty"` // what is left to do; empty if and only if all rows are met
	Answer  string       `json:"answer,omitempty"`  // to the user, see [TaskComplete]
	// Unchecked says why there is no usable answer of a model: the gates alone decided.
	Unchecked string `json:"unchecked,omitempty"`
}

// MaxAdded bounds the sub-tasks that an extension adds for what is missing of the request.
const MaxAdded = 3

// RequestRow is one thing that the request asks for or forbids.
type RequestRow struct {
	Request  string `json:"request"`  // in the words of the request
	Evidence string `json:"evidence"` // what shows that it is met, or what is missing
	Met      bool   `json:"met"`
}

// RequestChecked records whether the whole request is met.
type RequestChecked struct {
	RequestCheck
	Cooldown *Cooldown `json:"cooldown,omitempty" log:"only"` // of the ledger's model; nil: unchanged
}

// Checked returns the check of the request, or nil if there was none since the last attempt started.
func (b *Boulder) Checked() *RequestCheck {
	if b.Check == nil || b.CheckedAt != b.Attempts {
		return nil
	}
	return b.Check
}

// Written returns the answer to the user if a model wrote it, or "".
func (b *Boulder) Written() string { return written(b.Answer, b.Summary) }

// Written returns the answer if a model wrote it, or "".
func (b *TaskComplete) Written() string { return written(b.Answer, b.Summary) }

func written(answer, summary string) string {
	if answer == summary {
		return ""
	}
	return answer
}

func (s *State) requestChecked(e *Event, b RequestChecked) error {
	unmet := 0
	for _, row := range b.Rows {
		if !row.Met {
			unmet++
		}
	}
	switch {
	case s.Boulder.Status != Running && s.Boulder.Status != Paused:
		return fmt.Errorf("boulder is %s", s.Boulder.Status)
	case len(s.SubTasks) == 0 || !s.AllOver() || s.Boulder.Replan != nil:
		return fmt.Errorf("%d attempts are open, and there may be a replan", len(s.open))
	case (len(b.Rows) == 0) != (b.Unchecked != ""), (unmet == 0) != (len(b.Missing) == 0):
		return fmt.Errorf("of %d rows %d are not met, and %d things are missing", len(b.Rows), unmet, len(b.Missing))
	}
	s.Boulder.Check, s.Boulder.CheckedAt, s.Boulder.PlanFaults = &b.RequestCheck, s.Boulder.Attempts, PlanFaults{}
	s.regrown(e, s.Boulder.Ledger(), b.Cooldown)
	return nil
}

// extensionStarted counts a replan that replaces nothing, and adds what the check of the request found missing.
func (s *State) extensionStarted(b ReplanStarted) error {
	check := s.Boulder.Checked()
	switch {
	case s.Boulder.Status != Running:
		return fmt.Errorf("boulder is %s", s.Boulder.Status)
	case check == nil || len(check.Missing) == 0 || !s.AllOver() || s.Boulder.Replan != nil:
		return fmt.Errorf("nothing is known to be missing, or %d attempts are open, or a replan is being made", len(s.open))
	case b.SubTaskID != "" || len(b.Replaces) > 0:
		return fmt.Errorf("an extension replaces nothing")
	case b.Number != s.Boulder.Extensions+1:
		return fmt.Errorf("extension %d does not follow %d", b.Number, s.Boulder.Extensions)
	}
	s.Boulder.Extensions++
	s.Boulder.Replan = &Replanning{Reason: b.Reason, Missing: b.Missing}
	return nil
}

// ReplanNumber returns the replan's number within the run, or that of the extension.
func (b *Boulder) ReplanNumber() int {
	if b.Replan != nil && b.Replan.Extension() {
		return b.Extensions
	}
	return b.Replans
}

// Extension reports whether the replan adds what is missing of the request, and replaces nothing.
func (r *Replanning) Extension() bool { return len(r.Missing) > 0 }
