package blockers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Limits on the stored parts of an ask, in characters. Longer ones are cut visibly: OpenCode cannot be told to shorten.
const (
	maxArguments = 4_000
	maxPattern   = 1_000
	maxPatterns  = 20
	maxName      = 200
)

// Divert applies the policy to an ask, and records it unless the policy or an earlier answer of the user allows it. ask
// needs a scope and [boulder.Blocker.Ask] (with the tool's arguments as JSON, if known); the texts may be empty.
//
// Repeats of an ask in a session share one record, one ruling and the first deadline. A question asked again after it
// was settled gets a new record. [ErrOff] means that diversion is off. Of all errors only [ErrTooMany] has a ruling.
func (d *Register) Divert(ctx context.Context, ask boulder.Blocker) (ruling boulder.Ruling, err error) {
	if ask.Ask == nil || ask.Ask.Kind != boulder.AskPermission && ask.Ask.Kind != boulder.AskQuestion {
		return ruling, errors.New("divert: it is neither a permission nor a question")
	}
	on, err := d.on(ctx, ask.BlockerScope)
	if err = cmp.Or(checkScope(ask.BlockerScope), err); err != nil || !on {
		return ruling, cmp.Or(err, ErrOff)
	}
	action, wait := d.cfg.Policy.decide(ask.Ask)
	if action == Allow {
		return boulder.Ruling{Reply: boulder.ReplyAllowed}, nil
	}
	b := d.recordOf(ask)
	err = d.within(ctx, making, ask.BlockerScope, func(book boulder.BlockerBook, all []boulder.Blocker) error {
		if granted(all, b.Grants) {
			ruling.Reply = boulder.ReplyAllowed
			return nil
		}
		for _, old := range slices.Backward(all) {
			if old.Key != b.Key {
				continue
			}
			if b.Ask.Kind == boulder.AskQuestion && old.Status.Settled() && old.Ask.RequestID != b.Ask.RequestID {
				break
			}
			ruling = d.ruling(&old)
			return nil
		}
		b.CreatedAt = d.now()
		if action == AskMe {
			b.Until = b.CreatedAt.Add(wait)
		}
		b, err := d.add(ctx, book, all, b)
		ruling = d.ruling(&b)
		return err
	})
	switch {
	case errors.Is(err, ErrTooMany):
		ruling = boulder.Ruling{Reply: boulder.ReplyDiverted, Message: d.Instruction(b)}
	case err != nil:
		return boulder.Ruling{}, err
	}
	d.cfg.Logger.Info("blocker: ask", "id", ruling.BlockerID, "session", ask.SessionID, "request", b.Ask.RequestID,
		"kind", ask.Ask.Kind, "reply", ruling.Reply)
	return ruling, err
}

// recordOf returns the blocker of an ask: without secrets, bounded, and with a question and context for the user where
// it has none. Its keys are computed from the redacted but uncut texts.
func (d *Register) recordOf(ask boulder.Blocker) boulder.Blocker {
	a := *ask.Ask
	a.Patterns = slices.Clone(a.Patterns)
	b := ask
	b.Ask, b.Options, b.Status = &a, slices.Clone(ask.Options), boulder.BlockerPending
	key := []string{ask.SessionID, string(a.Kind), a.Permission}
	if a.Kind == boulder.AskPermission {
		for _, p := range patternsOf(&a) {
			b.Grants = append(b.Grants, grantKey(ask.BlockerScope, a.Permission, d.cfg.Redact(p)))
		}
	}
	d.sanitize(&b)
	category, question := boulder.BlockerPermission, fmt.Sprintf("May the agent use %s?", permissionText(&a))
	if a.Kind == boulder.AskQuestion {
		category, question = boulder.BlockerQuestion, "The agent asked a question without words."
		key = append(append(key, text.Fold(b.Question)), b.Options...)
	}
	b.Key = hashed(append(key, b.Grants...)...)
	who := cmp.Or(text.Prefixed("The tool ", a.Tool), "OpenCode")
	b.Category = cmp.Or(b.Category, category)
	b.Question = text.Cut(cmp.Or(b.Question, question), maxQuestion)
	b.Context = text.Cut(cmp.Or(b.Context, who+" asked for it while the user was away."), maxContext)
	b.Options = bounded(b.Options, "options", maxOptions, maxOption)
	a.Patterns = bounded(a.Patterns, "patterns", maxPatterns, maxPattern)
	a.Permission, a.Tool = text.Cut(a.Permission, maxName), text.Cut(a.Tool, maxName)
	a.RequestID, a.Arguments = text.Cut(a.RequestID, maxName), text.Cut(a.Arguments, maxArguments)
	return b
}

// bounded cuts a list to most entries and each entry to long characters, visibly.
func bounded(list []string, what string, most, long int) []string {
	if n := len(list); n > most {
		list = append(list[:most-1:most-1], fmt.Sprintf("… (%d %s)", n, what))
	}
	for i, s := range list {
		list[i] = text.Cut(s, long)
	}
	return list
}

// permissionText names a permission with its patterns, as in "bash: git push, git tag".
func permissionText(a *boulder.Ask) string {
	name := text.Cut(text.Fold(clean(a.Permission)), maxName)
	if len(a.Patterns) == 0 {
		return name
	}
	return name + ": " + text.Cut(text.Fold(clean(strings.Join(a.Patterns, ", "))), 500)
}

// hashed returns a hash of parts. Each part is prefixed with its length, so that ("ab", "c") and ("a", "bc") differ.
func hashed(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// grantKey identifies one pattern of a permission within a sub-task or, outside of a run, a session.
func grantKey(scope boulder.BlockerScope, permission, pattern string) string {
	within := []string{"session", scope.SessionID}
	if scope.BoulderID != "" {
		within = []string{"sub-task", scope.BoulderID + "\x00" + scope.SubTaskID}
	}
	return hashed(append(within, permission, pattern)...)
}

// granted reports whether the user allowed every one of keys.
func granted(all []boulder.Blocker, keys []string) bool {
	var given []string
	for _, r := range all {
		if r.Allowed {
			given = append(given, r.Grants...)
		}
	}
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(given, k) })
}

// Ruling returns the current ruling on a waiting ask.
func (d *Register) Ruling(ctx context.Context, scope boulder.BlockerScope, id string) (ruling boulder.Ruling, err error) {
	known := false
	err = d.within(ctx, reading, scope, func(_ boulder.BlockerBook, all []boulder.Blocker) error {
		for _, b := range all {
			if b.ID == id && b.Ask != nil {
				ruling, known = d.ruling(&b), true
			}
		}
		return nil
	})
	if err == nil && !known {
		err = fmt.Errorf("%w: there is no ask %s", ErrNotFound, id)
	}
	return ruling, err
}

func (d *Register) ruling(b *boulder.Blocker) boulder.Ruling {
	ruling := boulder.Ruling{BlockerID: b.ID, Reply: boulder.ReplyDiverted, ByUser: b.Status.Settled()}
	answered := b.Status == boulder.BlockerAnswered
	switch {
	case answered && (b.Allowed || b.Ask.Kind == boulder.AskQuestion):
		ruling.Reply, ruling.Message = boulder.ReplyAllowed, b.Answer
	case answered:
		ruling.Message = "The user refused this permission and says: " + b.Answer
	case !b.Status.Settled() && d.now().Before(b.Until): // also one that is asked again after its first wait was aborted
		ruling.Reply, ruling.Until = boulder.ReplyWaiting, b.Until
	default:
		ruling.Message = d.Instruction(*b)
	}
	return ruling
}

// EndWait stores that the session does not wait for the answer to an ask any more: because it has it, or it was aborted,
// or OpenCode rejected this ask with another one. Then an answer goes into the next prompt. Idempotent.
func (d *Register) EndWait(ctx context.Context, scope boulder.BlockerScope, id string, replied bool) error {
	known := false
	err := d.within(ctx, changing, scope, func(book boulder.BlockerBook, all []boulder.Blocker) error {
		if known = slices.ContainsFunc(all, func(b boulder.Blocker) bool { return b.ID == id }); !known {
			return nil
		}
		return book.EndWait(ctx, id, replied)
	})
	if err == nil && !known {
		err = fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	return err
}

// Instruction returns what an agent is told when its ask is diverted: the ask is refused and recorded, and how to
// continue. It names no tasks or next steps: the agent knows them (seed 003, FR-008 and FR-010).
func (d *Register) Instruction(ask boulder.Blocker) string {
	said := "The user is away. The question is recorded for them to see; do not ask it again. If you may choose " +
		"yourself, find three options, choose one, go on with it, and report it with the tool " + boulder.BlockerTool +
		" and blocks_progress false; if you must not, call " + boulder.BlockerTool + " with blocks_progress true."
	if ask.AsksPermission() {
		said = "The user is away and cannot give this permission (" + permissionText(ask.Ask) + "). It is refused, and recorded for the user to " +
			"see. Do not ask for it again, and do not do the same in another way. If a part of your task cannot be done without " +
			"it, call the tool " + boulder.BlockerTool + " once, with category permission and blocks_progress true."
	}
	return said + " Move on with the next non-blocking issues."
}
