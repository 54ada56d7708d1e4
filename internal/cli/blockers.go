package cli

import (
	"context"
	"errors"
	"fmt"
	"github.com/bouldermgr/manager/internal/config"
	"path/filepath"
	"slices"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/store"
)

// desk opens the project's blockers. Nothing is read or made yet.
func (a *app) desk(project string, c *config.Config) (*blockers.Desk, error) {
	cfg := c.Blockers.Desk(project, filepath.Join(project, store.DirName, blockers.FileName))
	cfg.Redact, cfg.Logger = a.secrets.Text, a.logger()
	d, err := blockers.Open(cfg)
	if err != nil {
		return nil, usagef("configuration: %w", err)
	}
	return d, nil
}

// blockersHere opens the blockers of the project that the command line is about.
func (a *app) blockersHere() (*blockers.Desk, error) {
	project, err := a.project()
	if err != nil {
		return nil, err
	}
	c, err := a.loadConfig(project)
	if err != nil {
		return nil, err
	}
	if err := a.learnSecrets(c); err != nil {
		return nil, err
	}
	return a.desk(project, c)
}

// handover is what became of an answer on its way to the sub-task that has the blocker.
type handover string

const (
	handedOver handover = "handed_over" // the boulder has it, and goes on with it when it runs
	overBefore handover = "over"        // nothing of the sub-task, or of the boulder, goes on
	notAsked   handover = "not_asked"   // the boulder has not heard of the blocker yet: it gets both at once
	noBoulder  handover = "no_boulder"  // it came up in a session outside of a run
	kept       handover = "kept"        // it could not be handed over, and is when the boulder is run the next time
)

// deliver hands the answers over that a boulder does not have yet: given while nobody could take them, or in the moment
// in which the blocker was on its way itself. Call it before a boulder is taken up again, with what is on the disk
// ([onDisk]), and while it runs after each [boulder.BlockerRaised], from a goroutine that the run does not wait for.
func deliver(ctx context.Context, d *blockers.Desk, r reader, orders control.Steerer, boulderID string) error {
	open, err := d.Undelivered(ctx, boulderID)
	for i := range open {
		_, oneErr := handOver(ctx, d, r, orders, &open[i])
		err = errors.Join(err, oneErr)
	}
	return err
}

// passOver keeps the ids of blockers that a boulder knows from being given to others: it would take those for known, and
// not wait for an answer to them. Call it before a boulder is taken up again.
func passOver(ctx context.Context, d *blockers.Desk, r reader, boulderID string) error {
	detail, err := r.Get(ctx, boulderID)
	for i := range detail.SubTasks {
		for _, b := range detail.SubTasks[i].Blockers {
			err = errors.Join(err, d.PassOver(ctx, b.ID))
		}
	}
	return err
}

// handOver gives a settled blocker to its boulder, and takes down that it has it. It may be called again.
func handOver(
	ctx context.Context, d *blockers.Desk, r reader, orders control.Steerer, b *boulder.Blocker,
) (handover, error) {
	how, err := give(ctx, r, orders, b)
	if err != nil {
		return kept, fmt.Errorf("hand the answer to %s over: %w", b.ID, err)
	}
	if how == notAsked {
		return how, nil
	}
	return how, d.Delivered(ctx, b.ID)
}

func give(ctx context.Context, r reader, orders control.Steerer, b *boulder.Blocker) (handover, error) {
	if b.BoulderID == "" {
		return noBoulder, nil
	}
	how, err := standing(ctx, r, b)
	if err != nil || how != "" {
		return how, err
	}
	err = orders.Order(ctx, b.BoulderID, settleOrder(b))
	if err != nil { // somebody was faster, it ended in this moment, or it was carried out and the answer to that was lost
		if how, readErr := standing(ctx, r, b); readErr == nil && how != "" {
			return how, nil
		}
	}
	return handedOver, err
}

// standing says what there is to do for a blocker at its boulder: nothing, unless it is empty.
func standing(ctx context.Context, r reader, b *boulder.Blocker) (handover, error) {
	detail, err := r.Get(ctx, b.BoulderID)
	switch {
	case errors.Is(err, boulder.ErrNotFound): // removed, with its database
		return overBefore, nil
	case detail.Boulder.ID == "":
		return "", err
	case detail.Boulder.Status.Terminal():
		return overBefore, nil
	}
	t := slices.IndexFunc(detail.SubTasks, func(t boulder.SubTask) bool { return t.ID == b.SubTaskID })
	if t < 0 || detail.SubTasks[t].Status.Terminal() {
		return overBefore, nil
	}
	raised := detail.SubTasks[t].Blockers
	i := slices.IndexFunc(raised, func(r boulder.RaisedBlocker) bool { return r.ID == b.ID })
	switch {
	case i < 0:
		return notAsked, nil
	case raised[i].Status.Settled():
		return handedOver, nil
	}
	return "", nil
}

// settleOrder is a settled blocker as the order to its boulder.
func settleOrder(b *boulder.Blocker) boulder.Order {
	return boulder.Order{
		Do: boulder.OrderSettle, SubTaskID: b.SubTaskID, BlockerID: b.ID, Text: b.Answer, Allowed: b.Allowed,
	}
}

// settled is what `manager blockers answer` and `skip` print, and clarify for each answer. Fields are added in later
// versions, never changed.
type settled struct {
	Type string `json:"type"` // blocker-answer
	boulder.Blocker
	// Handover is what became of the answer: handed_over, over, not_asked, no_boulder or kept.
	Handover handover `json:"handover"`
	// BoulderStatus is that of the boulder afterwards; empty outside of a run.
	BoulderStatus boulder.Status `json:"boulder_status,omitempty"`
	// RunBy is the process that runs the boulder; null if none does.
	RunBy *control.Holder `json:"run_by"`
	// Awaited are the blockers that the sub-task still waits for.
	Awaited []string `json:"awaited"`
}

// raisedWait is how long to wait for a blocker that its boulder has not heard of: it is told within the turn.
const raisedWait = 2 * time.Second

// settle stores an answer, and hands it to the boulder. With an error there is a report as well if the answer is stored:
// it is then handed over when the boulder is run the next time.
func (a *app) settle(ctx context.Context, d *blockers.Desk, id string, s blockers.Settlement) (*settled, error) {
	b, err := d.Settle(ctx, id, s)
	if err != nil {
		return nil, err
	}
	report := &settled{Type: "blocker-answer", Blocker: b, Handover: noBoulder, Awaited: []string{}}
	if b.BoulderID == "" {
		return report, d.Delivered(ctx, b.ID)
	}
	for giveUp := time.Now().Add(beginWait); ; {
		err = a.handOverOnce(ctx, d, report)
		again := errors.Is(err, control.ErrNotServed) || errors.Is(err, control.ErrNotReady) ||
			report.Handover == notAsked && report.RunBy != nil && time.Now().Before(giveUp.Add(raisedWait-beginWait))
		if !again || time.Now().After(giveUp) {
			return report, err
		}
		if restErr := rest(ctx, deskStep); restErr != nil {
			return report, restErr
		}
	}
}

// handOverOnce hands a settled blocker over to whoever takes orders now.
func (a *app) handOverOnce(ctx context.Context, d *blockers.Desk, report *settled) error {
	report.Handover = kept
	there, err := a.openDesk(ctx)
	if errors.Is(err, errNothing) { // the state was removed
		report.Handover = overBefore
		return d.Delivered(ctx, report.ID)
	}
	if err != nil {
		return err
	}
	defer there.close()
	if report.Handover, err = handOver(ctx, d, there, there.orders, &report.Blocker); err != nil {
		return err
	}
	detail, _ := there.Get(ctx, report.BoulderID) // what was to be done is done: without it the report says less
	if detail.Boulder.ID == "" {
		return nil
	}
	report.BoulderStatus, report.RunBy, report.Awaited = detail.Boulder.Status, nil, []string{}
	if runs(there.holder, detail.Boulder) {
		report.RunBy = there.holder
	}
	for i := range detail.SubTasks {
		if t := &detail.SubTasks[i]; t.ID == report.SubTaskID {
			for _, waits := range t.AwaitedBy(t.Attempts) {
				report.Awaited = append(report.Awaited, waits.ID)
			}
		}
	}
	return nil
}
