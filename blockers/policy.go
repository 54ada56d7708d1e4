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

// Action is what becomes of an ask.
type Action string

// The actions.
const (
	Allow Action = "allow" // the permission is given, and nothing is recorded
	Deny  Action = "deny"  // refused, with the word to go on with something else, and recorded
	AskMe Action = "ask"   // recorded; the user may answer until a deadline, and then it is as with deny
)

// DefaultWait is how long the user may answer an ask where nothing else is said: long enough to come back from a phone that
// rang, short enough that a night does not pass with it.
const DefaultWait = 10 * time.Minute

// doomLoop is the permission that OpenCode asks for when a message makes the same call three times. Refusing it ends the
// turn, with or without a message (seen), and whether a session is stuck is for others to say. So only rules that name it
// as it is decide it.
const doomLoop = "doom_loop"

// Policy says what becomes of asks. The zero value diverts all of them, but for the permission doom_loop, which it allows.
type Policy struct {
	// Permissions are rules of which the last that fits decides, as in OpenCode's configuration. An ask for several patterns
	// gets the strictest of what they get: deny before ask before allow.
	Permissions []Rule `yaml:"permissions"`
	// Questions is [Deny] or [AskMe]. Defaults to Deny.
	Questions Action `yaml:"questions"`
	// Wait is how long the user may answer. Defaults to [DefaultWait].
	Wait time.Duration `yaml:"wait"`
}

// Rule decides permissions that fit both patterns. In them * stands for any characters, ? for one, and " *" at the end for
// nothing as well ("git push *" fits "git push"); upper and lower case differ. This is how OpenCode reads its own rules.
type Rule struct {
	Permission string        `yaml:"permission"` // bash, edit, external_directory, …
	Pattern    string        `yaml:"pattern"`    // of what is asked for: a command, a path. Defaults to *
	Action     Action        `yaml:"action"`     // allow, deny or ask
	Wait       time.Duration `yaml:"wait"`       // of an ask. Defaults to the policy's
}

// Validate names every rule that means nothing.
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

// decide says what becomes of an ask, and for how long the user may answer.
func (p Policy) decide(ask *boulder.Ask) (Action, time.Duration) {
	if ask.Kind == boulder.AskQuestion {
		return cmp.Or(p.Questions, Deny), cmp.Or(p.Wait, DefaultWait)
	}
	action, wait := Allow, time.Duration(0)
	for _, pattern := range patternsOf(ask) {
		switch a, w := p.permission(ask.Permission, pattern); {
		case a == Deny:
			return Deny, 0
		case a == AskMe && (action == Allow || w < wait):
			action, wait = AskMe, w
		}
	}
	return action, wait
}

// patternsOf are what is asked for, at least one: the empty one, which only * fits.
func patternsOf(ask *boulder.Ask) []string {
	if len(ask.Patterns) == 0 {
		return []string{""}
	}
	return ask.Patterns
}

func (p Policy) permission(permission, pattern string) (Action, time.Duration) {
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

// fits reads a pattern as OpenCode does (packages/opencode/src/util/wildcard.ts).
func fits(pattern, text string) bool {
	slashes := func(s string) string { return strings.ReplaceAll(s, `\`, "/") }
	re := regexp.QuoteMeta(slashes(pattern))
	re = strings.ReplaceAll(strings.ReplaceAll(re, `\*`, ".*"), `\?`, ".")
	if head, ok := strings.CutSuffix(re, " .*"); ok {
		re = head + "( .*)?"
	}
	return regexp.MustCompile("(?s)^" + re + "$").MatchString(slashes(text))
}
