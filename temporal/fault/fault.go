// Package fault carries the core's errors through payloads: the message, and what errors.Is and errors.As find.
package fault

import (
	"errors"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// Fault is a serialized error. Nil means no error.
type Fault struct {
	Message string   `json:"message"`
	Is      []string `json:"is,omitempty"` // names of sentinels

	Trouble  *Trouble      `json:"trouble,omitempty"`    // for a [boulder.TroubleError]
	Budget   *string       `json:"budget,omitempty"`     // for an [orchestrator.BudgetError]: its sub-task id
	BadSetUp *boulder.Gate `json:"bad_set_up,omitempty"` // for a [boulder.SetUpError]
}

// Trouble holds the fields of a [boulder.TroubleError].
type Trouble struct {
	Kind       boulder.TroubleKind `json:"kind"`
	Model      string              `json:"model,omitempty"`
	RetryAfter time.Duration       `json:"retry_after,omitempty"`
	Guessed    bool                `json:"guessed,omitempty"`
}

// sentinels lists the core's error sentinels, the most specific first. The names are in histories.
var sentinels = []struct {
	name string
	err  error
}{
	{"trouble", boulder.ErrTrouble}, {"session_lost", boulder.ErrSessionLost}, {"no_credit", boulder.ErrNoCredit},
	{"key", boulder.ErrKey}, {"unknown_model", boulder.ErrUnknownModel}, {"slots", boulder.ErrSlots}, {"fatal", boulder.ErrFatal}, {"no_new_plan", boulder.ErrNoNewPlan},
	{"refused", boulder.ErrRefused}, {"finished", boulder.ErrFinished}, {"running", boulder.ErrRunning},
	{"not_found", boulder.ErrNotFound}, {"unstartable", orchestrator.ErrUnstartable}, {"loop_limit", orchestrator.ErrLoopLimit},
	{"waiting", orchestrator.ErrWaiting}, {"declined", orchestrator.ErrDeclined}, {"unplanned", orchestrator.ErrUnplanned},
	{"unowned", orchestrator.ErrUnowned},
	{"stopped", orchestrator.ErrStopped}, {"cancelled", orchestrator.ErrCancelled}, {"no_fork", orchestrator.ErrNoFork}, {"anew", boulder.ErrAnew},
}

// Of converts an error to a fault; nil to nil.
func Of(err error) *Fault {
	if err == nil {
		return nil
	}
	f := &Fault{Message: err.Error()}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			f.Is = append(f.Is, s.name)
		}
	}
	if t, ok := errors.AsType[*boulder.TroubleError](err); ok {
		f.Trouble = &Trouble{t.Kind, t.Model, t.RetryAfter, t.Guessed}
	}
	if b, ok := errors.AsType[*orchestrator.BudgetError](err); ok {
		f.Budget = &b.SubTaskID
	}
	if s, ok := errors.AsType[*boulder.SetUpError](err); ok {
		f.BadSetUp = &s.Gate
	}
	return f
}

// Err converts a fault back to an error; nil to nil.
func (f *Fault) Err() error {
	if f == nil {
		return nil
	}
	return &Carried{f}
}

// Carried is the error rebuilt from a [Fault].
type Carried struct{ *Fault }

func (c *Carried) Error() string { return c.Message }

// Unwrap returns the sentinels and typed errors that the original error wrapped.
func (c *Carried) Unwrap() (causes []error) {
	for _, s := range sentinels {
		for _, name := range c.Is {
			if name == s.name {
				causes = append(causes, s.err)
			}
		}
	}
	words := errors.New(c.Message)
	if t := c.Trouble; t != nil {
		causes = append(causes, &boulder.TroubleError{Kind: t.Kind, Model: t.Model, RetryAfter: t.RetryAfter, Guessed: t.Guessed, Err: words})
	}
	if c.Budget != nil {
		causes = append(causes, &orchestrator.BudgetError{SubTaskID: *c.Budget, Reason: c.Message})
	}
	if c.BadSetUp != nil {
		causes = append(causes, &boulder.SetUpError{Gate: *c.BadSetUp})
	}
	return causes
}
