package schedule

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/wildcard"
)

// Limits bounds concurrency and retries. A limit of 0 allows none. Start from [DefaultLimits].
type Limits struct {
	// Global is how many attempts of any model may hold a slot at once. Defaults to 20.
	Global int `json:"global"`
	// Providers is the same per provider; one without an entry has no limit of its own.
	Providers map[string]int `json:"providers"`
	// Models is the same per model, by the first matching pattern. Defaults to the limits of seed 001: gpt-4o 3, claude
	// sonnet 5, haiku 10, grok 10.
	Models []ModelLimit `json:"models"`
	// PerModel is the limit of a model that no pattern matches. Defaults to 5.
	PerModel int `json:"per_model"`

	// Attempts is the number of tries of a sub-task, including the first. Defaults to 3 (seed 002: two retries).
	Attempts int `json:"attempts"`
	// Evaluations is the number of judged turns of an attempt. Defaults to 5.
	Evaluations int `json:"evaluations"`
	// EvaluationsTotal is the same for a sub-task with all that replaces it, but not in a loop. Defaults to 15 (3 × 5).
	EvaluationsTotal int `json:"evaluations_total"`
	// Troubles is how many infrastructure errors in a row park a sub-task, or sessions it may lose. Defaults to 3.
	Troubles int `json:"troubles"`
	// Backoff is the wait after the first of them; it doubles with each further one. Defaults to 500 ms.
	Backoff time.Duration `json:"backoff"`

	// Stalls is the number of turns without progress, less those with it, that leads to a replan. Defaults to 2.
	Stalls int `json:"stalls"`
	// NeedsUser is how many verdicts in a row that need the user raise a hard blocker. Defaults to 2.
	NeedsUser int `json:"needs_user"`
	// Stuck is how many verdicts of "stuck" in a row end a loop. Defaults to 2.
	Stuck int `json:"stuck"`
	// Replans is how often the rest of a plan may be replanned in a run. Defaults to 2.
	Replans int `json:"replans"`
	// Extensions is how often a run may add what is missing of the request in the end. Defaults to 1.
	Extensions int `json:"extensions"`
	// LookTime is how long a look at the project may take; 0: there are none. Defaults to 12 minutes.
	LookTime time.Duration `json:"look_time"`
	// LookFindings is how many findings of a look count for a question. Defaults to 10.
	LookFindings int `json:"look_findings"`
	// Unchecked: nobody can say whether the request is met, so a boulder ends without that question. Set by the orchestrator.
	Unchecked bool `json:"unchecked,omitempty" yaml:"-"`
	// IdleTurns is how many turns in a row without a tool call bring a warning; one more is stuck. Defaults to 3.
	IdleTurns int `json:"idle_turns"`

	// Batch is how many complete results of an isolated run are put onto the tip, and tested, together; 0 and 1: each by
	// itself. Defaults to 16.
	Batch int `json:"batch"`

	// Cooldowns is how many rate limits or overloads in a row of its model an attempt survives. Defaults to 10.
	Cooldowns int `json:"cooldowns"`
	// CoolBase is the first cool-down if the provider names no time; it doubles up to CoolMax. Defaults to 5 s.
	CoolBase time.Duration `json:"cool_base"`
	// CoolMax bounds that doubling, not what a provider asks for. Defaults to 5 minutes.
	CoolMax time.Duration `json:"cool_max"`
	// WaitForModel is the longest wait for a model with others in its list; they take its place for a longer one, or if it
	// holds longer than was said. Defaults to 10 minutes.
	WaitForModel time.Duration `json:"wait_for_model"`
	// ResetMax is the longest wait for a provider; one that asks for more pauses the run. Defaults to 24 hours.
	ResetMax time.Duration `json:"reset_max"`

	// Warn is the share of a budget at which a warning is given. Defaults to 0.8; 0: no warning.
	Warn float64 `json:"warn" yaml:"warn,share"`
}

// ModelLimit is a limit for each model that a pattern matches: * is any characters, and case is ignored.
type ModelLimit struct {
	Pattern string `json:"pattern" yaml:"pattern"`
	Limit   int    `json:"limit" yaml:"limit"`
}

// DefaultLimits returns the documented defaults.
func DefaultLimits() Limits {
	return Limits{
		Global: 20,
		Models: []ModelLimit{
			{"*gpt-4o*", 3}, {"*claude*sonnet*", 5}, {"*haiku*", 10}, {"*grok*", 10},
		},
		PerModel: 5, Attempts: 3, Evaluations: 5, EvaluationsTotal: 15, Troubles: 3, Backoff: 500 * time.Millisecond,
		Stalls: 2, NeedsUser: 2, Stuck: 2, Replans: 2, Extensions: 1, LookTime: 12 * time.Minute, LookFindings: 10, IdleTurns: 3, Batch: 16, Cooldowns: 10, CoolBase: 5 * time.Second, CoolMax: 5 * time.Minute,
		WaitForModel: 10 * time.Minute, ResetMax: 24 * time.Hour, Warn: 0.8,
	}
}

// Validate refuses limits with which nothing could ever run. Models and providers may have 0, see [Startable].
func (l Limits) Validate() error {
	var errs []error
	least := func(name string, n, least int) {
		if n < least {
			errs = append(errs, fmt.Errorf("limit %s is %d: it must be at least %d", name, n, least))
		}
	}
	least("global", l.Global, 1)
	least("per_model", l.PerModel, 0)
	for _, m := range l.Models {
		least("of models "+m.Pattern, m.Limit, 0)
	}
	for _, provider := range slices.Sorted(maps.Keys(l.Providers)) {
		least("of provider "+provider, l.Providers[provider], 0)
	}
	least("attempts", l.Attempts, 1)
	least("evaluations", l.Evaluations, 1)
	least("evaluations_total", l.EvaluationsTotal, 1)
	least("troubles", l.Troubles, 0)
	least("stalls", l.Stalls, 1)
	least("needs_user", l.NeedsUser, 1)
	least("stuck", l.Stuck, 1)
	least("replans", l.Replans, 0)
	least("extensions", l.Extensions, 0)
	least("look_findings", l.LookFindings, 1)
	least("idle_turns", l.IdleTurns, 1)
	least("batch", l.Batch, 0)
	least("cooldowns", l.Cooldowns, 0)
	for name, d := range map[string]time.Duration{
		"backoff": l.Backoff, "cool_base": l.CoolBase, "cool_max": l.CoolMax, "reset_max": l.ResetMax,
		"look_time": l.LookTime, "wait_for_model": l.WaitForModel,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("limit %s is %s: it must not be negative", name, d))
		}
	}
	if !(l.Warn >= 0 && l.Warn <= 1) {
		errs = append(errs, fmt.Errorf("limit warn is %v: it must be between 0 and 1", l.Warn))
	}
	return errors.Join(errs...)
}

// Model returns how many attempts with this model may hold a slot.
func (l Limits) Model(model string) int {
	for _, m := range l.Models {
		if wildcard.Match(m.Pattern, model) {
			return m.Limit
		}
	}
	return l.PerModel
}

// attempts returns the tries of one sub-task, which its own budget may set.
func (l Limits) attempts(t *boulder.SubTask) int {
	if t.Budget != nil && t.Budget.Attempts > 0 {
		return t.Budget.Attempts
	}
	return l.Attempts
}

func providerOf(model string) string {
	provider, _, _ := strings.Cut(model, "/")
	return provider
}
