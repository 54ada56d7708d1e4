package enforcer

import "time"

// Policy are the numbers of the gates. Start from [WatchPolicy], [LoopPolicy] or [RunPolicy]; they are those of seeds 000
// and 004, and SEMANTICS §5 and §6.
//
// A zero duration switches its gate off. A count is how many are too many: a gate shuts when count >= its number, so 0
// allows none; a negative number switches the gate off.
type Policy struct {
	Idle         time.Duration `yaml:"idle,off"`          // before a session is told to go on, unless it claims to be done
	AbortWindow  time.Duration `yaml:"abort_window,off"`  // after an abort that was not the manager's own
	Cooldown     time.Duration `yaml:"cooldown,off"`      // after a continuation, doubled with each failure, up to an hour
	MaxFailures  int           `yaml:"failures,off"`      // in a row, or equal answers without a tool call
	FailureReset time.Duration `yaml:"failure_reset,off"` // after which they are forgotten; off: never
	// How often they are forgotten while there is no progress; without a bound a dead session would be prompted for ever.
	// With 1 an outage of half an hour is survived, and the pointless prompts are at most 10.
	Resets        int           `yaml:"resets,off"`
	Countdown     time.Duration `yaml:"countdown,off"`   // of the toast before each continuation; any sign of life ends it
	MaxIterations int           `yaml:"iterations"`      // continuations that a person's prompt may bring
	Compactions   int           `yaml:"compactions,off"` // without progress, which make a fresh session better
	Admission     time.Duration // how long a continuation may show no sign of a turn before it is looked for
	// How many continuations within SameWindow may get the same answer, but for ids, times and numbers; at most 50. After
	// progress they count anew (seed 003, FR-018).
	SameAnswers int
	SameWindow  time.Duration
	// Marker is a word of the agent's that counts as the promise and as a claim to be done, [boulder.DoneMarker] where agents
	// are asked for it.
	Marker     string
	Continuous bool // goes on improving when everything holds, until a bound is reached
}

// WatchPolicy is for sessions of people.
func WatchPolicy() Policy {
	return Policy{
		Idle: 30 * time.Second, AbortWindow: 3 * time.Second, Cooldown: 30 * time.Second,
		MaxFailures: 5, FailureReset: 5 * time.Minute, Resets: 1, Countdown: 2 * time.Second,
		MaxIterations: 100, Compactions: 2, Admission: 10 * time.Second, SameAnswers: 5, SameWindow: 2 * time.Minute,
	}
}

// LoopPolicy is for the one session of `manager loop`: nobody types into it, so there is nothing to wait for but the
// back-off, and it has to end.
func LoopPolicy() Policy {
	return Policy{
		AbortWindow: 3 * time.Second, Cooldown: 30 * time.Second, MaxFailures: 5,
		MaxIterations: 100, Compactions: 2, Admission: 10 * time.Second, SameAnswers: 5, SameWindow: 2 * time.Minute,
	}
}

// RunPolicy is for an attempt of a run: it goes on at once, and gives up early, because a fresh session or a new plan
// may do better. Failures are turns in a row without a tool call: the third is told to act, a fourth is stuck
// (SEMANTICS §5); progress itself is judged. Four continuations make the five evaluations of SEMANTICS §4.
func RunPolicy() Policy {
	return Policy{
		AbortWindow: 3 * time.Second, MaxFailures: 4, MaxIterations: 4, Compactions: 2, Admission: 10 * time.Second,
		SameAnswers: 5, SameWindow: 2 * time.Minute,
	}
}
