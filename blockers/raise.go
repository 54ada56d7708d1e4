package blockers

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	bolt "go.etcd.io/bbolt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Raise records what an agent reports with the tool, see [ReadInput]. It is on disk when Raise returns. Nothing was
// recorded after an error: [*InputError], [ErrOff], [ErrTooMany], or one of the database.
//
// The same question and context (ignoring white space) in the same session within [Config.Cooldown] is a duplicate:
// Raise returns the first record, unless only the new one blocks progress.
func (d *Register) Raise(ctx context.Context, scope boulder.BlockerScope, in boulder.Blocker) (b boulder.Blocker, err error) {
	if err := cmp.Or(checkInput(in, &in.Hard, nil, nil), checkScope(scope)); err != nil {
		return b, err
	}
	raised := in
	raised.BlockerScope, raised.Status, raised.CreatedAt = scope, boulder.BlockerPending, d.now()
	raised.Options = slices.Clone(in.Options)
	d.sanitize(&raised)
	if on, err := d.on(ctx, scope); err != nil || !on { // a check that creates no database
		return b, cmp.Or(err, ErrOff)
	}
	return d.storeOnce(ctx, &record{Blocker: raised}, d.cfg.Max, func(r *record) bool {
		return r.SessionID == scope.SessionID && raised.CreatedAt.Sub(r.CreatedAt) < d.cfg.Cooldown && r.Ask == nil &&
			(r.Hard || !raised.Hard) && text.Fold(r.Question) == text.Fold(raised.Question) &&
			text.Fold(r.Context) == text.Fold(raised.Context)
	})
}

// RaiseFor records a blocker of the verdict on a turn, once per turn, regardless of switches and [Config.Max].
func (d *Register) RaiseFor(ctx context.Context, in boulder.Blocker, turn int) (boulder.Blocker, error) {
	r := &record{Blocker: in, Same: hashed("turn", in.BoulderID, in.SubTaskID, strconv.Itoa(in.Attempt), strconv.Itoa(turn))}
	r.Status, r.CreatedAt = boulder.BlockerPending, d.now()
	d.sanitize(&r.Blocker)
	r.Question, r.Context = text.Cut(r.Question, maxQuestion), text.Cut(r.Context, maxContext)
	return d.storeOnce(ctx, r, math.MaxInt, func(old *record) bool { return old.Same == r.Same })
}

// storeOnce stores r, unless same matches existing records: then it returns the newest of them. See add for most.
func (d *Register) storeOnce(ctx context.Context, r *record, most int, same func(*record) bool) (b boulder.Blocker, err error) {
	err = d.with(ctx, making, func(tx *bolt.Tx) error {
		all := d.readable(tx)
		for _, old := range slices.Backward(all) {
			if same(old) {
				r = old
				return nil
			}
		}
		return d.add(tx, all, r, most)
	})
	if err != nil {
		return b, err
	}
	b = r.Blocker
	d.cfg.Logger.Info("blocker: recorded", "id", b.ID, "session", b.SessionID, "boulder", b.BoulderID,
		"sub_task", b.SubTaskID, "category", b.Category, "hard", b.Hard)
	return b, nil
}

// Adopt records a blocker from a register on another machine under its id, once. It fails if another scope has that id.
func (d *Register) Adopt(ctx context.Context, b boulder.Blocker) error {
	key, err := keyOf(b.ID)
	if err != nil {
		return err
	}
	r := &record{Blocker: b}
	if b.Ask != nil {
		r = d.recordOf(b)
		r.ID = b.ID
	}
	return d.with(ctx, making, func(tx *bolt.Tx) error {
		known := tx.Bucket(bucketRecords).Get(key)
		if known == nil {
			return put(tx, r)
		}
		old, err := decode(key, known)
		if err == nil && old.BlockerScope != b.BlockerScope {
			err = fmt.Errorf("%s is a blocker of boulder %s here, and of %s on another machine", b.ID, old.BoulderID, b.BoulderID)
		}
		return err
	})
}

// readable returns the records, without unreadable ones: those must not keep an agent from reporting.
func (d *Register) readable(tx *bolt.Tx) []*record {
	all, err := records(tx)
	if err != nil {
		d.cfg.Logger.Warn("blockers: not read", "error", err)
	}
	return all
}

// add stores a record under a new id, unless its session already has most records.
func (d *Register) add(tx *bolt.Tx, all []*record, r *record, most int) error {
	n := 0
	for _, old := range all {
		if old.SessionID == r.SessionID {
			n++
		}
	}
	if n >= most {
		d.cfg.Logger.Warn("blocker: refused, too many", "session", r.SessionID, "blockers", n)
		return fmt.Errorf("%w: it has %d", ErrTooMany, n)
	}
	number, err := tx.Bucket(bucketRecords).NextSequence()
	if err != nil {
		return err
	}
	r.ID = idOf(number)
	return put(tx, r)
}

// sanitize cleans the texts that come from outside, and then redacts them: control characters may have hidden a secret.
func (d *Register) sanitize(b *boulder.Blocker) {
	for _, s := range texts(b) {
		*s = d.cfg.Redact(clean(*s))
	}
}

// Settlement is what the user decides about a blocker.
type Settlement struct {
	Status boulder.BlockerStatus // answered or skipped
	Answer string                // at most 4,000 characters; empty for a skip
	// Allowed gives the permission for the sub-task or, outside of a run, the session. Answer may then be empty.
	Allowed bool
}

// Settle stores the user's decision and returns the blocker. The number of an option stands for that option. Errors
// wrap [ErrNotFound], [ErrSettled] (with the stored blocker) or [ErrNoAnswer]. The caller then tells the boulder, if
// any, and calls [Register.Delivered].
func (d *Register) Settle(ctx context.Context, id string, s Settlement) (b boulder.Blocker, err error) {
	refuse := func(format string, args ...any) (boulder.Blocker, error) {
		return b, fmt.Errorf("%w to %s: "+format, append([]any{ErrNoAnswer, id}, args...)...)
	}
	s.Answer = d.cfg.Redact(clean(s.Answer))
	switch n, skip := utf8.RuneCountInString(s.Answer), s.Status == boulder.BlockerSkipped; {
	case !s.Status.Settled():
		return refuse("it cannot be settled as %q", s.Status)
	case skip && (n > 0 || s.Allowed):
		return refuse("what is skipped gets none")
	case !skip && n == 0 && !s.Allowed:
		return refuse("it is empty")
	case n > maxAnswer:
		return refuse("it has %d characters and may have %d: put it into a file of the project and name that", n, maxAnswer)
	}
	err = d.withRecord(ctx, changing, id, func(r *record) error {
		b = r.Blocker
		switch {
		case b.Status.Settled():
			return fmt.Errorf("%s is %s: %w", b.ID, b.Status, ErrSettled)
		case s.Allowed && len(r.Grants) == 0:
			_, err := refuse("it asks for no permission, so there is none to give: answer it with a text")
			return err
		}
		r.Status, r.Answer, r.Allowed = s.Status, chosen(b.Options, s.Answer), s.Allowed
		r.SettledAt = d.now()
		b = r.Blocker
		return nil
	})
	if err != nil {
		return b, err
	}
	d.cfg.Logger.Info("blocker: settled", "id", b.ID, "status", b.Status, "allowed", b.Allowed)
	return b, nil
}

// chosen replaces the displayed number of an option with its text. Any other answer stays.
func chosen(options []string, answer string) string {
	n, err := strconv.Atoi(answer)
	if err != nil || n < 1 || n > len(options) || slices.Contains(options, answer) ||
		n == maxOptions && strings.HasPrefix(options[n-1], "… (") { // stands for those left out, see bounded
		return answer
	}
	return options[n-1]
}

// Delivered stores that the boulder has the answer. Idempotent.
func (d *Register) Delivered(ctx context.Context, id string) error {
	return d.withRecord(ctx, changing, id, func(r *record) error {
		if !r.Status.Settled() {
			return fmt.Errorf("%s is not settled, so there is nothing to deliver", r.ID)
		}
		r.Delivered = true
		return nil
	})
}

// Standing says who still needs an answer to a blocker.
type Standing string

const (
	// Awaited: work waits for the user's answer, or will at the end of the turn.
	Awaited Standing = "awaited"
	// Choice: the agent chose for itself and continued; an answer still reaches it.
	Choice Standing = "choice"
	// Moot: not answered, and no longer needed.
	Moot Standing = "moot"
	// Over: settled by the user.
	Over Standing = "settled"
)

// SubTaskOf returns the sub-task that an answer to a blocker reaches, or nil and why it reaches none.
func SubTaskOf(b *boulder.Blocker, of boulder.Boulder, tasks []*boulder.SubTask) (t *boulder.SubTask, why string) {
	i := slices.IndexFunc(tasks, func(t *boulder.SubTask) bool { return t.ID == b.SubTaskID })
	switch {
	case of.ID == "":
		return nil, fmt.Sprintf("boulder %s is not here any more", b.BoulderID)
	case of.Status.Terminal() || i < 0:
		return nil, fmt.Sprintf("boulder %s is %s", b.BoulderID, of.Status)
	case tasks[i].Status.Terminal():
		return nil, fmt.Sprintf("sub-task %q is %s", b.SubTaskID, tasks[i].Status)
	}
	return tasks[i], ""
}

// StandingOf returns the standing of a blocker. t is its sub-task, see [SubTaskOf]; nil outside of a run.
func StandingOf(b *boulder.Blocker, t *boulder.SubTask, now time.Time) Standing {
	inRun := b.BoulderID != ""
	switch {
	case b.Status.Settled():
		return Over
	case inRun && (t == nil || t.Status.Terminal()):
		return Moot
	case Waiting(b, now):
		return Awaited
	case !b.Hard:
		return Choice
	case inRun && b.Attempt != t.Attempts: // retried without the answer, see boulder.SubTask.AwaitedBy
		return Moot
	}
	return Awaited
}

// Waiting reports whether a session waits for the user's answer to OpenCode's ask.
func Waiting(b *boulder.Blocker, now time.Time) bool {
	return b.Ask != nil && b.Ask.Reply == boulder.ReplyWaiting && !b.Status.Settled() && b.Until.After(now)
}
