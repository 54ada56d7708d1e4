package enforcer

import (
	"regexp"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// Policy has the numbers of the gates (seeds 000, 004; docs/rules.md). See [WatchPolicy], [LoopPolicy], [RunPolicy].
//
// A zero duration is off. A gate shuts when its count reaches the number: 0 allows none, a negative number is off.
type Policy struct {
	Idle         time.Duration `yaml:"idle,off"`          // before a session is continued, unless it claims to be done
	AbortWindow  time.Duration `yaml:"abort_window,off"`  // after an abort that was not the manager's
	Cooldown     time.Duration `yaml:"cooldown,off"`      // after a continuation, doubled by each failure, at most 1 h
	MaxFailures  int           `yaml:"failures,off"`      // in a row, or equal answers without a tool call
	FailureReset time.Duration `yaml:"failure_reset,off"` // after which failures are forgotten; off: never
	// How often failures are forgotten without progress. Unbounded, a dead session would be prompted for ever; 1
	// survives an outage of half an hour, with at most 10 useless prompts.
	Resets        int           `yaml:"resets,off"`
	Countdown     time.Duration `yaml:"countdown,off"`   // of the toast before a continuation; a sign of life ends it
	MaxIterations int           `yaml:"iterations"`      // continuations after a prompt of the user
	Compactions   int           `yaml:"compactions,off"` // without progress, after which a fresh session is better
	Admission     time.Duration // how long a continuation may show no sign of a turn
	Stuck         int           // turns in a row that the judge calls stuck
	// How many continuations within SameWindow may get the same answer, apart from ids, times and numbers; at most 50.
	// Progress restarts the count (seed 003, FR-018).
	SameAnswers int           `yaml:"same_answers,off"`
	SameWindow  time.Duration `yaml:"same_window,off"`
	// Marker is the agent's word that counts as the promise and as a claim to be done ([boulder.Diversion]); empty:
	// none is asked for. An agent that does not give it is asked again after [Policy.recheck].
	Marker string
	// SkipAgents are the agents whose sessions are left alone: those that plan with the user and end turns with a
	// question, and OpenCode's internal ones (seed 004).
	SkipAgents []string `yaml:"skip_agents"`
	Continuous bool     // keeps improving when everything holds, until a bound is reached
}

// recheck is how long an agent rests that ended its turn without the marker. It replaces Idle and the cool-down, which
// would outgrow SameWindow before the same answer came SameAnswers times. Half of the window is for the turns.
func (p Policy) recheck(otherwise time.Duration) time.Duration {
	if p.Marker == "" || p.SameAnswers < 1 || p.SameWindow <= 0 {
		return otherwise
	}
	return min(otherwise, p.SameWindow/time.Duration(2*p.SameAnswers))
}

// WatchPolicy is for interactive sessions.
func WatchPolicy() Policy {
	return Policy{
		Idle: 30 * time.Second, AbortWindow: 3 * time.Second, Cooldown: 30 * time.Second,
		MaxFailures: 5, FailureReset: 5 * time.Minute, Resets: 1, Countdown: 2 * time.Second,
		MaxIterations: 100, Compactions: 2, Admission: 10 * time.Second, SameAnswers: 5, SameWindow: 2 * time.Minute,
		SkipAgents: []string{"plan", "compaction", "title", "summary"},
	}
}

// LoopPolicy is for the session of `manager loop`. No user types into it: it waits only for the back-off, and must end.
func LoopPolicy() Policy {
	return Policy{
		AbortWindow: 3 * time.Second, Cooldown: 30 * time.Second, MaxFailures: 5,
		MaxIterations: 100, Compactions: 2, Admission: 10 * time.Second, SameAnswers: 5, SameWindow: 2 * time.Minute,
	}
}

// RunPolicy is for an attempt of a run. It continues at once and gives up early, because a fresh session or a new plan
// may do better. Failures are turns in a row without a tool call: the third is told to act, a fourth is stuck
// (docs/rules.md). Progress itself is judged. Four continuations make five judged turns.
func RunPolicy() Policy {
	return Policy{
		AbortWindow: 3 * time.Second, MaxFailures: 4, MaxIterations: 4, Compactions: 2, Admission: 10 * time.Second,
		SameAnswers: 5, SameWindow: 2 * time.Minute,
	}
}

// Rules are the numbers by which a running turn is judged. Start from [DefaultRules]; docs/rules.md lists all.
//
// A zero duration is off. A rule fires when its count reaches the number: 0 and 1 allow none, a negative number is off.
type Rules struct {
	// How long an accepted prompt may show no sign of a turn. The first prompt in a directory takes 3 s (measured). A
	// prompt that arrives just as the turn before fails is swallowed (observed).
	Admission   time.Duration `yaml:"admission,off"`
	Silence     time.Duration `yaml:"silence,off"`      // of a busy session
	ToolSilence time.Duration `yaml:"tool_silence,off"` // while a tool runs
	WallClock   time.Duration `yaml:"wall_clock,off"`   // of all turns of an attempt together
	Offline     time.Duration `yaml:"offline,off"`      // without a connection to the server

	// How many times in a row OpenCode may retry a provider that refuses or cannot be reached. Five take about a minute
	// (measured: 2, 4, 9, 18 s between them). If nothing listens at the address, OpenCode retries for ever.
	ProviderRetries int           `yaml:"provider_retries,off"`
	ProviderWait    time.Duration `yaml:"provider_wait,off"` // for one retry: a longer wait should not hold a slot

	Window      int              `yaml:"window"`           // the newest calls, which are compared; below 1: the default
	SameOutput  int              `yaml:"same_output,off"`  // the same call and output, with no file edited between
	SamePolling int              `yaml:"same_polling,off"` // the same for commands that wait for something
	Polling     []*regexp.Regexp `yaml:"polling"`          // such commands; nil: sleep, wait, tail -f, status …
	// The same call fails in the same way: when to tell the agent to find another way (off: stop it without a nudge),
	// and when to stop it. Calls made before the agent saw the nudge do not count, unless there are twice the number.
	SameError     int `yaml:"same_error,off"`
	SameErrorStop int `yaml:"same_error_stop,off"`
	// The same for messages in a row without a tool call, within a turn. OpenCode prompts a model whose finish reason
	// it does not know without a bound (observed: 120 calls in 15 s).
	Idle        int `yaml:"idle,off"`
	IdleStop    int `yaml:"idle_stop,off"`
	Alternate   int `yaml:"alternate,off"`   // calls of two kinds in turns (A B A B …), at least 4
	Compactions int `yaml:"compactions,off"` // without a new successful tool call between

	// Up to how many output tokens a turn without tools counts as cut off. A turn of two seemed finished (seed 002).
	MinOutput int `yaml:"min_output,off"`
}

// DefaultRules returns the numbers of the stuck rules in docs/rules.md.
func DefaultRules() Rules {
	return Rules{
		Admission: 10 * time.Second, Silence: 5 * time.Minute, ToolSilence: 15 * time.Minute, WallClock: 30 * time.Minute,
		Offline: time.Minute, ProviderRetries: 5, ProviderWait: time.Minute, Window: 30, SameOutput: 4, SamePolling: 10,
		SameError: 3, SameErrorStop: 4, Idle: 3, IdleStop: 4, Alternate: 6, Compactions: 2, MinOutput: 3,
	}
}

func reached(count, number int) bool { return number >= 0 && count >= number }

// defaultPolling matches shell commands that are made to be repeated with the same answer until something is ready.
var defaultPolling = text.Regexp(strings.Join([]string{
	`\bsleep\s+["'$]*\d`,
	`(?:^|[;&|]\s*)(?:wait|jobs)\b`,
	`\btail\s(?:.*\s)?(?:-[a-zA-Z]*[fF]|--follow)`,
	`(?:^|[;&|]\s*)watch\s`,
	`\b(?:kubectl|oc|helm)\s+(?:.*\s)?(?:get|rollout|wait|describe|logs|status|top)\b`,
	`\b(?:docker|podman)(?:[- ]compose)?\s+(?:container\s+)?(?:ps|logs|inspect|wait|stats|top)\b`,
	`\bgh\s+(?:run|pr|workflow|release)\s+(?:watch|view|list|checks|status)\b`,
	`\bglab\s+(?:ci|pipeline)\s+(?:status|view|list)\b`,
	`\b(?:curl|wget)\b.*(?:health|ready|live|status|ping)`,
	`\bsystemctl\s+(?:.*\s)?(?:status|is-active)\b`,
	`\b(?:pgrep|pg_isready|lsof|netstat|squeue|nvidia-smi)\b`,
	`\bps\s+(?:aux|-)`,
	`\bnc\s+-\w*z`,
	`\bredis-cli\s+.*ping\b`,
	`\baws\s+\S+\s+(?:wait|describe-\S+|get-\S+)\b`,
	`\bgcloud\s.*\b(?:describe|list)\b`,
}, "|"))
