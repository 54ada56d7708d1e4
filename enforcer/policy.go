package enforcer

import "time"

// Policy are the numbers of the gates. Start from [WatchPolicy], [LoopPolicy] or [RunPolicy].
//
// A zero duration switches its gate off. A count is how many are too many: a gate shuts when count >= its number, so 0
// allows none; a negative number switches the gate off.
type Policy struct {
	// Idle is how long a session must be idle before it is told to go on, unless it claims to be done. 30 s in watch
	// (seed 000).
	Idle time.Duration `yaml:"idle,off"`
	// AbortWindow is how long nothing is sent after an abort that was not the manager's own. 3 s (seed 004).
	AbortWindow time.Duration `yaml:"abort_window,off"`
	// Cooldown is how long nothing is sent after a continuation, doubled with each failure, up to an hour. 30 s in watch
	// and loop (seeds 000, 004).
	Cooldown time.Duration `yaml:"cooldown,off"`
	// MaxFailures is how many continuations in a row may bring no progress, and how often the same may be said without a
	// tool call. 5 (seeds 000, 004).
	MaxFailures int `yaml:"failures,off"`
	// FailureReset is when the failures are forgotten, after the last of MaxFailures. 5 minutes in watch (seed 004); off:
	// never.
	FailureReset time.Duration `yaml:"failure_reset,off"`
	// Resets is how often they are forgotten while there is no progress; without a bound a dead session would be prompted
	// for ever. 1 in watch: an outage of half an hour is survived, and the pointless prompts are at most 10.
	Resets int `yaml:"resets,off"`
	// Countdown is shown as a toast before each continuation, and any sign of life ends it. 2 s in watch (seed 004).
	Countdown time.Duration `yaml:"countdown,off"`
	// MaxIterations is how many continuations a person's prompt may bring. 100 in watch and loop (issue 5).
	MaxIterations int `yaml:"iterations"`
	// Compactions is how many of them without progress make a fresh session better. 2 (SEMANTICS §5).
	Compactions int `yaml:"compactions,off"`
	// Admission is how long a continuation may show no sign of a turn before it is looked for. 10 s, as in [Rules].
	Admission time.Duration
	// SameAnswers is how many continuations within SameWindow may get the same answer, but for ids, times and numbers. After
	// progress they count anew. At most 50. 5 (seed 003, FR-018).
	SameAnswers int
	// SameWindow is the time from the first to the last of them. 2 minutes (seed 003, FR-018).
	SameWindow time.Duration
	// Marker is a word of the agent's that counts as the promise and as a claim to be done, [boulder.DoneMarker] where agents
	// are asked for it. Defaults to none.
	Marker string
	// Continuous goes on improving when everything holds, until a bound is reached.
	Continuous bool
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
