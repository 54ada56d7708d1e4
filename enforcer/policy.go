package enforcer

import (
	"regexp"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

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
	MaxIterations int           `yaml:"iterations"`      // continuations that the user's prompt may bring
	Compactions   int           `yaml:"compactions,off"` // without progress, which make a fresh session better
	Admission     time.Duration // how long a continuation may show no sign of a turn before it is looked for
	Stuck         int           // turns in a row of which the judge says that it is stuck
	// How many continuations within SameWindow may get the same answer, but for ids, times and numbers; at most 50. After
	// progress they count again (seed 003, FR-018).
	SameAnswers int           `yaml:"same_answers,off"`
	SameWindow  time.Duration `yaml:"same_window,off"`
	// Marker is a word of the agent's that counts as the promise and as a claim to be done, [boulder.Diversion]; empty: it is
	// not asked for one. Who is asked for it is asked again after a [Policy.recheck].
	Marker string
	// SkipAgents are the agents whose sessions are left alone: those that plan with the user, whose question at the end of a
	// turn is for the user, and those that OpenCode itself puts to work (seed 004).
	SkipAgents []string `yaml:"skip_agents"`
	Continuous bool     // goes on improving when everything holds, until a bound is reached
}

// recheck is how long an agent rests that ended its turn without the marker, instead of Idle and of the cool-down,
// which would grow beyond SameWindow before the same answer came SameAnswers times. Half of the window is for the turns
// themselves.
func (p Policy) recheck(otherwise time.Duration) time.Duration {
	if p.Marker == "" || p.SameAnswers < 1 || p.SameWindow <= 0 {
		return otherwise
	}
	return min(otherwise, p.SameWindow/time.Duration(2*p.SameAnswers))
}

// WatchPolicy is for sessions of people.
func WatchPolicy() Policy {
	return Policy{
		Idle: 30 * time.Second, AbortWindow: 3 * time.Second, Cooldown: 30 * time.Second,
		MaxFailures: 5, FailureReset: 5 * time.Minute, Resets: 1, Countdown: 2 * time.Second,
		MaxIterations: 100, Compactions: 2, Admission: 10 * time.Second, SameAnswers: 5, SameWindow: 2 * time.Minute,
		SkipAgents: []string{"plan", "compaction", "title", "summary"},
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

// Rules are the numbers by which a turn is judged while it runs. Start from [DefaultRules]; docs/rules.md has all of them.
//
// A zero duration switches its rule off. A count is how many are too many: a rule fires when count >= its number, so 0
// and 1 allow none; a negative number switches the rule off.
type Rules struct {
	// How long an accepted prompt may show no sign of a turn. The first prompt in a directory takes 3 s (measured); one that
	// arrives in the moment in which the turn before it fails is swallowed (seen).
	Admission   time.Duration `yaml:"admission,off"`
	Silence     time.Duration `yaml:"silence,off"`      // of a busy session
	ToolSilence time.Duration `yaml:"tool_silence,off"` // while a tool runs
	WallClock   time.Duration `yaml:"wall_clock,off"`   // of all turns of an attempt together
	Offline     time.Duration `yaml:"offline,off"`      // without a connection to the server

	// How many retries in a row OpenCode may make on its own when a provider refuses or cannot be reached: five take about a
	// minute (measured: 2, 4, 9, 18 s between them), and it makes them without a bound if nothing listens at the address.
	ProviderRetries int           `yaml:"provider_retries,off"`
	ProviderWait    time.Duration `yaml:"provider_wait,off"` // for one of them: longer waits are better spent without a slot

	Window      int              `yaml:"window"`           // the newest calls that are looked at; below 1: the default
	SameOutput  int              `yaml:"same_output,off"`  // the same call and output, with no file edited between
	SamePolling int              `yaml:"same_polling,off"` // the same of commands that wait for something
	Polling     []*regexp.Regexp `yaml:"polling"`          // which do; nil: sleep, wait, tail -f, status …
	// The same call fails in the same way: when the agent is told to find another way (off: it is stopped without being
	// told), and when it is stopped. A call that was made before the agent could hear the nudge is not held against it;
	// twice the number stops it in any case.
	SameError     int `yaml:"same_error,off"`
	SameErrorStop int `yaml:"same_error_stop,off"`
	// The same for messages without a tool call in a row, within a turn: OpenCode asks a model whose finish reason it does
	// not know again and again, without a bound (seen: 120 calls in 15 s).
	Idle        int `yaml:"idle,off"`
	IdleStop    int `yaml:"idle_stop,off"`
	Alternate   int `yaml:"alternate,off"`   // calls of two kinds in turns (A B A B …), at least 4
	Compactions int `yaml:"compactions,off"` // without a new successful tool call between

	// Up to how many output tokens a turn without any tool call is no answer but a cut one: a turn that stopped after two
	// was taken for a finished one (seed 002).
	MinOutput int `yaml:"min_output,off"`
}

// DefaultRules are mostly those of SEMANTICS §5.
func DefaultRules() Rules {
	return Rules{
		Admission: 10 * time.Second, Silence: 5 * time.Minute, ToolSilence: 15 * time.Minute, WallClock: 30 * time.Minute,
		Offline: time.Minute, ProviderRetries: 5, ProviderWait: time.Minute, Window: 30, SameOutput: 4, SamePolling: 10,
		SameError: 3, SameErrorStop: 4, Idle: 3, IdleStop: 4, Alternate: 6, Compactions: 2, MinOutput: 3,
	}
}

// reached compares a count with a rule's number.
func reached(count, number int) bool { return number >= 0 && count >= number }

// defaultPolling are shell commands that are made to be run again with the same answer until something is ready: sleep,
// wait, tail -f, watch, ps, and the status commands of kubectl, docker, gh, systemd, clouds, and health checks by curl.
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
