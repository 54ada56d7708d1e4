package enforcer

import (
	"regexp"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// Rules are the numbers by which a turn is judged while it runs. Start from [DefaultRules].
//
// A zero duration switches its rule off. A count is how many are too many: a rule fires when count >= its number, so 0
// and 1 allow none; a negative number switches the rule off.
type Rules struct {
	// Admission is how long an accepted prompt may show no sign of a turn: an accepted prompt does not prove that one
	// runs. The first prompt in a directory takes 3 s (measured); one that arrives in the moment in which the turn
	// before it fails is swallowed (seen). Defaults to 10 s.
	Admission time.Duration `yaml:"admission,off"`
	// Silence is how long a busy session may bring no event. Defaults to 5 minutes (SEMANTICS §5).
	Silence time.Duration `yaml:"silence,off"`
	// ToolSilence is the same while a tool runs. Defaults to 15 minutes (SEMANTICS §5).
	ToolSilence time.Duration `yaml:"tool_silence,off"`
	// WallClock bounds the turns of an attempt together. Defaults to 30 minutes (SEMANTICS §5).
	WallClock time.Duration `yaml:"wall_clock,off"`
	// Offline is how long the connection to the server may be gone. Defaults to 1 minute.
	Offline time.Duration `yaml:"offline,off"`

	// ProviderRetries is how many retries in a row OpenCode may make on its own when a provider refuses or cannot be
	// reached; the one after these ends the turn. 0 allows none. Defaults to 5: with its back-off these take about a
	// minute (measured: 2, 4, 9, 18 s between them), and it makes them without a bound if nothing listens at the address.
	ProviderRetries int `yaml:"provider_retries,off"`
	// ProviderWait is how long it may wait for one of them: longer waits are better spent without a slot. Defaults to 1
	// minute.
	ProviderWait time.Duration `yaml:"provider_wait,off"`

	// Window is how many of the newest calls of a session are looked at. Defaults to 30 (SEMANTICS §5), which also stands
	// in for numbers below 1.
	Window int `yaml:"window"`
	// SameOutput is how often the same call may give the same output, unless a file was edited between. Defaults to 4
	// (SEMANTICS §5).
	SameOutput int `yaml:"same_output,off"`
	// SamePolling is the same for commands that wait for something. Defaults to 10 (SEMANTICS §5).
	SamePolling int `yaml:"same_polling,off"`
	// Polling says which commands wait for something. Defaults to sleep, wait, tail -f, status commands and the like; to have
	// none, give a pattern that matches nothing.
	Polling []*regexp.Regexp `yaml:"polling"`
	// SameError is how often the same call may fail in the same way before the agent is told to find another way.
	// Defaults to 3 (SEMANTICS §5). Off: it is stopped without being told.
	SameError int `yaml:"same_error,off"`
	// SameErrorStop is when it is stopped for that. A call that was made before the agent could hear the nudge is not held
	// against it; twice this number stops it in any case. Defaults to 4 (SEMANTICS §5).
	SameErrorStop int `yaml:"same_error_stop,off"`
	// Idle is how many messages without a tool call in a row may follow each other within a turn before the agent is told
	// to act: OpenCode asks a model whose finish reason it does not know again and again, without a bound (seen: 120 calls
	// in 15 s). Defaults to 3 (SEMANTICS §5).
	Idle int `yaml:"idle,off"`
	// IdleStop is when it is stopped for that, with the same grace as SameErrorStop. Defaults to 4.
	IdleStop int `yaml:"idle_stop,off"`
	// Alternate is how many calls of two kinds in turns (A B A B …) are a loop. Numbers below 4 stand for 4, since A B A
	// may be anything. Defaults to 6 (SEMANTICS §5).
	Alternate int `yaml:"alternate,off"`
	// Compactions is how often a session may be compacted without a new successful tool call between. Defaults to 2
	// (SEMANTICS §5).
	Compactions int `yaml:"compactions,off"`

	// MinOutput is up to how many output tokens a turn without any tool call is no answer but a cut one. Defaults to 3: a
	// turn that stopped after two was taken for a finished one (seed 002).
	MinOutput int `yaml:"min_output,off"`
}

// DefaultRules returns the documented defaults.
func DefaultRules() Rules {
	return Rules{
		Admission: 10 * time.Second, Silence: 5 * time.Minute, ToolSilence: 15 * time.Minute, WallClock: 30 * time.Minute,
		Offline:         time.Minute,
		ProviderRetries: 5, ProviderWait: time.Minute,
		Window: 30, SameOutput: 4, SamePolling: 10, SameError: 3, SameErrorStop: 4, Idle: 3, IdleStop: 4, Alternate: 6,
		Compactions: 2,
		MinOutput:   3,
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
