package project

import (
	"cmp"
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
	"github.com/bouldermgr/manager/project/report"
	"github.com/bouldermgr/manager/session"
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

// ListBlockers returns matching blockers, of runs and of other sessions, awaited ones first; with an error, those that
// can be read.
func (p *Project) ListBlockers(ctx context.Context, f blockers.Filter) (all []report.Blocker, err error) {
	now := time.Now()
	err = p.reading(ctx, func(there *Access) (err error) {
		all, err = ofRuns(ctx, there, f, now)
		return err
	})
	outside, unread := p.Blockers().List(ctx, f)
	for _, b := range outside {
		all = append(all, report.NewBlocker(b, nil, "", now))
	}
	report.SortBlockers(all, now)
	return all, errors.Join(err, unread)
}

func ofRuns(ctx context.Context, there Reader, f blockers.Filter, now time.Time) (all []report.Blocker, err error) {
	items, err := there.Listing(ctx)
	for _, item := range items {
		if item.Raised == 0 || f.BoulderID != "" && f.BoulderID != item.BoulderID {
			continue
		}
		d, unread := there.Get(ctx, item.BoulderID)
		err = errors.Join(err, unread)
		for _, b := range report.Blockers(d.Boulder, d.SubTasks, now) {
			if f.Match(&b.Blocker) {
				all = append(all, b)
			}
		}
	}
	return all, err
}

// Blocker returns the blocker with an id, in upper or lower case. Imported boulders may have brought an id that another has:
// then the one that an answer still reaches or, if it reaches several, the one of the boulder that is named as in B7@BOULDER.
// A missing one is [blockers.ErrNotFound].
func (p *Project) Blocker(ctx context.Context, id string) (report.Blocker, error) {
	all, err := p.ListBlockers(ctx, blockers.Filter{})
	short, of, _ := strings.Cut(strings.TrimSpace(id), "@")
	var named []report.Blocker
	for _, b := range all {
		if strings.EqualFold(b.ID, short) && (of == "" || b.BoulderID == of) {
			named = append(named, b)
		}
	}
	open := slices.DeleteFunc(slices.Clone(named), func(b report.Blocker) bool {
		return b.Status.Settled() || b.Over != "" || b.Standing == blockers.Moot
	})
	switch {
	case len(open) > 1 && of == "":
		var which []string
		for _, b := range open {
			which = append(which, fmt.Sprintf("%s (%s)", b.Ref(), text.Clip(text.OneLine(b.Question), 60)))
		}
		return report.Blocker{}, usagef("an import brought another %s: say %s", short, strings.Join(which, " or "))
	case len(open) > 0:
		return open[0], nil
	case len(named) > 0:
		return named[0], nil
	case err == nil:
		err = fmt.Errorf("%w: %s", blockers.ErrNotFound, id)
	}
	return report.Blocker{}, err
}

// SettleBlocker stores the user's answer to a blocker, without secrets, and refuses obvious mistakes: an order to its boulder or,
// outside of runs, in the register.
func (p *Project) SettleBlocker(ctx context.Context, item *report.Blocker, s blockers.Settlement) (*Answered, error) {
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
	case item.Over != "":
		return nil, errors.New(TooLate(item))
	}
	s.Answer = p.Clean("The answer", s.Answer)[0]
	answered := &Answered{Type: "blocker-answer", Awaited: []string{}}
	var err error
	if b.BoulderID == "" {
		answered.Blocker, err = p.Blockers().Settle(ctx, b.ID, s)
	} else {
		err = p.order(ctx, b, s, answered)
	}
	if err != nil {
		return nil, err
	}
	return answered, nil
}

func (p *Project) order(ctx context.Context, b *boulder.Blocker, s blockers.Settlement, answered *Answered) error {
	s, err := p.Blockers().Check(b, s)
	if err != nil {
		return err
	}
	return p.Steer(ctx, func(there *Access) error {
		err := there.Orders.Order(ctx, b.BoulderID, boulder.Order{
			Do: boulder.OrderSettle, SubTaskID: b.SubTaskID, BlockerID: b.ID, Text: s.Answer, Allowed: s.Allowed,
		})
		if err != nil {
			return err
		}
		answered.Blocker = *b
		answered.Status, answered.Answer, answered.Allowed = s.Status, s.Answer, s.Allowed
		d, err := there.Get(ctx, b.BoulderID)
		if err != nil { // the report only says less
			p.log.Warn("what follows from an answer is not known", "blocker", b.ID, "error", err)
			return nil
		}
		answered.BoulderStatus = d.Boulder.Status
		if there.Holder.Runs(d.Boulder) {
			answered.RunBy = there.Holder
		}
		for _, known := range boulder.Raised(d.Boulder, d.SubTasks) {
			if known.ID == b.ID {
				answered.Blocker = known
			}
		}
		for _, t := range d.SubTasks {
			if t.ID == b.SubTaskID {
				for _, waits := range t.AwaitedBy(t.Attempts) {
					answered.Awaited = append(answered.Awaited, waits.ID)
				}
			}
		}
		if answered.Redo, err = outdated(&d, answered.PlanQuestion); err != nil {
			p.log.Warn("what an answer makes out of date is not known", "blocker", b.ID, "error", err)
		}
		if there.Holder == nil {
			_, _ = p.writeList(ctx, there, b.BoulderID) // it is tried again with every command
		}
		return nil
	})
}

// writeList adds to blockers.md what it lacks of a boulder. With an error it returns how many items it still lacks.
func (p *Project) writeList(ctx context.Context, there Reader, boulderID string) (unwritten int, err error) {
	unwritten, err = p.Blockers().Listed(ctx, boulderID, func(seq uint64) ([]boulder.Event, []boulder.Blocker, error) {
		events, err := there.Events(ctx, boulderID, seq, 0)
		if err != nil {
			return nil, nil, err
		}
		d, err := there.Get(ctx, boulderID) // after the events: it has all that they settled
		return events, boulder.Raised(d.Boulder, d.SubTasks), err
	})
	if err != nil {
		p.log.Warn("blockers: list not written", "file", p.blockersFiles()[0], "boulder", boulderID, "error", err)
	}
	return unwritten, err
}

// BlockersStatus returns the switches, and adds to blockers.md what it lacks.
func (p *Project) BlockersStatus(ctx context.Context, there Reader) (blockers.Status, error) {
	s, err := p.Blockers().Status(ctx)
	items, readErr := there.Listing(ctx)
	for _, item := range items {
		if item.Raised > 0 {
			unwritten, trouble := p.writeList(ctx, there, item.BoulderID)
			if s.Unwritten += unwritten; trouble != nil {
				s.Trouble = cmp.Or(s.Trouble, trouble.Error())
			}
		}
	}
	return s, errors.Join(err, readErr)
}

func affirms(text string) bool {
	return slices.Contains([]string{
		"y", "yes", "ok", "okay", "sure", "allow", "allowed", "go", "go ahead", "do it", "please do", "granted",
	}, strings.ToLower(strings.TrimRight(strings.TrimSpace(text), ".!")))
}

// TooLate says why an answer can no longer have an effect.
func TooLate(item *report.Blocker) string {
	return fmt.Sprintf("%s, so nothing would continue with an answer to %s: correct what is wrong in a new run", item.Over, item.ID)
}

// Answered is what `manager blockers answer`, `skip` and `clarify` print. Later versions only add fields.
type Answered struct {
	Type string `json:"type"` // blocker-answer
	boulder.Blocker
	BoulderStatus boulder.Status `json:"boulder_status,omitempty"` // afterwards; empty outside of a run
	RunBy         *Holder        `json:"run_by"`                   // process that runs the boulder; null if none does
	Awaited       []string       `json:"awaited"`                  // blockers that the sub-task still waits for
	Redo          []string       `json:"redo,omitempty"`           // completed sub-tasks that rest on another answer to this question of the plan
}

// outdated returns the completed sub-tasks that depend on a question of the plan, and rest on another answer.
func outdated(d *boulder.Snapshot, question string) (ids []string, err error) {
	if question == "" {
		return nil, nil
	}
	s, err := boulder.Restore(*d)
	if err != nil {
		return nil, err
	}
	for _, t := range s.Completed(len(s.SubTasks)) {
		if t.Attempts > 0 && slices.Contains(t.Questions, question) && s.StaleAnswer(t) {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
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
