package project

import (
	"context"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/secret"
)

// Report makes the report of a boulder, without secrets, from what was read of it: its events with the evidence of all turns.
// With an error it lacks something.
func (p *Project) Report(
	ctx context.Context, d boulder.Snapshot, events []boulder.Event, running bool, now time.Time,
) (*report.Report, error) {
	in := report.Input{
		Boulder: d.Boulder, SubTasks: d.SubTasks, Attempts: d.Attempts, Turns: map[string]boulder.Turn{},
		Running: running, Now: now.Round(0),
	}
	for _, turn := range boulder.Turns(events, "") { // the newest that tells how its sub-task stands
		if turn.Evidence != nil || turn.Verdict != nil {
			in.Turns[turn.SubTaskID] = turn
		}
	}
	var err error
	if in.Blockers, err = p.BlockersOf(ctx, d.Boulder.ID); err != nil {
		err = fmt.Errorf("the report has blockers as the boulder knows them, without what is in %s: %w", blockers.FileName, err)
	}
	made := secret.Each(*report.New(in), p.secrets)
	return &made, err
}
