package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// Reading is a boulder as it was read, once, with what tells how it stands.
type Reading struct {
	boulder.Snapshot
	Events  []boulder.Event     // of its log, or the newest of them
	Records []boulder.Blocker   // of its blockers
	Unread  error               // not nil: the blockers are as the boulder knows them, without these records
	Holder  *control.Holder     // nil: no process holds the state
	Limits  orchestrator.Limits // that explain why something waits
	Others  []boulder.Snapshot  // what the process runs that runs it
	Now     time.Time
}

// Running reports whether a process is at it.
func (r *Reading) Running() bool { return r.Holder.Runs(r.Boulder) }

// Worked is the wall clock of the run. One that a crash has ended worked until its newest event.
func (r *Reading) Worked() time.Duration {
	if r.Running() {
		return r.Boulder.WorkedBy(r.Now)
	}
	return r.Boulder.WorkedBy(r.Boulder.UpdatedAt)
}

// Raised are its blockers, and who has use for an answer to them.
func (r *Reading) Raised() []report.Blocker {
	return report.Blockers(r.Boulder, r.SubTasks, r.Records, r.Now)
}

// Newest is how many events tell what the agents do right now.
const Newest = 200

// Reading reads what tells how a boulder stands besides what was read of it.
func (p *Project) Reading(ctx context.Context, there *Access, d boulder.Snapshot, events []boulder.Event) *Reading {
	r := &Reading{
		Snapshot: d, Events: events, Holder: there.Holder, Limits: p.LimitsOf(there.Holder), Others: there.others(ctx, d.Boulder.ID),
		Now: time.Now(),
	}
	of := blockers.Filter{BlockerScope: boulder.BlockerScope{BoulderID: d.Boulder.ID}}
	if r.Records, r.Unread = p.Blockers().List(ctx, of); r.Unread != nil {
		r.Unread = fmt.Errorf("the blockers are as the boulder knows them, without what is in %s: %w", blockers.FileName, r.Unread)
	}
	return r
}

// Look reads the boulder that the user means, see [Get], and makes something of it. With an error there is that as well
// if at least the boulder's head could be read. Nothing is held when it returns: a pager must not keep a run from
// starting.
func Look[T any](
	ctx context.Context, p *Project, ref string, of func(ctx context.Context, there *Access, d boulder.Snapshot) (T, error),
) (made T, err error) {
	there, err := p.Read(ctx)
	if err != nil {
		return made, err
	}
	defer there.Close()
	d, err := Get(ctx, there, ref)
	if d.Boulder.ID != "" {
		var ofErr error
		made, ofErr = of(ctx, there, d)
		err = cmp.Or(err, ofErr)
	}
	return made, err
}

// Snapshot reads the boulder that the user means, and nothing but its state.
func (p *Project) Snapshot(ctx context.Context, ref string) (boulder.Snapshot, error) {
	return Look(ctx, p, ref, func(_ context.Context, _ *Access, d boulder.Snapshot) (boulder.Snapshot, error) {
		return d, nil
	})
}

// Recent is [Project.Reading] with the newest events, which tell what the agents do right now. With an error some lack.
func (p *Project) Recent(ctx context.Context, there *Access, d boulder.Snapshot) (*Reading, error) {
	events, err := there.Events(ctx, d.Boulder.ID, d.Boulder.Seq-min(d.Boulder.Seq, Newest), 0)
	return p.Reading(ctx, there, d, events), err
}

// Whole is [Project.Reading] with all events. With an error something lacks.
func (p *Project) Whole(ctx context.Context, there *Access, d boulder.Snapshot) (*Reading, error) {
	events, err := there.Events(ctx, d.Boulder.ID, 0, 0)
	return p.Reading(ctx, there, d, events), err
}

// ReadReport makes the report of a boulder. With an error it lacks something.
func (p *Project) ReadReport(ctx context.Context, there *Access, d boulder.Snapshot) (*report.Report, error) {
	r, err := p.Whole(ctx, there, d)
	return p.Report(r), errors.Join(err, r.Unread)
}

// Report makes the report of a boulder, without secrets, from its events with the evidence of all turns.
func (p *Project) Report(r *Reading) *report.Report {
	in := report.Input{
		Boulder: r.Boulder, SubTasks: r.SubTasks, Attempts: r.Attempts, Turns: map[string]boulder.Turn{},
		Blockers: r.Records, Running: r.Running(), Away: r.Boulder.Engine != "" && r.Holder == nil, Now: r.Now.Round(0),
	}
	for _, turn := range boulder.Turns(r.Events, "") { // the newest that tells how its sub-task stands
		if turn.Evidence != nil || turn.Verdict != nil {
			in.Turns[turn.SubTaskID] = turn
		}
	}
	made := secret.Each(*report.New(in), p.secrets)
	return &made
}

// Version differs from an earlier one where the state may have changed meanwhile, whoever changed it. Nothing is opened.
func (p *Project) Version() (v string) {
	for _, name := range []string{store.FileName, blockers.FileName, control.SocketName} {
		if info, err := os.Stat(filepath.Join(p.stateDir(), name)); err == nil {
			v += fmt.Sprintln(name, info.ModTime().UnixNano(), info.Size())
		}
	}
	return v
}
