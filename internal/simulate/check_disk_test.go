package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
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
	w.disk = restored
}

// flipBit looks at a copy of the file in which one bit has flipped: it is refused, or the boulder is named as damaged, or it
// is what it was after one of the last two commits, or would have been after the one that a power cut has ended: its pages
// may be among those of the commit before the last.
func (w *world) flipBit(dir, path string, number int) {
	d := throw(w.sc.seed, "flip", number)
	data, err := os.ReadFile(path)
	if err != nil || w.disk.Boulder.ID == "" || !d.is(0.3) {
		return
	}
	at := d.from(0, len(data)/os.Getpagesize()-1)*os.Getpagesize() + d.from(0, 63) // heads of pages are where it hurts
	if d.is(0.3) {
		at = d.from(0, len(data)-1)
	}
	data[at] ^= 1 << d.from(0, 7)
	flipped, err := os.MkdirTemp(dir, "flipped")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(flipped)
	file := filepath.Join(flipped, "manager.db")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		panic(err)
	}
	w.seen["bit flipped"]++
	if err := w.checkFlipped(file); err != nil {
		w.violate("a flipped bit is no other state", "byte %d: %v", at, err)
	}
}

func (w *world) checkFlipped(file string) (err error) {
	db, err := store.Open(file, store.Options{})
	if errors.Is(err, store.ErrUnusable) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s, err := db.Load(context.Background(), boulderID)
	_, damaged := errors.AsType[*store.CorruptError](err)
	all := slices.Concat(w.events, w.unsynced)
	switch {
	case damaged, errors.Is(err, boulder.ErrNotFound) && w.since <= 1:
		return nil
	case err != nil:
		return err
	case s.Boulder.Seq != w.disk.Boulder.Seq && s.Boulder.Seq+1 != w.since && s.Boulder.Seq != uint64(len(all)):
		return fmt.Errorf("it ends with event %d, and was committed up to %d and %d", s.Boulder.Seq, w.since-1, w.disk.Boulder.Seq)
	}
	was := boulder.NewState()
	for _, e := range all[:s.Boulder.Seq] {
		if err := was.Replay(e); err != nil {
			return err
		}
	}
	if want, got := image(was), image(s); want != got {
		return errors.New(difference(want, got))
	}
	return nil
}
