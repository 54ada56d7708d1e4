package simulate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// lookout is the session of a look, which outlives processes.
type lookout struct {
	id      string
	paid    bool
	prompts []string  // ids of those that arrived, in order
	ends    time.Time // of the agent's work; zero: none is, or it was cut off
}

// Look implements orchestrator.Looker, with the session protocol of executor/look.go.
func (p *process) Look(
	ctx context.Context, job boulder.LookJob, report func(boulder.Body) error,
) (end boulder.Looked, u boulder.Usage, err error) {
	d, at := throw(p.w.sc.seed, "look", job.Look.Tag, p.number), job.Look.LookSession
	short := d.span(time.Millisecond, time.Second)
	var l *lookout
	if job.Trunk.Base != "" {
		err = p.lookAtTip(ctx, job.Trunk)
	}
	if err == nil {
		err = p.step(ctx, laneLook, short, func() error { l = p.openLook(job, &at); return nil })
	}
	if err == nil {
		err = p.promptLook(ctx, l, &at, short, report)
	}
	for left := time.Duration(0); err == nil; err = p.w.nap(ctx, laneLook, left) {
		err = p.alive(func() error { left = l.left(); return nil })
		if left <= 0 {
			break
		}
	}
	if err == nil {
		err = p.alive(func() error {
			u = boulder.Usage{Input: 800, Output: 90, Calls: 3, Cost: 0.5}
			where := place{subTask: job.Look.Tag}
			if f := p.w.next("look", where, p.w.sc.judgeFaults(where)); f != nil {
				p.w.faultMet("look", where)
				return f.err
			}
			end = p.w.sc.looked(job.Look.Tag)
			return nil
		})
	}
	if err != nil && ctx.Err() != nil { // the turn is stopped
		_ = p.w.nap(p.gone, laneLook, short)
		_ = p.alive(func() error { l.cut(); return nil })
		return end, u, context.Cause(ctx)
	}
	return end, u, err
}

// promptLook makes sure that the session has the prompt, or the one resume prompt after it was cut off.
func (p *process) promptLook(
	ctx context.Context, l *lookout, at *boulder.LookSession, takes time.Duration, report func(boulder.Body) error,
) error {
	last, fresh := &at.MessageID, false
	err := p.alive(func() error {
		cut := at.MessageID != "" && l.ends.IsZero() && slices.Contains(l.prompts, cmp.Or(at.ResumeID, at.MessageID))
		if at.ResumeID != "" || cut {
			last = &at.ResumeID
		}
		if fresh = *last == ""; fresh {
			p.w.ids++
			*last = fmt.Sprintf("look%d", p.w.ids)
		}
		return nil
	})
	if err == nil && fresh {
		if err = report(*at); err == nil {
			err = p.alive(func() error { p.w.checkTold(*at); return nil })
		}
	}
	if err != nil {
		return err
	}
	return p.step(ctx, laneLook, takes, func() error {
		if slices.Contains(l.prompts, *last) {
			return nil
		}
		if l.prompts = append(l.prompts, *last); len(l.prompts) > 2 || len(l.prompts) > 1 && at.ResumeID == "" {
			p.w.violate("no look is paid twice", "the session of the look got the prompts %q", l.prompts)
		}
		if at.ResumeID != "" {
			p.w.seen["a look that was resumed"]++
		}
		l.ends = time.Now().Add(throw(p.w.sc.seed, "look takes", p.number).span(time.Second, 12*time.Minute))
		return nil
	})
}

// openLook finds the look's session, or creates it.
func (p *process) openLook(job boulder.LookJob, at *boulder.LookSession) *lookout {
	l := p.w.lookouts[job.Look.Tag]
	if l == nil {
		l = &lookout{}
		p.w.lookouts[job.Look.Tag] = l
	}
	p.w.checkLook(job.Look)
	switch {
	case at.SessionID != "" && at.SessionID != l.id:
		p.w.violate("no look is paid twice", "the look goes on in %s, and its session is %s", at.SessionID, l.id)
	case l.id != "" && at.SessionID == "" && !job.Recovered:
		p.w.violate("no look is paid twice", "a second session for %s", job.Look.Tag)
	case l.id == "":
		l.id = "ses of " + job.Look.Tag
		p.w.seen["a look for: "+string(job.Look.For)]++
	case at.SessionID == "":
		p.w.seen["a look that was found by its tag"]++
	}
	at.SessionID = l.id
	return l
}

// checkLook: a look is stored before it begins. One for a replan, or of the changes, has the project for itself, but for what an
// order began meanwhile.
func (w *world) checkLook(l boulder.Look) {
	stored := w.disk.Boulder.Looking()
	if stored == nil || stored.Tag != l.Tag {
		w.violate("intent before effect", "a look %q begins that is not stored: %+v", l.Tag, stored)
	}
	if r := w.disk.Boulder.Replan; l.For == boulder.LookReplan && r == nil {
		w.violate("a look has a purpose", "%q is for no replan", l.Tag)
	}
}

// lookAtTip prepares the slot for combined trees, and checks that it has all results.
func (p *process) lookAtTip(ctx context.Context, l boulder.Trunk) error {
	err := p.alive(func() error {
		if p.moving {
			p.w.violate("a slot has one owner", "a look begins while the tip moves")
		}
		return p.w.repo.moveTip(cmp.Or(l.Before, l.Tip), l.Tip)
	})
	if err != nil {
		return err
	}
	s, err := p.prepare(ctx, laneLook, boulder.SlotClaim{BoulderID: boulderID, Base: l.Base, From: l.Tip})
	if err != nil {
		return err
	}
	return p.alive(func() error {
		if tip := p.w.disk.Boulder.Trunk.Tip; l.Tip != tip || !maps.Equal(s.files, p.w.repo.files(tip)) {
			p.w.violate("a look sees the combined results", "it sees %v at %s, and the tip is %s", s.files, l.Tip, tip)
		}
		p.w.seen["a look at the tip"]++
		return nil
	})
}

// unpaid records that the look that is not over is paid for, and reports whether that is the first time.
func (w *world) unpaid(l *boulder.Look) bool {
	if l == nil || w.lookouts[l.Tag] == nil || w.lookouts[l.Tag].paid {
		return false
	}
	w.lookouts[l.Tag].paid = true
	return true
}

// left returns how long the agent is still at work.
func (l *lookout) left() time.Duration {
	if l.ends.IsZero() {
		return 0
	}
	return time.Until(l.ends)
}

// cut ends the agent's work, if there is a session.
func (l *lookout) cut() {
	if l != nil && l.left() > 0 {
		l.ends = time.Time{}
	}
}
