package cli

import (
	"context"
	"time"

	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

// farthest is how far off a run may begin.
const farthest = 90 * 24 * time.Hour

// startAt returns when a run with `--at` begins.
func (a *app) startAt(ctx context.Context, said string, req *project.Request) (time.Time, error) {
	now := time.Now()
	switch {
	case !a.runsElsewhere(req):
		return time.Time{}, usagef("--at needs --detach: the background server begins it")
	case said != "reset":
		return parseStart(said, now)
	}
	model, c, err := a.project.Reset(ctx, req)
	switch {
	case err != nil:
		return time.Time{}, err
	case c.Until.IsZero():
		return time.Time{}, usagef("--at reset: no provider has named a reset of what this would use: name a time, as --at 01:00")
	case !now.Before(c.Until):
		return time.Time{}, usagef("--at reset: the reset of %s was at %s: leave --at out", view.ModelName(model), text.Stamp(c.Until))
	}
	return c.Until, nil
}

// parseStart parses a time of day, of today or else of tomorrow, or a duration from now.
func parseStart(said string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(said); err == nil {
		switch {
		case d < 0:
			return time.Time{}, usagef("--at %s: it lies in the past", said)
		case d > farthest:
			return time.Time{}, usagef("--at %s: that is more than %s from now: is it a slip?", said, text.Elapsed(farthest))
		}
		return now.Add(d), nil
	}
	clock, err := time.Parse("15:04", said)
	if err != nil {
		return time.Time{}, usagef("--at %s: use a time of day, as 01:00, a time from now, as 90m, or reset", said)
	}
	// Minute by minute, as days differ in length: a clock that is set forward may skip the time, one set back says it twice.
	const day = 24 * 60
	wanted, last := clock.Hour()*60+clock.Minute(), now.Hour()*60+now.Minute()
	for at := now.Truncate(time.Minute).Add(time.Minute); ; at = at.Add(time.Minute) {
		shown := at.Hour()*60 + at.Minute()
		moved, missing := (shown-last+day)%day, (wanted-last+day)%day
		if shown == wanted || moved < day/2 && 0 < missing && missing < moved {
			return at, nil
		}
		last = shown
	}
}
