package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
)

// Blockers opens the project's blockers. Nothing is read or made yet.
func (p *Project) Blockers() (*blockers.Desk, error) {
	cfg := p.cfg.Blockers.Desk(p.dir)
	cfg.Redact, cfg.Logger = p.secrets.Text, p.log
	d, err := blockers.Open(cfg)
	if err != nil {
		return nil, usagef("configuration: %w", err)
	}
	return d, nil
}

// Handover is what became of an answer on its way to the sub-task that has the blocker.
type Handover string

const (
	HandedOver Handover = "handed_over" // the boulder has it, and goes on with it when it runs
	OverBefore Handover = "over"        // nothing of the sub-task, or of the boulder, goes on
	NotAsked   Handover = "not_asked"   // the boulder has not heard of the blocker yet: it gets both at once
	NoBoulder  Handover = "no_boulder"  // it came up in a session outside of a run
	Kept       Handover = "kept"        // it could not be handed over, and is when the boulder is run the next time
)

// deliver hands the answers over that a boulder does not have yet: given while nobody could take them, or in the moment
// in which the blocker was on its way itself. Call it before a boulder is taken up again, with what is on the disk
// ([onDisk]), and while it runs after each [boulder.BlockerRaised], from a goroutine that the run does not wait for.
func deliver(ctx context.Context, d *blockers.Desk, there *Desk, boulderID string) error {
	open, err := d.Undelivered(ctx, boulderID)
	for i := range open {
		_, oneErr := handOver(ctx, d, there, &open[i])
		err = errors.Join(err, oneErr)
	}
	return err
}

// handOver gives a settled blocker to its boulder, and stores that it has it. It may be called again.
func handOver(ctx context.Context, d *blockers.Desk, there *Desk, b *boulder.Blocker) (Handover, error) {
	how, err := HandedOver, there.Orders.Order(ctx, b.BoulderID, boulder.Order{
		Do: boulder.OrderSettle, SubTaskID: b.SubTaskID, BlockerID: b.ID, Text: b.Answer, Allowed: b.Allowed,
	})
	if err != nil { // perhaps it has nothing to do with it, any more or yet, or has had it before
		detail, readErr := there.Get(ctx, b.BoulderID)
		t, _ := blockers.SubTaskOf(b, detail.Boulder, detail.SubTasks)
		known := func(k boulder.RaisedBlocker) bool { return k.ID == b.ID }
		switch {
		case detail.Boulder.ID == "" && !errors.Is(readErr, boulder.ErrNotFound):
			how = Kept
		case t == nil:
			how = OverBefore
		case !slices.ContainsFunc(t.Blockers, known):
			return NotAsked, nil
		case !t.Blockers[slices.IndexFunc(t.Blockers, known)].Status.Settled():
			how = Kept
		}
		if how == Kept {
			return how, fmt.Errorf("hand the answer to %s over: %w", b.ID, err)
		}
	}
	return how, d.Delivered(ctx, b.ID)
}

// Answered is what `manager blockers answer` and `skip` print, and clarify for each answer. Fields are added in later
// versions, never changed.
type Answered struct {
	Type string `json:"type"` // blocker-answer
	boulder.Blocker
	// Handover is what became of the answer: handed_over, over, not_asked, no_boulder or kept.
	Handover Handover `json:"handover"`
	// BoulderStatus is that of the boulder afterwards; empty outside of a run.
	BoulderStatus boulder.Status `json:"boulder_status,omitempty"`
	// RunBy is the process that runs the boulder; null if none does.
	RunBy *control.Holder `json:"run_by"`
	// Awaited are the blockers that the sub-task still waits for.
	Awaited []string `json:"awaited"`
}

// raisedWait is how long to wait for a blocker that its boulder has not heard of: it is told within the turn.
const raisedWait = 2 * time.Second

// Answer stores an answer, and hands it to the boulder. With an error there is a report as well if the answer is stored:
// it is then handed over when the boulder is run the next time.
func (p *Project) Answer(ctx context.Context, d *blockers.Desk, id string, s blockers.Settlement) (*Answered, error) {
	b, err := d.Settle(ctx, id, s)
	if err != nil {
		return nil, err
	}
	report := &Answered{Type: "blocker-answer", Blocker: b, Handover: Kept, Awaited: []string{}}
	if b.BoulderID == "" {
		report.Handover = NoBoulder
		return report, d.Delivered(ctx, b.ID)
	}
	for last := range Tries(ctx, step, raisedWait) {
		err = p.Steer(ctx, func(there *Desk) (err error) {
			if report.Handover, err = handOver(ctx, d, there, &report.Blocker); err != nil {
				return err
			}
			detail, _ := there.Get(ctx, report.BoulderID) // what was to be done is done: without it the report says less
			report.BoulderStatus, report.RunBy, report.Awaited = detail.Boulder.Status, nil, []string{}
			if there.Holder.Runs(detail.Boulder) {
				report.RunBy = there.Holder
			}
			if t, _ := blockers.SubTaskOf(&report.Blocker, detail.Boulder, detail.SubTasks); t != nil {
				for _, waits := range t.AwaitedBy(t.Attempts) {
					report.Awaited = append(report.Awaited, waits.ID)
				}
			}
			return nil
		})
		switch {
		case errors.Is(err, ErrNothing): // the state was removed
			report.Handover = OverBefore
			return report, d.Delivered(ctx, b.ID)
		case last, !errors.Is(err, control.ErrNotServed) && (report.Handover != NotAsked || report.RunBy == nil):
			return report, err
		}
	}
	return report, context.Cause(ctx)
}
