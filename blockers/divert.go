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

	bolt "go.etcd.io/bbolt"

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
	r := d.recordOf(ask)
	b := &r.Blocker
	err = d.with(ctx, making, func(tx *bolt.Tx) error {
		all := d.readable(tx)
		if granted(all, r.Grants) {
			ruling.Reply = boulder.ReplyAllowed
			return nil
		}
		for _, old := range slices.Backward(all) {
			if old.Same != r.Same {
				continue
			}
			if b.Ask.Kind == boulder.AskQuestion && old.Status.Settled() && old.Ask.RequestID != b.Ask.RequestID {
				break
			}
			ruling = d.ruling(&old.Blocker)
			old.Ask.Reply = ruling.Reply
			return put(tx, old)
		}
		b.CreatedAt = d.now()
		if action == AskMe {
			b.Until = b.CreatedAt.Add(wait)
		}
		b.Ask.Reply = d.ruling(b).Reply
		err := d.add(tx, all, r, d.cfg.Max)
		ruling = d.ruling(b)
		return err
	})
	switch {
	case errors.Is(err, ErrTooMany):
		ruling = boulder.Ruling{Reply: boulder.ReplyDiverted, Message: d.Instruction(*b)}
	case err != nil:
		return boulder.Ruling{}, err
	}
	d.cfg.Logger.Info("blocker: ask", "id", ruling.BlockerID, "session", ask.SessionID, "request", b.Ask.RequestID,
		"kind", ask.Ask.Kind, "reply", ruling.Reply)
	return ruling, err
}

// recordOf returns the record of an ask: without secrets, bounded, and with a question and context for the user where
// it has none. Its keys are computed from the redacted but uncut texts.
func (d *Register) recordOf(ask boulder.Blocker) *record {
	a := *ask.Ask
	a.Patterns = slices.Clone(a.Patterns)
	r := &record{Blocker: ask}
	b := &r.Blocker
	b.Ask, b.Options, b.Status = &a, slices.Clone(ask.Options), boulder.BlockerPending
	key := []string{ask.SessionID, string(a.Kind), a.Permission}
	if a.Kind == boulder.AskPermission {
		for _, p := range patternsOf(&a) {
			r.Grants = append(r.Grants, grantKey(ask.BlockerScope, a.Permission, d.cfg.Redact(p)))
		}
	}
	d.sanitize(b)
	category, question := boulder.BlockerPermission, fmt.Sprintf("May the agent use %s?", permissionText(&a))
	if a.Kind == boulder.AskQuestion {
		category, question = boulder.BlockerQuestion, "The agent asked a question without words."
		key = append(append(key, text.Fold(b.Question)), b.Options...)
	}
	r.Same = hashed(append(key, r.Grants...)...)
	who := cmp.Or(text.Prefixed("The tool ", a.Tool), "OpenCode")
	b.Category = cmp.Or(b.Category, category)
	b.Question = text.Cut(cmp.Or(b.Question, question), maxQuestion)
	b.Context = text.Cut(cmp.Or(b.Context, who+" asked for it while the user was away."), maxContext)
	b.Options = bounded(b.Options, "options", maxOptions, maxOption)
	a.Patterns = bounded(a.Patterns, "patterns", maxPatterns, maxPattern)
	a.Permission, a.Tool = text.Cut(a.Permission, maxName), text.Cut(a.Tool, maxName)
	a.RequestID, a.Arguments = text.Cut(a.RequestID, maxName), text.Cut(a.Arguments, maxArguments)
	return r
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
	return hex.EncodeToString(h.Sum(nil))
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
func granted(all []*record, keys []string) bool {
	var given []string
	for _, r := range all {
		if r.Allowed {
			given = append(given, r.Grants...)
		}
	}
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(k string) bool { return !slices.Contains(given, k) })
}

// Ruling returns the current ruling on a waiting ask, and stores a change, such as an expired deadline.
func (d *Register) Ruling(ctx context.Context, id string) (ruling boulder.Ruling, err error) {
	changed := false
	rule := func(r *record) error {
		if r.Ask == nil {
			return fmt.Errorf("%w: there is no ask %s", ErrNotFound, r.ID)
		}
		ruling = d.ruling(&r.Blocker)
		changed, r.Ask.Reply = ruling.Reply != r.Ask.Reply, ruling.Reply
		return nil
	}
	if err = d.withRecord(ctx, reading, id, rule); err == nil && changed {
		err = d.withRecord(ctx, changing, id, rule)
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
	case b.Status == boulder.BlockerPending && d.now().Before(b.Until):
		ruling.Reply, ruling.Until = boulder.ReplyWaiting, b.Until
	default:
		ruling.Message = d.Instruction(*b)
	}
	return ruling
}

// Gone stores that the session got no reply: it stopped waiting, or OpenCode rejected this ask with another one. The
// user still sees the blocker; an answer goes into the next prompt. Idempotent.
func (d *Register) Gone(ctx context.Context, id string) error {
	return d.withRecord(ctx, changing, id, func(r *record) error {
		if r.Ask != nil {
			r.Ask.Reply = boulder.ReplyGone
		}
		return nil
	})
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
