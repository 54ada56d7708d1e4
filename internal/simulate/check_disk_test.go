package simulate

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// checkStored: what is stored after a commit can be restored, does not contradict itself, and is all that the events
// say.
func (w *world) checkStored(p *process) {
	s, err := p.db.Load(context.Background(), boulderID)
	if err != nil {
		w.violate("what is stored agrees with itself", "%v", err)
		return
	}
	w.checkSame(s, "what is stored is all there is")
}

// checkSame: a state that was read is the one that was stored last.
func (w *world) checkSame(s *boulder.State, rule string) {
	if err := s.Check(); err != nil {
		w.violate("what is stored agrees with itself", "%v", err)
	}
	if want, got := image(w.disk), image(s); want != got {
		w.violate(rule, "%s", difference(want, got))
	}
}

// image is a state as text: its records, and the order of those that hold a slot or wait for one.
func image(s *boulder.State) string {
	var b strings.Builder
	write := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		b.Write(text)
		b.WriteByte('\n')
	}
	write(s.Boulder)
	write(s.Revision)
	for _, t := range s.SubTasks {
		write(t)
	}
	open := func(what string, o *boulder.Open) {
		b.WriteString(what)
		write(o.Attempt)
		if o.Turn != nil {
			write(o.Turn)
		}
	}
	for _, o := range s.Live() {
		open("live ", o)
	}
	queues := s.Queues()
	for _, m := range slices.Sorted(maps.Keys(queues)) {
		for _, o := range queues[m] {
			open("queued ", o)
		}
	}
	return b.String()
}

func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return "by its events it is\n" + a[i] + "\nand on disk\n" + b[i]
		}
	}
	return "one has more records than the other"
}

// checkReopened: what a process finds is what the last commit of the one before left.
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
