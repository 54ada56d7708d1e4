package boulder

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// resumed resets the previous process's faults, which the user has seen to, and waits prolonged by a clock set back.
func (s *State) resumed(e *Event, b Resumed) error {
	if b.Iterations != 0 {
		if s.Boulder.Loop == nil || b.Iterations < 1 {
			return fmt.Errorf("a bound of %d turns is for a loop, and at least 1", b.Iterations)
		}
		loop := *s.Boulder.Loop
		loop.Iterations = b.Iterations
		s.Boulder.Loop = &loop
	}
	if s.Boulder.LedgerModel = cmp.Or(b.LedgerModel, s.Boulder.LedgerModel); !slices.Contains(s.Boulder.LedgerModel.All(), s.Boulder.LedgerNow) {
		s.Boulder.LedgerNow = ""
	}
	s.Boulder.Diverted = s.Boulder.Diverted || b.Diverted
	behind := e.Time.Before(s.Boulder.UpdatedAt)
	if behind {
		for model, c := range s.Boulder.Cooldowns {
			c.Until = e.Time
			s.Boulder.Cooldowns[model] = c
		}
	}
	for _, o := range s.Live() {
		a := o.Attempt
		// Neither a model's cool-down nor a loop's pause before a prompt is a fault of the previous process.
		cools := a.Status != AttemptMonitoring && e.Time.Before(s.Boulder.Cooldowns[a.Model].Until)
		pauses := s.Boulder.Loop != nil && a.Status == AttemptExecuting && o.Turn.MessageID == "" && a.Troubles == 0 && !behind
		waits := e.Time.Before(a.NotBefore) && (cools || pauses)
		if a.Troubles = 0; !waits {
			a.recovered()
		}
		s.bookRunningTurn(o, s.Boulder.ClockAt) // the previous process's last sign of life
		if !waits && a.Status == AttemptExecuting && o.Turn.MessageID != "" {
			a.RunningSince = e.Time
		}
		a.UpdatedAt = e.Time
	}
	s.Boulder.PlanFaults = PlanFaults{}
	if r := s.Boulder.Replan; r != nil {
		r.Troubles, r.NotBefore = 0, time.Time{}
	}
	return nil
}

// clockMoved keeps a clock jump out of working times. Deadlines follow a clock that was set back, so that no wait gets
// longer. Time that the machine slept counts as waiting for a provider.
func (s *State) clockMoved(_ *Event, b ClockMoved) error {
	for _, o := range s.Live() {
		if !o.Attempt.RunningSince.IsZero() {
			o.Attempt.RunningSince = o.Attempt.RunningSince.Add(b.By)
		}
		o.Attempt.NotBefore = setBack(o.Attempt.NotBefore, b.By)
	}
	for model, c := range s.Boulder.Cooldowns {
		c.Until, c.Reset, c.Lifted = setBack(c.Until, b.By), setBack(c.Reset, b.By), setBack(c.Lifted, b.By)
		s.Boulder.Cooldowns[model] = c
	}
	s.Boulder.PlanFaults.NotBefore = setBack(s.Boulder.PlanFaults.NotBefore, b.By)
	if r := s.Boulder.Replan; r != nil {
		r.NotBefore = setBack(r.NotBefore, b.By)
	}
	return nil
}

func setBack(t time.Time, by time.Duration) time.Time {
	if t.IsZero() || by >= 0 {
		return t
	}
	return t.Add(by)
}

func (s *State) nudged(e *Event, o *Open, b Nudged) error {
	if o.Turn.Number != b.Turn || b.MessageID == "" {
		return fmt.Errorf("a nudge for turn %d of %q, which is at turn %d, with message id %q",
			b.Turn, b.SubTaskID, o.Turn.Number, b.MessageID)
	}
	nudge := Nudge{Rule: b.Rule, MessageID: b.MessageID, Prompt: b.Prompt, At: e.Time}
	o.Turn.Nudges = append(slices.Clone(o.Turn.Nudges), nudge)
	return nil
}

func (s *State) cooled(_ *Event, b Cooled) error {
	if !b.valid() {
		return fmt.Errorf("model %q cannot cool down with a limit of %d of %d", b.Model, b.Limit, b.Full)
	}
	if !b.Lifted.IsZero() {
		s.lift(b.Model, s.Boulder.Cooldowns[b.Model].Until, b.Until)
	}
	s.setCooldown(b.Model, b.Cooldown)
	return nil
}

// lift ends waits for a model that last no longer than its cool-down, which ends at end.
func (s *State) lift(model string, end, now time.Time) {
	if model == s.Boulder.Ledger() && now.Before(s.Boulder.PlanFaults.NotBefore) && !end.Before(s.Boulder.PlanFaults.NotBefore) {
		s.Boulder.PlanFaults.NotBefore = now
	}
	for _, o := range s.Live() {
		if a := o.Attempt; s.ModelFor(o) == model && a.Reason != "" && now.Before(a.NotBefore) && !end.Before(a.NotBefore) {
			a.NotBefore = now
		}
	}
	if r := s.Boulder.Replan; r != nil && model == s.Boulder.Ledger() && now.Before(r.NotBefore) && !end.Before(r.NotBefore) {
		r.NotBefore = now
	}
}

func (s *State) setCooldown(model string, c Cooldown) {
	if s.Boulder.Cooldowns == nil {
		s.Boulder.Cooldowns = map[string]Cooldown{}
	}
	s.Boulder.Cooldowns[model] = c
}

// regrown stores a model's new cool-down; nil: unchanged. Once the limit has grown back it is removed, but a lifted one
// not before its original end: other boulders may still consider it active.
func (s *State) regrown(e *Event, model string, c *Cooldown) {
	switch {
	case c == nil:
	case c.Limit >= c.Full && !e.Time.Before(c.Lifted):
		delete(s.Boulder.Cooldowns, model)
	default:
		s.setCooldown(model, *c)
	}
}

func (s *State) budgetSet(_ *Event, b BudgetSet) error {
	if err := b.Budget.Validate(); err != nil {
		return err
	}
	of, used := &s.Boulder.Budget, s.Boulder.Usage
	if b.SubTaskID != "" {
		t, err := s.unfinished(b.SubTaskID)
		if err != nil {
			return err
		}
		of, used = &t.Budget, t.Usage
	}
	for _, o := range s.live {
		if b.SubTaskID == "" || b.SubTaskID == o.SubTask.ID {
			used = used.Add(o.Attempt.Running())
		}
	}
	b.Budget.Unpriced = used.Unpriced
	*of = &b.Budget
	s.Boulder.Warned = filter(s.Boulder.Warned, func(key string) bool { return !strings.HasPrefix(key, b.SubTaskID+"/") })
	return nil
}

// Key returns the warning's entry in [Boulder.Warned].
func (b BudgetWarning) Key() string { return b.SubTaskID + "/" + b.Dimension }

func (s *State) budgetWarning(_ *Event, b BudgetWarning) error {
	if slices.Contains(s.Boulder.Warned, b.Key()) {
		return fmt.Errorf("the warning %q was given", b.Key())
	}
	if _, err := s.known(b.SubTaskID); b.SubTaskID != "" && err != nil {
		return err
	}
	s.Boulder.Warned = append(slices.Clone(s.Boulder.Warned), b.Key())
	return nil
}

func (s *State) parked(e *Event, o *Open, b Parked) error {
	t := o.SubTask
	switch {
	case len(t.AwaitedBy(b.Attempt)) > 0:
		t.Before = b.Digest
	case b.Digest != "":
		t.Failures = append(slices.Clone(t.Failures), b.Digest)
	}
	s.finish(e, o, AttemptCancelled, b.Reason)
	s.setSubTask(e, t, SubTaskBlocked, b.Reason)
	t.Parked, t.AtLimit, t.Program, t.NeedsUser = true, b.AtLimit, b.Program, 0
	return nil
}

func (s *State) unparked(e *Event, b Unparked) error {
	t := s.byID[b.SubTaskID]
	if t == nil || !t.Parked {
		return fmt.Errorf("sub-task %q does not wait for the user", b.SubTaskID)
	}
	if awaited := t.AwaitedBy(t.Attempts); len(awaited) > 0 {
		return fmt.Errorf("sub-task %q waits for an answer to %s", b.SubTaskID, awaited[0].ID)
	}
	s.requeue(e, t, b.Track)
	return nil
}

func (s *State) requeue(e *Event, t *SubTask, track json.RawMessage) {
	t.Track, t.Unresolved = track, 0
	s.setSubTask(e, t, SubTaskPending, "")
	s.enqueue(e, t)
}
