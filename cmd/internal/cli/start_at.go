package cli

import (
	"context"
	"time"

	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

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
		if d < 0 {
			return time.Time{}, usagef("--at %s: it lies in the past", said)
		}
		return now.Add(d), nil
	}
	clock, err := time.Parse("15:04", said)
	if err != nil {
		return time.Time{}, usagef("--at %s: use a time of day, as 01:00, a time from now, as 90m, or reset", said)
	}
	on := func(day int) time.Time { // not 24 hours later: days differ in length
		return time.Date(now.Year(), now.Month(), now.Day()+day, clock.Hour(), clock.Minute(), 0, 0, now.Location())
	}
	if today := on(0); today.After(now) {
		return today, nil
	}
	return on(1), nil
}
