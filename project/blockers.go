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
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project/internal/control"
	"github.com/bouldermgr/manager/project/report"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/store"
)

// Blockers opens the project's blockers, without reading or creating anything yet.
func (p *Project) Blockers() *blockers.Register {
	cfg := p.cfg.Blockers.Register(p.dir)
	cfg.Redact, cfg.Logger = p.secrets.Text, p.log
	d, err := blockers.Open(cfg)
	if err != nil {
		panic(err) // the configuration was checked by opening one
	}
	return d
}

// ListBlockers returns matching blockers as [Project.Placed] does; with an error, those that can be read.
func (p *Project) ListBlockers(ctx context.Context, f blockers.Filter) ([]report.Blocker, error) {
	records, err := p.Blockers().List(ctx, f)
	return p.Placed(ctx, records), err
}

// Placed adds which sub-task needs the answer to each blocker, and sorts awaited ones first. A blocker whose boulder
// cannot be read counts as awaited, so that it is shown and can be answered.
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

// Settle is [Project.Answer] for text that the user typed: it takes out secrets, and refuses obvious mistakes.
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

// TooLate says why an answer can no longer have an effect.
func TooLate(item *report.Blocker) string {
	return fmt.Sprintf("%s, so nothing would continue with an answer to %s: correct what is wrong in a new run, or take it"+
		" off the list with: manager blockers skip %[2]s", item.Over, item.ID)
}

// Handover says whether an answer has reached the sub-task that has the blocker.
type Handover string

const (
	HandedOver Handover = "handed_over" // the boulder has the answer, and uses it when it runs
	OverBefore Handover = "over"        // the sub-task or the boulder is over
	NotAsked   Handover = "not_asked"   // the boulder does not know the blocker yet, and gets both together
	NoBoulder  Handover = "no_boulder"  // the blocker belongs to a session outside of a run
	Kept       Handover = "kept"        // not possible now; repeated when the boulder runs next
)

// Answered is what `manager blockers answer`, `skip` and `clarify` print. Later versions only add fields.
type Answered struct {
	Type string `json:"type"` // blocker-answer
	boulder.Blocker
	Handover      Handover       `json:"handover"`
	BoulderStatus boulder.Status `json:"boulder_status,omitempty"` // afterwards; empty outside of a run
	RunBy         *Holder        `json:"run_by"`                   // process that runs the boulder; null if none does
	Awaited       []string       `json:"awaited"`                  // blockers that the sub-task still waits for
}

// deliver hands over the answers that a boulder does not have: they were given while no process could take them, or
// before the boulder knew the blocker. Call it before a boulder is resumed, with [onDisk], and after each
// [boulder.BlockerRaised] of a run, on a goroutine that the run does not wait for: the run itself takes the order.
func (p *Project) deliver(ctx context.Context, there *Access, boulderID string) error {
	of := blockers.Filter{BlockerScope: boulder.BlockerScope{BoulderID: boulderID}, Undelivered: true}
	open, err := p.Blockers().List(ctx, of)
	for i := range open {
		_, oneErr := p.handOver(ctx, there, &open[i])
		err = errors.Join(err, oneErr)
	}
	return err
}

// handOver gives a settled blocker to its boulder, and then marks it as delivered. It may be repeated.
func (p *Project) handOver(ctx context.Context, there *Access, b *boulder.Blocker) (Handover, error) {
	how, err := HandedOver, there.Orders.Order(ctx, b.BoulderID, boulder.Order{
		Do: boulder.OrderSettle, SubTaskID: b.SubTaskID, BlockerID: b.ID, Text: b.Answer, Allowed: b.Allowed,
	})
	if err != nil { // find out why: over, not raised yet, or settled before
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

// raisedWait bounds the wait for a running boulder to learn of a blocker; it does so within the turn.
const raisedWait = 2 * time.Second

// Answer stores an answer and hands it to the boulder. If it returns a report with an error, the answer is stored and
// is handed over when the boulder runs next.
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
	for last := range Tries(ctx, retryStep, raisedWait) {
		err = p.Steer(ctx, func(there *Access) (err error) {
			if report.Handover, err = p.handOver(ctx, there, &report.Blocker); err != nil {
				return err
			}
			detail, _ := there.Get(ctx, report.BoulderID) // after an error the report only says less
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

// diverter stands in for the absent user in the sessions that this process runs or watches. It exists even while
// diversion is off, which the user can change at any time, and stores and serves nothing before its first use.
type diverter struct {
	*blockers.Register
	*mcptool.Server
}

func (p *Project) newDiverter() *diverter {
	register := p.Blockers()
	return &diverter{register, mcptool.New(mcptool.Config{Register: register, Logger: p.log})}
}

// briefed returns what the agents of a boulder are told about diversion, or zero if it is off.
func (v *diverter) briefed(b boulder.Boulder) boulder.Diversion {
	if !v.On(boulder.BlockerScope{BoulderID: b.ID, Diverted: b.Diverted}) {
		return boulder.Diversion{}
	}
	return v.Diversion()
}

// closeDiverter stops serving the blocker tool, and unregisters it from an attached OpenCode server, which lives on.
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

// Deliver hands over the answers that were given while no process could take them, before a boulder is resumed.
// Failures are warnings, and are retried at the next resume.
func (p *Project) Deliver(ctx context.Context, db *store.DB, boulderID string) {
	detail, err := db.Get(ctx, boulderID)
	for _, t := range detail.SubTasks { // a new blocker with an id that the boulder knows would not be waited for
		for _, b := range t.Blockers {
			err = errors.Join(err, p.Blockers().PassOver(ctx, b.ID))
		}
	}
	err = errors.Join(err, p.deliver(ctx, &Access{Reader: db, Orders: onDisk{db}}, boulderID))
	if err != nil {
		p.warn("answers to blockers: %v", err)
	}
}
