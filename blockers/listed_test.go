package blockers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
)

// raiseInRun records two blockers of a run, and the answer to the first.
func raiseInRun(t fataler, p *project, d *Register) *memory {
	t.Helper()
	book := p.turn(d, inRun)
	for _, question := range []string{"The first?", "The second?"} {
		_, err := d.Raise(context.Background(), inRun, hardInput(question))
		check(t, err)
	}
	check(t, book.settle(d, "B1", answered("Yes.")))
	return book
}

func write(t fataler, d *Register, book *memory) {
	t.Helper()
	unwritten, err := d.Listed(context.Background(), inRun.BoulderID, book.since)
	check(t, err)
	if unwritten != 0 {
		t.Errorf("%d items are unwritten", unwritten)
	}
}

// The list gets what came up in a run, and then only what is new: the user may edit and delete what is there.
func TestListed(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t, waiting)
	book := raiseInRun(t, p, d)
	id := divert(t, d, askedIn(inRun, *permission("per_1", "git push").Ask)).BlockerID
	check(t, d.EndWait(t.Context(), inRun, id, false))
	write(t, d, book)
	p.checkList(t, book.all)
	before := strings.Replace(p.file(t), "- [ ] **B2** The second?", "- [x] **B2** We do that on Monday.", 1)
	before = strings.Replace(before, raisedItem(&book.all[0]).Text, "", 1)
	p.write(t, before)
	for range 2 {
		write(t, p.register(t), book)
	}
	if got := p.file(t); got != before {
		t.Errorf("nothing is new, but it is\n%s", got)
	}
	check(t, book.settle(d, "B2", skipped))
	write(t, p.register(t), book)
	first := settledItem(&book.all[0]).Text
	if got := p.file(t); got != strings.Replace(before, first, first+settledItem(&book.all[1]).Text, 1) {
		t.Errorf("with an answer it is\n%s", got)
	}
	unwritten, err := d.Listed(t.Context(), "another", book.since)
	if n := strings.Count(p.file(t), "**B2** The second?"); err != nil || unwritten != 0 || n != 1 {
		t.Errorf("each boulder has its own: %d, %d unwritten, %v", n, unwritten, err)
	}
}

// What cannot be written is counted, and made up for by the next call in any process. So is it where the database fails,
// which would have how much is written.
func TestListedUnwritable(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"list": DefaultFile, "database": filepath.Join(".manager", FileName)} {
		p := newProject(t)
		path := filepath.Join(p.dir, path)
		check(t, os.MkdirAll(path, 0o700)) // like a full disk: nothing can be written there
		d := p.register(t)
		book := &memory{clock: p.clock}
		for _, question := range []string{"The first?", "The second?"} {
			_, err := book.Raise(t.Context(), boulder.Blocker{BlockerScope: inRun, Question: question, CreatedAt: epoch})
			check(t, err)
		}
		for range 2 {
			n, err := d.Listed(t.Context(), inRun.BoulderID, book.since)
			if n != 2 && name == "list" || err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %d unwritten, %v", name, n, err)
			}
		}
		check(t, book.settle(d, "B2", skipped))
		check(t, os.Remove(path))
		write(t, p.register(t), book)
		p.checkList(t, book.all)
	}
}

// A boulder that cannot be read loses nothing.
func TestListedUnreadable(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t)
	book, failed := raiseInRun(t, p, d), errors.New("it cannot be read")
	for failing := range 2 { // the read without, then the one within the transaction
		reads := 0
		_, err := d.Listed(t.Context(), inRun.BoulderID, func(seq uint64) ([]boulder.Event, []boulder.Blocker, error) {
			reads++
			if reads > failing {
				return nil, nil, failed
			}
			return book.since(seq)
		})
		if !errors.Is(err, failed) || reads != failing+1 {
			t.Errorf("read %d times: %v", reads, err)
		}
	}
	write(t, d, book)
	p.checkList(t, book.all)
}

// Several processes write the list of one boulder at once: each item is there once.
func TestListedAtOnce(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	book := raiseInRun(t, p, p.register(t))
	var g errgroup.Group
	for range 6 {
		d := p.register(t)
		g.Go(func() error {
			_, err := d.Listed(t.Context(), inRun.BoulderID, book.since)
			return err
		})
	}
	check(t, g.Wait())
	p.checkList(t, book.all)
	if n := strings.Count(p.file(t), "**B"); n != 3 {
		t.Errorf("%d items:\n%s", n, p.file(t))
	}
}
