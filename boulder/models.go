package boulder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Models name a model (provider/model), and after it those that take its place, in this order, while it cannot be used:
// separated by commas, in JSON and files also as a list. Each may have its effort (provider/model#high). Empty: none is named.
type Models string

// DefaultEffort is the effort of a model that is asked for none.
const DefaultEffort = "default"

// Entries returns the models in order, with their efforts.
func (m Models) Entries() []string {
	if m == "" {
		return nil
	}
	return strings.Split(string(m), ",")
}

// All returns the models in order, without efforts.
func (m Models) All() []string {
	all := m.Entries()
	for i, entry := range all {
		all[i], _, _ = strings.Cut(entry, "#")
	}
	return all
}

// String returns the models for users.
func (m Models) String() string { return strings.Join(m.Entries(), ", ") }

// First returns the model to use while it can be used, or "".
func (m Models) First() string {
	if all := m.All(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Effort returns the effort of one of the models; empty: none is named.
func (m Models) Effort(model string) string {
	if i := slices.Index(m.All(), model); i >= 0 {
		_, effort, _ := strings.Cut(m.Entries()[i], "#")
		return effort
	}
	return ""
}

// With returns m with an effort for those that have none.
func (m Models) With(effort string) Models {
	all := m.Entries()
	for i, entry := range all {
		if !strings.Contains(entry, "#") {
			all[i] = WithEffort(entry, effort)
		}
	}
	return JoinModels(all...)
}

// WithEffort returns a model with its effort, as [Models] name it.
func WithEffort(model, effort string) string {
	if effort == "" {
		return model
	}
	return model + "#" + effort
}

// Bare returns m without efforts.
func (m Models) Bare() Models { return JoinModels(m.All()...) }

// Or returns m with the fallback behind it, if it names one model only.
func (m Models) Or(fallback Models) Models {
	all := m.Entries()
	if len(all) != 1 {
		return m
	}
	for i, model := range fallback.All() {
		if model != m.First() {
			all = append(all, fallback.Entries()[i])
		}
	}
	return JoinModels(all...)
}

// JoinModels returns the models as one value.
func JoinModels(all ...string) Models { return Models(strings.Join(all, ",")) }

// MarshalJSON writes one model as a text, several as a list.
func (m Models) MarshalJSON() ([]byte, error) {
	if all := m.Entries(); len(all) > 1 {
		return json.Marshal(all)
	}
	return json.Marshal(string(m))
}

// UnmarshalJSON reads both.
func (m *Models) UnmarshalJSON(data []byte) error {
	var all []string
	if json.Unmarshal(data, &all) == nil {
		*m = JoinModels(all...)
		return nil
	}
	return json.Unmarshal(data, (*string)(m))
}

// Wanted returns the models that the sub-task may run with, the preferred one first.
func (t *SubTask) Wanted() Models { return cmp.Or(t.Models, Models(WithEffort(t.Model, t.Effort))) }

// Ledger returns the model that plans and judges now, provider/model; empty: OpenCode's default.
func (b *Boulder) Ledger() string { return cmp.Or(b.LedgerNow, b.LedgerModel.First()) }

// Outage says why a model cannot be used, so that the next one of a list takes its place. Others do not know it: they wait
// for the model as after any [Cooled].
type Outage string

const (
	OutCredit   Outage = "credit"        // no credit; without a known end, as are the next two
	OutKey      Outage = "key"           // the key is refused, for all models of the provider
	OutUnknown  Outage = "unknown_model" // the provider does not have it
	OutLimit    Outage = "limit"         // a limit that ends too late to wait for, or that holds longer than was said
	OutOverload Outage = "overload"      // an overload that did not end with the cool-down
)

// OutageOf returns the outage without a known end that an error of a model means, or "".
func OutageOf(err error) Outage {
	switch {
	case errors.Is(err, ErrNoCredit):
		return OutCredit
	case errors.Is(err, ErrKey):
		return OutKey
	case errors.Is(err, ErrUnknownModel):
		return OutUnknown
	}
	return ""
}

// NoEnd is [Cooldown].Until of an outage without a known end. JSON has no later year.
func NoEnd() time.Time { return time.Date(noYear, 6, 1, 0, 0, 0, 0, time.UTC) }

const noYear = 9999

// Unnamed returns why a model cannot be used without its name in front, for where that is said anyway.
func Unnamed(model, reason string) string { return strings.TrimPrefix(reason, model+": ") }

// Endless reports whether the end is not known.
func (c Cooldown) Endless() bool { return c.Until.Year() == noYear }

// Awaited reports whether prompts wait for the end. The refusal of a model that has no other behind it may end the run
// instead: what resumes it asks the model again.
func (c Cooldown) Awaited() bool { return !c.Lifted.IsZero() || c.Since.Before(c.Until) }

// Switched has sub-tasks, or the ledgers, use another model of their list: the next one while a model cannot be used, or an
// earlier one again. Sub-tasks at work take it with their next prompt; they go back to an earlier one with their next attempt.
type Switched struct {
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason"`
	Until  time.Time `json:"until,omitzero"` // when From can be used again, as far as it is known
	// Probe: a single attempt finds out whether To can be used again. The others follow once it has answered.
	Probe    bool     `json:"probe,omitempty"`
	Ledger   bool     `json:"ledger,omitempty"` // both ledgers switch, and no sub-task
	SubTasks []string `json:"sub_tasks,omitempty"`
}

func (s *State) switched(e *Event, b Switched) error {
	if b.Ledger {
		if b.From != s.Boulder.Ledger() || !slices.Contains(s.Boulder.LedgerModel.All(), b.To) {
			return fmt.Errorf("the ledgers use %q of %s, and cannot switch from %q to %q", s.Boulder.Ledger(), s.Boulder.LedgerModel, b.From, b.To)
		}
		s.wakeLedgers(e.Time)
		s.Boulder.LedgerNow, s.Boulder.Switches = b.To, s.Boulder.Switches+1
		return nil
	}
	for _, id := range b.SubTasks {
		switch t, err := s.unfinished(id); {
		case err != nil:
			return err
		case t.Model != b.From || !slices.Contains(t.Models.All(), b.To):
			return fmt.Errorf("sub-task %q uses %q of %s, and cannot switch from %q to %q", id, t.Model, t.Models, b.From, b.To)
		}
	}
	for _, id := range b.SubTasks {
		t := s.byID[id]
		t.Model, t.Effort, t.UpdatedAt = b.To, t.Models.Effort(b.To), e.Time
		switch o := s.open[id]; {
		case o == nil:
		case o.Attempt.Status == AttemptQueued:
			s.instead(o)
		case e.Time.Before(o.Attempt.NotBefore): // it was refused, so its turn is not at work
			s.takeModel(e, o)
		}
	}
	s.sortQueues()
	s.Boulder.Switches++
	return nil
}

// instead gives an attempt the model of its sub-task, and notes what that is used instead of.
func (s *State) instead(o *Open) {
	a := o.Attempt
	if cool := s.Boulder.Cooldowns[a.Model]; cool.Out != "" {
		a.Instead = append(slices.Clip(a.Instead), Instead{a.Model, cool.Reason})
	}
	a.use(o.SubTask)
	a.Instead = filter(a.Instead, func(i Instead) bool { return i.Model != a.Model })
}

func (a *Attempt) use(t *SubTask) {
	if a.Model != t.Model || a.Effort != t.Effort {
		a.NoEffort, a.Instead = false, filter(a.Instead, func(i Instead) bool { return !strings.Contains(i.Model, "#") })
	}
	a.Model, a.Effort = t.Model, t.Effort
}

// Runs returns the model that the attempt uses, with its effort, as [Models] name it.
func (a *Attempt) Runs() string { return WithEffort(a.Model, a.EffortUsed()) }

// EffortUsed returns the effort that the model is prompted with; empty: its default.
func (a *Attempt) EffortUsed() string {
	if a.NoEffort {
		return ""
	}
	return a.Effort
}

// wakeLedgers ends the waits for the model of the ledgers.
func (s *State) wakeLedgers(now time.Time) {
	earlier := func(t *time.Time) {
		if now.Before(*t) {
			*t = now
		}
	}
	for _, o := range s.live {
		if o.Attempt.Status == AttemptMonitoring {
			earlier(&o.Attempt.NotBefore)
		}
	}
	earlier(&s.Boulder.PlanFaults.NotBefore)
	if r := s.Boulder.Replan; r != nil {
		earlier(&r.NotBefore)
	}
}
