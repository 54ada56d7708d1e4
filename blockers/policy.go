package blockers

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Action is how the policy treats an ask.
type Action string

const (
	Allow Action = "allow" // the permission is given, and nothing is recorded
	Deny  Action = "deny"  // refused and recorded, and the agent told to continue with something else
	AskMe Action = "ask"   // recorded; the user may answer until a deadline, then as Deny
)

// DefaultWait is how long the user may answer an ask: longer than a phone call, and short compared to a night.
const DefaultWait = 10 * time.Minute

// doomLoop is the permission that OpenCode asks for when a message makes the same call three times. A refusal ends the
// turn (observed), and stuck sessions are for the enforcer to judge, so only rules that name it exactly apply.
const doomLoop = "doom_loop"

// Policy says how asks are treated. The zero value allows the permission doom_loop, and diverts all others.
type Policy struct {
	// Permissions are rules; the last match applies, as in OpenCode's configuration. An ask with several patterns gets the
	// strictest of their actions: deny, then ask, then allow.
	Permissions []Rule `yaml:"permissions"`
	// Questions is [Deny] or [AskMe]. Defaults to Deny.
	Questions Action `yaml:"questions"`
	// Wait is how long the user may answer. Defaults to [DefaultWait].
	Wait time.Duration `yaml:"wait"`
}

// Rule applies to permissions that match both patterns. * matches any characters, ? one, and a final " *" nothing as
// well ("git push *" matches "git push"). Matching is case-sensitive, as in OpenCode.
type Rule struct {
	Permission string        `yaml:"permission"` // bash, edit, external_directory, …
	Pattern    string        `yaml:"pattern"`    // what is asked for: a command, a path. Defaults to *
	Action     Action        `yaml:"action"`     // allow, deny or ask
	Wait       time.Duration `yaml:"wait"`       // for ask only. Defaults to the policy's
}

// Validate returns all mistakes at once.
func (p Policy) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if !slices.Contains([]Action{"", Deny, AskMe}, p.Questions) {
		fault("questions: %q is none of deny, ask (a question cannot be allowed)", p.Questions)
	}
	if p.Wait < 0 {
		fault("wait: %s is below zero", p.Wait)
	}
	for i, r := range p.Permissions {
		at := fmt.Sprintf("permissions[%d]", i)
		if r.Permission == "" {
			fault("%s: it names no permission (* for all)", at)
		}
		if !slices.Contains([]Action{Allow, Deny, AskMe}, r.Action) {
			fault("%s: action %q is none of allow, deny, ask", at, r.Action)
		}
		switch {
		case r.Wait < 0:
			fault("%s: wait: %s is below zero", at, r.Wait)
		case r.Wait > 0 && r.Action != AskMe:
			fault("%s: only an ask waits", at)
		}
	}
	return errors.Join(faults...)
}

// decide returns how to treat an ask, and how long the user may answer: of several patterns that ask, the shortest wait.
func (p Policy) decide(ask *boulder.Ask) (Action, time.Duration) {
	if ask.Kind == boulder.AskQuestion {
		return cmp.Or(p.Questions, Deny), cmp.Or(p.Wait, DefaultWait)
	}
	action, wait := Allow, time.Duration(0)
	for _, pattern := range patternsOf(ask) {
		switch a, w := p.Permission(ask.Permission, pattern); {
		case a == Deny:
			return Deny, 0
		case a == AskMe && (action == Allow || w < wait):
			action, wait = AskMe, w
		}
	}
	return action, wait
}

// patternsOf returns what is asked for, at least one pattern: the empty one matches only *.
func patternsOf(ask *boulder.Ask) []string {
	if len(ask.Patterns) == 0 {
		return []string{""}
	}
	return ask.Patterns
}

// Permission returns how to treat an ask for a permission, and how long the user may answer.
func (p Policy) Permission(permission, pattern string) (Action, time.Duration) {
	for _, r := range slices.Backward(p.Permissions) {
		if permission == doomLoop && r.Permission != doomLoop {
			continue
		}
		if fits(r.Permission, permission) && fits(cmp.Or(r.Pattern, "*"), pattern) {
			return r.Action, cmp.Or(r.Wait, p.Wait, DefaultWait)
		}
	}
	if permission == doomLoop {
		return Allow, 0
	}
	return Deny, 0
}

// fits matches as OpenCode does (packages/opencode/src/util/wildcard.ts).
func fits(pattern, text string) bool {
	slashes := func(s string) string { return strings.ReplaceAll(s, `\`, "/") }
	re := regexp.QuoteMeta(slashes(pattern))
	re = strings.ReplaceAll(strings.ReplaceAll(re, `\*`, ".*"), `\?`, ".")
	if head, ok := strings.CutSuffix(re, " .*"); ok {
		re = head + "( .*)?"
	}
	return regexp.MustCompile("(?s)^" + re + "$").MatchString(slashes(text))
}
