package project

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project/internal/control"
	"github.com/bouldermgr/manager/project/internal/watch"
	"github.com/bouldermgr/manager/project/report"
	"github.com/bouldermgr/manager/store"
)

// Reading is what views show of a boulder, read at one point in time.
type Reading struct {
	boulder.Snapshot
	Events []boulder.Event     // the whole log, or its newest events
	Holder *Holder             // nil: no process holds the state
	Limits orchestrator.Limits // that explain why sub-tasks wait
	Others []boulder.Snapshot  // other boulders of the process that runs this one
	Now    time.Time
}

// Running reports whether a process runs the boulder.
func (r *Reading) Running() bool { return r.Holder.Runs(r.Boulder) }

// Until is the end of what has been worked: now, or after a crash the newest event.
func (r *Reading) Until() time.Time {
	if r.Running() {
		return r.Now
	}
	return r.Boulder.UpdatedAt
}

// Worked returns the time during which a process ran the boulder, pauses excluded.
func (r *Reading) Worked() time.Duration { return r.Boulder.WorkedBy(r.Until()) }

// Raised returns the boulder's blockers, each with the sub-task that needs the answer.
func (r *Reading) Raised() []report.Blocker {
	return report.Blockers(r.Boulder, r.SubTasks, r.Now)
}

// Newest is how many events are enough to show what the agents do now.
const Newest = 200

// Reading adds blockers, holder and limits to a snapshot and events that were read.
func (p *Project) Reading(ctx context.Context, there *Access, d boulder.Snapshot, events []boulder.Event) *Reading {
	r := &Reading{
		Snapshot: d, Events: events, Holder: there.Holder, Limits: p.LimitsOf(there.Holder), Others: there.others(ctx, d.Boulder.ID),
		Now: time.Now(),
	}
	return r
}

// Look reads a boulder with [Get] and passes it to of. With an error it still returns of's result if the boulder's head
// could be read. The database is closed when it returns: a pager must not keep a run from starting. It calls of again if the
// holder has ended meanwhile.
func Look[T any](
	ctx context.Context, p *Project, ref string, of func(ctx context.Context, there *Access, d boulder.Snapshot) (T, error),
) (made T, err error) {
	err = p.reading(ctx, func(there *Access) error {
		d, err := Get(ctx, there, ref)
		if d.Boulder.ID != "" {
			var ofErr error
			made, ofErr = of(ctx, there, d)
			err = cmp.Or(err, ofErr)
		}
		return err
	})
	return made, err
}

// Snapshot is [Get] with access of its own.
func (p *Project) Snapshot(ctx context.Context, ref string) (boulder.Snapshot, error) {
	return Look(ctx, p, ref, func(_ context.Context, _ *Access, d boulder.Snapshot) (boulder.Snapshot, error) {
		return d, nil
	})
}

// Recent is [Project.Reading] with the [Newest] events. With an error some are missing.
func (p *Project) Recent(ctx context.Context, there *Access, d boulder.Snapshot) (*Reading, error) {
	events, err := there.Events(ctx, d.Boulder.ID, d.Boulder.Seq-min(d.Boulder.Seq, Newest), 0)
	return p.Reading(ctx, there, d, events), err
}

// Whole is [Project.Reading] with all events. With an error some are missing.
func (p *Project) Whole(ctx context.Context, there *Access, d boulder.Snapshot) (*Reading, error) {
	events, err := there.Events(ctx, d.Boulder.ID, 0, 0)
	return p.Reading(ctx, there, d, events), err
}

// ReadReport makes the report of a boulder. With an error it is incomplete.
func (p *Project) ReadReport(ctx context.Context, there *Access, d boulder.Snapshot) (*report.Report, error) {
	r, err := p.Whole(ctx, there, d)
	return p.Report(r), err
}

// Report makes the report of a boulder, without secrets. r needs all events.
func (p *Project) Report(r *Reading) *report.Report {
	in := report.Input{
		Boulder: r.Boulder, SubTasks: r.SubTasks, Attempts: r.Attempts, Turns: map[string]boulder.Turn{},
		Events: r.Events, Running: r.Running(), Away: r.Boulder.Engine != "" && r.Holder == nil, Now: r.Now.Round(0),
	}
	for _, turn := range boulder.Turns(r.Events, "") { // keeps the newest turn with evidence or verdict
		if turn.Evidence != nil || turn.Verdict != nil {
			in.Turns[turn.SubTaskID] = turn
		}
	}
	made := secret.Each(*report.New(in), p.secrets)
	return &made
}

// Version changes whenever any process may have changed the state. It opens nothing: it compares file times and sizes.
func (p *Project) Version() (v string) {
	for _, name := range []string{store.FileName, blockers.FileName, watch.FileName, control.SocketName} {
		if info, err := os.Stat(filepath.Join(p.stateDir(), name)); err == nil {
			v += fmt.Sprintln(name, info.ModTime().UnixNano(), info.Size())
		}
	}
	return v
}
