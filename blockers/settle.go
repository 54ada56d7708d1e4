package blockers

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
)

// Settlement is what a person says about a blocker.
type Settlement struct {
	Status boulder.BlockerStatus // answered or skipped
	Answer string                // at most 4,000 characters; none of a skip
	// Allowed gives the permission that was asked for, for the rest of the sub-task (of the session, outside of a run). An
	// answer may then be empty.
	Allowed bool
}

// Settle stores what the user says, and gives the blocker as it is then. Errors wrap [ErrNotFound], [ErrSettled] (with
// the blocker as it is) or [ErrNoAnswer]. Whoever settles a blocker of a boulder then tells the boulder, and calls
// [Desk.Delivered].
func (d *Desk) Settle(ctx context.Context, id string, s Settlement) (b boulder.Blocker, err error) {
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
	err = d.one(ctx, changing, id, func(r *record) error {
		b = r.Blocker
		switch {
		case b.Status.Settled():
			return fmt.Errorf("%s is %s: %w", b.ID, b.Status, ErrSettled)
		case s.Allowed && len(r.Grants) == 0:
			_, err := refuse("it asks for no permission, so there is none to give: answer it with a text")
			return err
		}
		r.Blocker.Status, r.Blocker.Answer, r.Blocker.Allowed = s.Status, s.Answer, s.Allowed
		r.Blocker.SettledAt = d.now()
		b = r.Blocker
		return nil
	})
	if err != nil {
		return b, err
	}
	d.cfg.Logger.Info("blocker: settled", "id", b.ID, "status", b.Status, "allowed", b.Allowed)
	return b, nil
}

// Delivered stores that the boulder has the answer. It may be called again.
func (d *Desk) Delivered(ctx context.Context, id string) error {
	return d.one(ctx, changing, id, func(r *record) error {
		if !r.Blocker.Status.Settled() {
			return fmt.Errorf("%s is not settled, so there is nothing to deliver", r.Blocker.ID)
		}
		r.Delivered = true
		return nil
	})
}
