package watch_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/watch"
)

// unsure cannot say once what has become of an ask.
type unsure struct {
	standIn
	once  *sync.Once
	asked chan<- struct{}
}

func (s unsure) Ruling(ctx context.Context, id string) (r boulder.Ruling, err error) {
	s.once.Do(func() {
		err = errors.New("the database is held")
		close(s.asked)
	})
	if err != nil {
		return r, err
	}
	return s.standIn.Ruling(ctx, id)
}

// A person who may still answer an ask is not cut short because the database could not be read.
func TestPersonIsWaitedForAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away := newStandIn(t, true)
	root := t.TempDir()
	var err error
	away.Desk, err = blockers.Open(blockers.Config{
		Root: root, Path: filepath.Join(root, blockers.FileName), Enabled: true,
		Policy: blockers.Policy{Permissions: []blockers.Rule{{Permission: "bash", Action: blockers.AskMe, Wait: time.Hour}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	k := w.begin(t, steps(half, bash("true"), whole, say("It works.")), askForBash)
	asked := make(chan struct{})
	r := w.watch(func(c *watch.Config) { c.Diverter = unsure{away, new(sync.Once), asked} })
	select {
	case <-asked:
	case <-w.ctx.Done():
		t.Fatalf("nobody looked whether a person answered:\n%s", r.said(k.id))
	}
	if _, err := away.Settle(w.ctx, "B1", blockers.Settlement{Status: boulder.BlockerAnswered, Allowed: true}); err != nil {
		t.Fatal(err)
	}
	k.until(r, "finish work")
	if b, err := away.Get(w.ctx, "B1"); err != nil || b.Ask.Reply != boulder.ReplyAllowed {
		t.Errorf("the agent got %+v, %v", b.Ask, err)
	}
}
