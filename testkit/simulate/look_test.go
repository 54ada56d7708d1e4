package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// lookout is the session of a world's look, which outlives processes.
type lookout struct {
	id      string
	prompts []string  // ids of those that arrived, in order
	ends    time.Time // of the agent's work; zero: none is, or it was cut off
}

// Look implements orchestrator.Looker, with the session protocol of executor/look.go.
func (p *process) Look(
	ctx context.Context, job boulder.LookJob, report func(boulder.Body) error,
) (end boulder.Looked, u boulder.Usage, err error) {
	d, at := throw(p.w.sc.seed, "look", p.number), job.Look.LookSession
	short := d.span(time.Millisecond, time.Second)
	err = p.step(ctx, laneLook, short, func() error { return p.openLook(job, &at) })
	if err == nil {
		err = p.promptLook(ctx, &at, short, report)
	}
	for left := time.Duration(0); err == nil; err = p.w.nap(ctx, laneLook, left) {
		err = p.alive(func() error { left = p.w.lookout.left(); return nil })
		if left <= 0 {
			break
		}
	}
	if err == nil {
		err = p.alive(func() error {
			u = boulder.Usage{Input: 800, Output: 90, Calls: 3, Cost: 0.5}
			if f := p.w.next("look", place{}, p.w.sc.judgeFaults(place{})); f != nil {
				p.w.faultMet("look", place{})
				return f.err
			}
			end = p.w.sc.looked()
			return nil
		})
	}
	if err != nil && ctx.Err() != nil { // the turn is stopped
		_ = p.w.nap(p.gone, laneLook, short)
		_ = p.alive(func() error { p.w.lookout.cut(); return nil })
		return end, u, context.Cause(ctx)
	}
	return end, u, err
}

// promptLook makes sure that the session has the prompt, or the one resume prompt after it was cut off.
func (p *process) promptLook(
	ctx context.Context, at *boulder.LookSession, takes time.Duration, report func(boulder.Body) error,
) error {
	last, fresh := &at.MessageID, false
	err := p.alive(func() error {
		l := &p.w.lookout
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
		l := &p.w.lookout
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
func (p *process) openLook(job boulder.LookJob, at *boulder.LookSession) error {
	l := &p.w.lookout
	if stored := p.w.disk.Boulder.Looking(); stored == nil || stored.Tag != job.Look.Tag {
		p.w.violate("intent before effect", "a look %q begins that is not stored: %+v", job.Look.Tag, stored)
	}
	switch {
	case at.SessionID != "" && at.SessionID != l.id:
		p.w.violate("no look is paid twice", "the look goes on in %s, and its session is %s", at.SessionID, l.id)
	case l.id != "" && at.SessionID == "" && !job.Recovered:
		p.w.violate("no look is paid twice", "a second session for %s", job.Look.Tag)
	case l.id == "":
		l.id = "ses of the look"
		p.w.seen["a look"]++
	case at.SessionID == "":
		p.w.seen["a look that was found by its tag"]++
	}
	at.SessionID = l.id
	return nil
}

// left returns how long the agent is still at work.
func (l *lookout) left() time.Duration {
	if l.ends.IsZero() {
		return 0
	}
	return time.Until(l.ends)
}

// cut ends the agent's work.
func (l *lookout) cut() {
	if l.left() > 0 {
		l.ends = time.Time{}
	}
}
