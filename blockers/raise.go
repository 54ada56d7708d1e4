package blockers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// Raise records what an agent reports with the tool, see [ReadInput]. It is on disk when Raise returns. Nothing was
// recorded after an error: [*InputError], [ErrOff], [ErrTooMany], or one of the database.
//
// The same question and context (ignoring white space) in the same session is a duplicate until it is settled, and
// within [Config.Cooldown]: Raise returns the first record, unless only the new one blocks progress.
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
	raised.Key = hashed("call", scope.SessionID, text.Fold(raised.Question), text.Fold(raised.Context))
	err = d.within(ctx, making, scope, func(book boulder.BlockerBook, all []boulder.Blocker) (err error) {
		for _, old := range slices.Backward(all) {
			recent := !old.Status.Settled() || raised.CreatedAt.Sub(old.CreatedAt) < d.cfg.Cooldown
			if old.Key == raised.Key && recent && (old.Hard || !raised.Hard) {
				b = old
				return nil
			}
		}
		b, err = d.add(ctx, book, all, raised)
		return err
	})
	if err != nil {
		return boulder.Blocker{}, err
	}
	return b, nil
}

// add stores a blocker, unless its session already has as many as it may have.
func (d *Register) add(ctx context.Context, book boulder.BlockerBook, all []boulder.Blocker, b boulder.Blocker) (boulder.Blocker, error) {
	n := 0
	for _, old := range all {
		if old.SessionID == b.SessionID {
			n++
		}
	}
	if n >= d.cfg.Max {
		d.cfg.Logger.Warn("blocker: refused, too many", "session", b.SessionID, "blockers", n)
		return b, fmt.Errorf("%w: it has %d", ErrTooMany, n)
	}
	b, err := book.Raise(ctx, b)
	if err == nil {
		d.cfg.Logger.Info("blocker: recorded", "id", b.ID, "session", b.SessionID, "boulder", b.BoulderID,
			"sub_task", b.SubTaskID, "category", b.Category, "hard", b.Hard)
	}
	return b, err
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

// Check returns the settlement of a blocker as it is to be stored: without secrets, and with the text of an option for
// its number. Errors wrap [ErrSettled] or [ErrNoAnswer].
func (d *Register) Check(b *boulder.Blocker, s Settlement) (Settlement, error) {
	refuse := func(format string, args ...any) (Settlement, error) {
		return s, fmt.Errorf("%w to %s: "+format, append([]any{ErrNoAnswer, b.ID}, args...)...)
	}
	s.Answer = d.cfg.Redact(clean(s.Answer))
	switch n, skip := utf8.RuneCountInString(s.Answer), s.Status == boulder.BlockerSkipped; {
	case b.Status.Settled():
		return s, fmt.Errorf("%s is %s: %w", b.ID, b.Status, ErrSettled)
	case !s.Status.Settled():
		return refuse("it cannot be settled as %q", s.Status)
	case skip && (n > 0 || s.Allowed):
		return refuse("what is skipped gets none")
	case !skip && n == 0 && !s.Allowed:
		return refuse("it is empty")
	case n > maxAnswer:
		return refuse("it has %d characters and may have %d: put it into a file of the project and name that", n, maxAnswer)
	case s.Allowed && !b.AsksPermission():
		return refuse("it asks for no permission, so there is none to give: answer it with a text")
	case !skip && noOption(b.Options, s.Answer):
		return refuse("there is no option %s, only 1 to %d: if you mean the number, say it in a sentence", s.Answer, len(b.Options))
	}
	s.Answer = chosen(b.Options, s.Answer)
	return s, nil
}

// Settle stores the user's decision about a blocker outside of runs, and returns it. One of a run is settled by an order
// to its boulder. Errors wrap [ErrNotFound] or are those of [Register.Check], with the stored blocker.
func (d *Register) Settle(ctx context.Context, id string, s Settlement) (b boulder.Blocker, err error) {
	err = d.withRecord(ctx, changing, id, func(r *record) error {
		b = r.Blocker
		s, err := d.Check(&b, s)
		if err != nil {
			return err
		}
		r.Status, r.Answer, r.Allowed, r.SettledAt = s.Status, s.Answer, s.Allowed, d.now()
		b = r.Blocker
		return nil
	})
	if err == nil {
		d.cfg.Logger.Info("blocker: settled", "id", b.ID, "status", b.Status, "allowed", b.Allowed)
	}
	return b, err
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

// noOption reports whether an answer looks like the number of an option that is not there, and like nothing else: options that have
// digits themselves, as "5 retries", may be answered with another number.
func noOption(options []string, answer string) bool {
	n, err := strconv.Atoi(answer)
	number := func(option string) bool { return strings.ContainsAny(option, "0123456789") }
	return err == nil && len(options) > 0 && (n < 1 || n > len(options)) && !slices.ContainsFunc(options, number)
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

// SubTaskOf returns the sub-task that an answer to a blocker reaches, or nil and why it reaches none. One to a question of the plan
// reaches all that depend on it, also after the end, since they can be redone: then both are empty.
func SubTaskOf(b *boulder.Blocker, of boulder.Boulder, tasks []*boulder.SubTask) (t *boulder.SubTask, why string) {
	i := slices.IndexFunc(tasks, func(t *boulder.SubTask) bool { return t.ID == b.SubTaskID })
	switch {
	case of.ID == "":
		return nil, fmt.Sprintf("boulder %s is not here any more", boulder.ShortID(b.BoulderID))
	case b.PlanQuestion != "" && !of.Closed() && of.Status != boulder.Cancelled && of.ArchivedAt.IsZero():
		return nil, ""
	case of.Status.Terminal() || i < 0:
		return nil, fmt.Sprintf("boulder %s is %s", boulder.ShortID(b.BoulderID), of.Status)
	case tasks[i].Status.Terminal():
		return nil, fmt.Sprintf("sub-task %q is %s", b.SubTaskID, tasks[i].Status)
	}
	return tasks[i], ""
}

// StandingOf returns the standing of a blocker. t and over are the results of [SubTaskOf]; empty outside of a run.
func StandingOf(b *boulder.Blocker, t *boulder.SubTask, over string, now time.Time) Standing {
	inRun := b.BoulderID != ""
	switch {
	case b.Status.Settled():
		return Over
	case b.PlanQuestion != "" && over == "":
		return Choice
	case inRun && (t == nil || t.Status.Terminal()):
		return Moot
	case b.Waiting(now) && (!inRun || b.Attempt == t.Attempts):
		return Awaited
	case !b.Hard:
		return Choice
	case inRun && b.Attempt != t.Attempts: // retried without the answer, see boulder.SubTask.AwaitedBy
		return Moot
	}
	return Awaited
}
