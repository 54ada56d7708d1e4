package project

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/store"
)

// Blockers opens the project's blockers. Nothing is read or made yet.
func (p *Project) Blockers() *blockers.Register {
	cfg := p.cfg.Blockers.Register(p.dir)
	cfg.Redact, cfg.Logger = p.secrets.Text, p.log
	d, err := blockers.Open(cfg)
	if err != nil {
		panic(err) // the configuration was checked by opening one
	}
	return d
}

// ListBlockers are those that fit a filter, with who has use for an answer, see [Project.Placed]. With an error there
// are those that can be read.
func (p *Project) ListBlockers(ctx context.Context, f blockers.Filter) ([]report.Blocker, error) {
	records, err := p.Blockers().List(ctx, f)
	return p.Placed(ctx, records), err
}

// Placed finds out who has use for answers to blockers, and sorts them: what is waited for first. Of a boulder that cannot be
// read, every blocker counts as waited for: that can be answered, and what is not shown cannot.
func (p *Project) Placed(ctx context.Context, all []boulder.Blocker) []report.Blocker {
	now, items, details := time.Now(), make([]report.Blocker, len(all)), map[string]*boulder.Snapshot{}
	there, err := p.Read(ctx)
	if err == nil {
		defer there.Close()
	}
	for i, b := range all {
		t, over := &boulder.SubTask{ID: b.SubTaskID, Attempts: b.Attempt}, ""
		if err == nil && b.BoulderID != "" {
			d, asked := details[b.BoulderID]
			if !asked {
				if of, err := there.Get(ctx, b.BoulderID); of.Boulder.ID != "" || errors.Is(err, boulder.ErrNotFound) {
					d = &of
				}
				details[b.BoulderID] = d
			}
			if d != nil {
				t, over = blockers.SubTaskOf(&b, d.Boulder, d.SubTasks)
			}
		}
		items[i] = report.NewBlocker(b, t, over, now)
	}
	report.SortBlockers(items, now)
	return items
}

// Settle is [Project.Answer] for what the user says. It refuses what can only be a slip.
func (p *Project) Settle(ctx context.Context, item *report.Blocker, s blockers.Settlement) (*Answered, error) {
	b, skip := &item.Blocker, s.Status == boulder.BlockerSkipped
	switch {
	case b.Status.Settled():
		said := text.JoinedBy(": ", fmt.Sprintf("%s is %s already, since %s", b.ID, b.Status, text.Stamp(b.SettledAt)),
			text.If(b.Allowed, "allowed"), text.OneLine(b.Answer))
		return nil, errors.New(text.JoinedBy("; say more with: manager note --sub-task ", said,
			text.If(item.Over == "" && b.SubTaskID != "", b.SubTaskID+` "…"`)))
	case b.AsksPermission() && !s.Allowed && affirms(s.Answer):
		return nil, usagef("%q alone does not give the permission, it would only be told to the agent: allow it with --allow"+
			" (/allow in clarify), or say more", s.Answer)
	case !skip && !s.Allowed && s.Answer == "":
		return nil, usagef("an answer needs a text, or --allow for a permission; to continue without: manager blockers skip %s", b.ID)
	case !skip && item.Over != "":
		return nil, errors.New(TooLate(item))
	}
	s.Answer = p.Clean("The answer", s.Answer)[0]
	answered, err := p.Answer(ctx, b.ID, s)
	if err != nil && answered != nil {
		err = fmt.Errorf("%w\nThe answer is kept, and handed over when the boulder runs next: manager resume %s",
			err, b.BoulderID)
	}
	return answered, err
}

func affirms(text string) bool {
	return slices.Contains([]string{
		"y", "yes", "ok", "okay", "sure", "allow", "allowed", "go", "go ahead", "do it", "please do", "granted",
	}, strings.ToLower(strings.TrimRight(strings.TrimSpace(text), ".!")))
}

// TooLate says why an answer could have no effect any more.
func TooLate(item *report.Blocker) string {
	return fmt.Sprintf("%s, so nothing would continue with an answer to %s: correct what is wrong in a new run, or take it"+
		" off the list with: manager blockers skip %[2]s", item.Over, item.ID)
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

// deliver hands the answers over that a boulder does not have yet: given while no process could take them, or in the moment
// in which the blocker was on its way itself. Call it before a boulder is taken up again, with what is on the disk
// ([onDisk]), and while it runs after each [boulder.BlockerRaised], from a goroutine that the run does not wait for.
func (p *Project) deliver(ctx context.Context, there *Access, boulderID string) error {
	of := blockers.Filter{BlockerScope: boulder.BlockerScope{BoulderID: boulderID}, Undelivered: true}
	open, err := p.Blockers().List(ctx, of)
	for i := range open {
		_, oneErr := p.handOver(ctx, there, &open[i])
		err = errors.Join(err, oneErr)
	}
	return err
}

// handOver gives a settled blocker to its boulder, and stores that it has it. It may be called again.
func (p *Project) handOver(ctx context.Context, there *Access, b *boulder.Blocker) (Handover, error) {
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
	return how, p.Blockers().Delivered(ctx, b.ID)
}

// raisedWait is how long to wait for a blocker that its boulder has not heard of: it is told within the turn.
const raisedWait = 2 * time.Second

// Answer stores an answer, and hands it to the boulder. With an error there is a report as well if the answer is stored:
// it is then handed over when the boulder is run the next time.
func (p *Project) Answer(ctx context.Context, id string, s blockers.Settlement) (*Answered, error) {
	b, err := p.Blockers().Settle(ctx, id, s)
	if err != nil {
		return nil, err
	}
	report := &Answered{Type: "blocker-answer", Blocker: b, Handover: Kept, Awaited: []string{}}
	if b.BoulderID == "" {
		report.Handover = NoBoulder
		return report, p.Blockers().Delivered(ctx, b.ID)
	}
	for last := range Tries(ctx, step, raisedWait) {
		err = p.Steer(ctx, func(there *Access) (err error) {
			if report.Handover, err = p.handOver(ctx, there, &report.Blocker); err != nil {
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
			return report, p.Blockers().Delivered(ctx, b.ID)
		case last, !errors.Is(err, control.ErrNotServed) && (report.Handover != NotAsked || report.RunBy == nil):
			return report, err
		}
	}
	return report, context.Cause(ctx)
}

var _ session.Diverter = (*diverter)(nil)

// diverter stands in for the person who is away, in the sessions that this process runs or watches. It is there whether
// diversion is on or not: that can be switched at any time.
type diverter struct {
	*blockers.Register
	*mcptool.Server
}

// newDiverter makes one. Nothing is stored and nothing listens before it is needed.
func (p *Project) newDiverter() *diverter {
	register := p.Blockers()
	return &diverter{register, mcptool.New(mcptool.Config{Register: register, Logger: p.log})}
}

// briefed is what the agents of a boulder are told; zero: it is not diverted now.
func (v *diverter) briefed(b boulder.Boulder) boulder.Diversion {
	if !v.On(boulder.BlockerScope{BoulderID: b.ID, Diverted: b.Diverted}) {
		return boulder.Diversion{}
	}
	return v.Diversion()
}

// closeDiverter takes the blocker tool back from a server that outlives this process, and stops serving it.
func (p *Project) closeDiverter(ctx context.Context) {
	if p.diverter == nil {
		return
	}
	if p.attached != nil {
		if err := p.runner.Withdraw(ctx); err != nil {
			p.log.Warn("the blocker tool stays known to OpenCode", "error", err)
		}
	}
	if err := p.diverter.Close(); err != nil {
		p.log.Warn("the blocker tool's server was not closed cleanly", "error", err)
	}
}

// Deliver hands the answers over that were given while no process could take them, before a boulder is taken up again.
// What cannot be handed over now is tried again the next time.
func (p *Project) Deliver(ctx context.Context, db *store.DB, boulderID string) {
	detail, err := db.Get(ctx, boulderID)
	for _, t := range detail.SubTasks { // what it knows by these ids would not be waited for, were they given again
		for _, b := range t.Blockers {
			err = errors.Join(err, p.Blockers().PassOver(ctx, b.ID))
		}
	}
	err = errors.Join(err, p.deliver(ctx, &Access{Reader: db, Orders: onDisk{db}}, boulderID))
	if err != nil {
		p.warn("answers to blockers: %v", err)
	}
}
