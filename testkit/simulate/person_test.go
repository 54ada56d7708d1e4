package simulate

import (
	"context"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// user gives orders to a running process, and ends any pause.
func (p *process) user() {
	for i := range p.fate.orders {
		d := throw(p.w.sc.seed, "order", p.number, i)
		if p.w.nap(p.gone, lanePerson, d.span(time.Second, time.Hour)) != nil {
			return
		}
		o := p.w.drawOrder(d)
		p.order(o, lanePerson, nil)
		if d.is(0.05) {
			p.w.mu.Lock()
			p.die() // right after the answer to an order
			p.w.mu.Unlock()
		}
	}
	for range 2_000 {
		if p.w.nap(p.gone, lanePerson, 2*time.Hour) != nil {
			return
		}
		p.w.mu.Lock()
		paused := p.w.disk.Boulder.Status == boulder.Paused
		p.w.mu.Unlock()
		if paused {
			p.order(boulder.Order{Do: boulder.OrderResume}, lanePerson, nil)
		}
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.violate("every run ends", "process %d has not come to an end for months", p.number)
}

// drawOrder draws an order. If the end must be as without crashes, it is one that does not change the end.
func (w *world) drawOrder(d dice) boulder.Order {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := "s1"
	if n := len(w.disk.SubTasks); n > 0 {
		id = w.disk.SubTasks[d.IntN(n)].ID
	}
	if s := w.disk.Snapshot(); s.Asked() != "" && !w.sc.class.same() && d.is(0.5) {
		if (s.Boulder.Replan != nil || w.sc.approval != "") && d.is(0.3) && w.revises() {
			return boulder.Order{Do: boulder.OrderRevise, Hash: s.Asked(), Text: "otherwise"}
		}
		do := boulder.OrderDecline
		if s.Boulder.Replan == nil || d.is(0.7) {
			do = boulder.OrderApprove
		}
		return boulder.Order{Do: do, Hash: s.Asked()}
	}
	kinds := 17
	if w.sc.class.same() {
		kinds = 6
	}
	switch d.IntN(kinds) {
	case 0, 1:
		return boulder.Order{Do: boulder.OrderPause, Now: d.is(0.5)}
	case 2, 3:
		return boulder.Order{Do: boulder.OrderResume}
	case 11:
		if d.is(0.3) {
			id = ""
		}
		return boulder.Order{Do: boulder.OrderCancel, SubTaskID: id}
	case 12, 13:
		files := pick(d, boulder.FilesKeep, boulder.FilesRevert)
		return boulder.Order{Do: boulder.OrderRedo, Redone: &boulder.Redone{SubTasks: []string{id}, Files: files, NoDependents: d.is(0.2)}}
	case 14, 15, 16:
		o := drawEdit(d, w.disk, w.lanes)
		if d.is(0.2) && o.Plan != nil {
			o.Do, o.SubTaskID = boulder.OrderRetry, id
		}
		return o
	case 6, 7:
		return boulder.Order{Do: boulder.OrderSkip, SubTaskID: id}
	case 8, 9, 10:
		return boulder.Order{Do: boulder.OrderRetry, SubTaskID: id}
	}
	w.ids++
	o := boulder.Order{Do: boulder.OrderNote, Text: "note " + time.Since(w.epoch).String()}
	if d.is(0.4) {
		o.SubTaskID = id
	}
	return o
}

// revises counts a wish for another plan, and reports whether the user has it: a few times in a world. The caller holds mu.
func (w *world) revises() bool {
	w.wishes++
	return w.wishes <= 3 && !w.sc.class.same()
}

// order gives an order and checks its answer. It then calls answered with mu held, unless the process is dead.
func (p *process) order(o boulder.Order, lane int, answered func(error)) {
	p.w.mu.Lock()
	seq := p.w.disk.Boulder.Seq
	said := o
	said.Landed, said.Redone, said.Kept, said.Plan = nil, nil, nil, nil // addresses would make logs differ
	p.w.note("order %+v", said)
	if l := p.w.disk.Boulder.Trunk; o.Do == boulder.OrderRedo && l.Before != "" { // as package project does
		if err := p.w.repo.moveTip(l.Before, l.Tip); err != nil {
			p.w.mu.Unlock()
			return
		}
	}
	p.w.cancelled = p.w.cancelled || o == boulder.Order{Do: boulder.OrderCancel}
	p.w.mu.Unlock()
	err := p.orch.Order(p.gone, boulderID, o)
	_ = p.w.nap(p.gone, lane, 0) // lets the loop finish what it does at this instant
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.dead {
		return // the answer and the end of the process came together: which is reported is chance
	}
	p.w.note("order %+v: %v", said, err)
	if err == nil {
		p.w.seen["order "+string(o.Do)]++
		p.w.checkObeyed(o, seq)
	}
	if o.Plan != nil {
		p.w.checkAdopted(o, seq, err)
	}
	if answered != nil {
		answered(err)
	}
}

// checkObeyed: an order that was answered without error is on disk.
func (w *world) checkObeyed(o boulder.Order, seq uint64) {
	obeyed := slices.ContainsFunc(w.events[seq:], func(e boulder.Event) bool {
		switch b := e.Body.(type) {
		case boulder.StatusChanged:
			return o.Do == boulder.OrderPause && b.Status == boulder.Paused ||
				o.Do == boulder.OrderResume && b.Status != boulder.Paused ||
				o.Do == boulder.OrderCancel && o.SubTaskID == "" && b.Status == boulder.Cancelled
		case boulder.TaskComplete:
			return o.Do == boulder.OrderCancel && o.SubTaskID == "" && b.Status == boulder.Cancelled
		case boulder.SubTaskDone:
			return b.ByUser && b.SubTaskID == o.SubTaskID &&
				(o.Do == boulder.OrderCancel && b.Status == boulder.SubTaskCancelled ||
					o.Do == boulder.OrderSkip && b.Status == boulder.SubTaskSkipped)
		case boulder.Reopened:
			return o.Do == boulder.OrderRetry && b.SubTaskID == o.SubTaskID
		case boulder.Cooled:
			return o.Do == boulder.OrderRetry && !b.Lifted.IsZero()
		case boulder.Retry:
			return o.Do == boulder.OrderRetry && b.SubTaskID == o.SubTaskID && b.Status == boulder.AttemptCancelled
		case boulder.PlanEdited:
			return o.Do == boulder.OrderEdit
		case boulder.ModelSet:
			return o.Do == boulder.OrderEdit && b.Model == o.Model
		case boulder.BlockerSettled:
			return o.Do == boulder.OrderSettle && b.SubTaskID == o.SubTaskID && b.BlockerID == o.BlockerID && b.Answer == o.Text
		case boulder.Landed:
			return o.Do == boulder.OrderLanded
		case boulder.Redone:
			return o.Do == boulder.OrderRedo && b.SubTasks[0] == o.Redone.SubTasks[0]
		case boulder.RevisionAsked:
			return o.Do == boulder.OrderRevise && b.Comment == o.Text
		case boulder.Decomposed, boulder.Replanned:
			return o.Do == boulder.OrderApprove
		case boulder.ReplanRefused:
			return o.Do == boulder.OrderDecline
		case boulder.Noted:
			return o.Do == boulder.OrderNote && b.Text == o.Text
		}
		return false
	})
	again := o.Do == boulder.OrderPause && o.Now && w.disk.Boulder.Status == boulder.Paused // only ends running work
	if !obeyed && !again {
		w.violate("orders are carried out", "%+v was answered well, and is not on disk", o)
	}
}

func (w *world) obeyBetween(dir string, number int, d dice) {
	if w.sc.calm || !d.is(w.sc.orders/2) {
		return
	}
	p, err := w.start(dir, -number, false)
	if err != nil {
		w.violate("a crash leaves a database that opens", "%v", err)
		return
	}
	p.order(w.drawOrder(d), lanePerson, nil)
	p.close(context.Canceled)
}
