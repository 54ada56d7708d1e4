package fakeopencode

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// BehaviourVar is the environment variable from which the program reads a [Behaviour], as JSON.
const BehaviourVar = "FAKE_OPENCODE"

// Behaviour says in what a server differs from 2.0.21. The zero value: in nothing.
type Behaviour struct {
	Version string        // Defaults to 2.0.21.
	Older   bool          // it knows the API of before 2.0.4 only, of which /api/health is here
	Retry   time.Duration // before a call of the model is tried again; it doubles. Defaults to 2 s.

	RepeatRuns     bool // a message id whose turn was interrupted or failed runs again, as in 1.18
	KeepRejectText bool // the text of a rejection reaches the model, whichever tool it is about
	FullCatalogue  bool // lists are complete from the first answer on
	LastPage       bool // the last page of a list has no cursor
	EventLocations bool // events of an execution name the directory as well
	NoWebPage      bool // unknown paths are 404
	IgnoreRules    bool // permissions at the creation of a session are ignored
}

// withDefaults fills in what is not set.
func (b Behaviour) withDefaults() Behaviour {
	b.Version, b.Retry = cmp.Or(b.Version, "2.0.21"), cmp.Or(b.Retry, 2*time.Second)
	return b
}

// Env is the entry of an environment that has the program behave like this.
func (b Behaviour) Env() string {
	data, err := json.Marshal(b)
	if err != nil {
		panic(err) // plain fields always marshal
	}
	return BehaviourVar + "=" + string(data)
}

// parseBehaviour reads the value of [BehaviourVar]; empty is the zero value.
func parseBehaviour(value string) (b Behaviour, err error) {
	if value == "" {
		return b, nil
	}
	if err := json.Unmarshal([]byte(value), &b); err != nil {
		return b, fmt.Errorf("read %s: %w", BehaviourVar, err)
	}
	return b, nil
}
