package blockers

import (
	"errors"
	"fmt"
	"regexp"
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
	AskMe Action = "ask"   // recorded; a person may answer until a deadline, and then it is as with deny
)

// DefaultWait is how long a person may answer an ask where nothing else is said: long enough to come back from a phone that
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
	Permissions []Rule
	// Questions is [Deny] or [AskMe]. Defaults to Deny.
	Questions Action
	// Wait is how long a person may answer. Defaults to [DefaultWait].
	Wait time.Duration
}

// Rule decides permissions that fit both patterns. In them * stands for any characters, ? for one, and " *" at the end for
// nothing as well ("git push *" fits "git push"); upper and lower case differ. This is how OpenCode reads its own rules.
type Rule struct {
	Permission string        // bash, edit, external_directory, …
	Pattern    string        // of what is asked for: a command, a path. Defaults to *
	Action     Action        // allow, deny or ask
	Wait       time.Duration // of an ask. Defaults to the policy's
}

// Validate names every rule that means nothing.
func (p Policy) Validate() error {
	_, err := p.compile()
	return err
}

// policy is a [Policy] that can be asked.
type policy struct {
	rules     []rule
	questions Action
	wait      time.Duration
}

type rule struct {
	Rule
	permission, pattern *regexp.Regexp
}

func (p Policy) compile() (policy, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	c := policy{questions: p.Questions, wait: p.Wait}
	switch p.Questions {
	case "":
		c.questions = Deny
	case Deny, AskMe:
	default:
		fault("questions: %q is none of deny, ask (a question cannot be allowed)", p.Questions)
	}
	switch {
	case p.Wait < 0:
		fault("wait: %s is below zero", p.Wait)
	case p.Wait == 0:
		c.wait = DefaultWait
	}
	for i, r := range p.Permissions {
		at := fmt.Sprintf("permissions[%d]", i)
		if r.Permission == "" {
			fault("%s: it names no permission (* for all)", at)
		}
		switch r.Action {
		case Allow, Deny, AskMe:
		default:
			fault("%s: action %q is none of allow, deny, ask", at, r.Action)
		}
		switch {
		case r.Wait < 0:
			fault("%s: wait: %s is below zero", at, r.Wait)
		case r.Wait > 0 && r.Action != AskMe:
			fault("%s: only an ask waits", at)
		case r.Wait == 0:
			r.Wait = c.wait
		}
		if r.Pattern == "" {
			r.Pattern = "*"
		}
		c.rules = append(c.rules, rule{r, wildcards(r.Permission), wildcards(r.Pattern)})
	}
	return c, errors.Join(faults...)
}

// wildcards reads a pattern as OpenCode does (packages/opencode/src/util/wildcard.ts).
func wildcards(pattern string) *regexp.Regexp {
	text := regexp.QuoteMeta(slashes(pattern))
	text = strings.ReplaceAll(strings.ReplaceAll(text, `\*`, ".*"), `\?`, ".")
	if head, ok := strings.CutSuffix(text, " .*"); ok {
		text = head + "( .*)?"
	}
	return regexp.MustCompile("(?s)^" + text + "$")
}

func slashes(s string) string { return strings.ReplaceAll(s, `\`, "/") }

// decide says what becomes of an ask, and for how long a person may answer.
func (p policy) decide(ask *boulder.Ask) (Action, time.Duration) {
	if ask.Kind == boulder.AskQuestion {
		return p.questions, p.wait
	}
	patterns := ask.Patterns
	if len(patterns) == 0 {
		patterns = []string{""} // which only * fits
	}
	action, wait := Allow, time.Duration(0)
	for _, pattern := range patterns {
		switch a, w := p.permission(ask.Permission, pattern); {
		case a == Deny:
			return Deny, 0
		case a == AskMe && (action == Allow || w < wait):
			action, wait = AskMe, w
		}
	}
	return action, wait
}

func (p policy) permission(permission, pattern string) (Action, time.Duration) {
	for i := len(p.rules) - 1; i >= 0; i-- {
		r := &p.rules[i]
		if permission == doomLoop && r.Permission != doomLoop {
			continue
		}
		if r.permission.MatchString(slashes(permission)) && r.pattern.MatchString(slashes(pattern)) {
			return r.Action, r.Wait
		}
	}
	if permission == doomLoop {
		return Allow, 0
	}
	return Deny, 0
}
