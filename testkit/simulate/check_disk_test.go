package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// checkStored: after a commit, the log ends with its events. One world in four reads them back, which takes a fifth of
// its time. Data derived from the log is checked when the database is opened, and at the end.
func (w *world) checkStored(p *process, events []boulder.Event) {
	if w.sc.seed%4 == 0 {
		w.checkReadBack(p, events)
	}
	if err := w.disk.Check(); err != nil {
		w.violate("what is stored agrees with itself", "%v", err)
	}
	if w.disk.Boulder.Status.Terminal() {
		w.checkReopened(p)
	}
}

func (w *world) checkReadBack(p *process, events []boulder.Event) {
	stored, err := p.db.Events(context.Background(), boulderID, events[0].Seq-1, 0)
	if err != nil || len(stored) != len(events) {
		w.violate("what is stored is all there is", "of %d events %d are stored, %v", len(events), len(stored), err)
		return
	}
	for i := range events {
		want, wantErr := json.Marshal(events[i])
		got, err := json.Marshal(stored[i])
		if err = errors.Join(wantErr, err); string(want) != string(got) || err != nil {
			w.violate("what is stored is all there is", "%s is stored as %s, %v", want, got, err)
		}
	}
}

// checkSame: a state read back equals the one stored last.
func (w *world) checkSame(s *boulder.State, rule string) {
	if err := s.Check(); err != nil {
		w.violate("what is stored agrees with itself", "%v", err)
	}
	if want, got := image(w.disk), image(s); want != got {
		w.violate(rule, "by its events (-) and on disk (+):\n%s", cmp.Diff(strings.Split(want, ","), strings.Split(got, ",")))
	}
}

// image is a state as text: its records, and the order of the attempts that hold or await a slot.
func image(s *boulder.State) string {
	queues := maps.Clone(s.Queues())
	maps.DeleteFunc(queues, func(_ string, queue []*boulder.Open) bool { return len(queue) == 0 })
	text, err := json.Marshal([]any{s.Snapshot(), queues})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// checkReopened: a process finds what the last commit left.
func (w *world) checkReopened(p *process) {
	restored, err := p.db.Load(context.Background(), boulderID)
	if w.disk.Boulder.ID == "" {
		if err == nil {
			w.violate("what is stored is all there is", "there is a boulder that nobody stored")
		}
		return
	}
	if err != nil {
		w.violate("what was stored is still there", "%v", err)
		return
	}
	w.checkSame(restored, "what was stored is still there")
	last, err := p.db.Events(context.Background(), boulderID, uint64(len(w.events)-1), 0)
	if err != nil || len(last) != 1 {
		w.violate("what was stored is still there", "%d events follow number %d, %v", len(last), len(w.events)-1, err)
	}
	p.found = restored
}

// checkDecisions: every decision follows from the log.
func (w *world) checkDecisions() {
	check, err := orchestrator.CheckDecisions(w.events)
	switch {
	case err != nil:
		w.broken = append(w.broken, fmt.Sprintf("the log has all that decisions rest on: %v", err))
	case check.Difference != nil:
		d := check.Difference
		w.broken = append(w.broken, fmt.Sprintf("the log has all that decisions rest on: at event %d %T %+v is decided, and %T %+v is there",
			d.Seq, d.Expected, d.Expected, d.Got, d.Got))
	case check.Unchecked > 0:
		w.broken = append(w.broken, fmt.Sprintf("the log has all that decisions rest on: %d of %d events", check.Unchecked, check.Events))
	}
}
