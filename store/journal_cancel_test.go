package store

import (
	"context"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// lateCancel is a context that is cancelled after it was asked so many times whether it is.
type lateCancel struct {
	context.Context

	mu   sync.Mutex
	left int
}

func (c *lateCancel) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// A caller who gives up while his commit folds the journal does not end the handle for everybody else: an order to one
// boulder and the run of another one share it.
func TestCancelDuringFold(t *testing.T) {
	t.Parallel()
	for asked := range 6 {
		db := openTemp(t)
		w := newWorld(t, "id", epoch, spec("a"))
		c, _ := w.TakeChanges()
		if err := db.Commit(&lateCancel{Context: t.Context(), left: asked}, c); err != nil {
			if err := db.Commit(t.Context(), c); err != nil {
				t.Errorf("cancelled after %d questions: the commit that had not begun, again: %v", asked, err)
				continue
			}
		}
		w.must(t, boulder.Noted{Text: "of somebody else"})
		c, _ = w.TakeChanges()
		if err := db.Commit(t.Context(), c); err != nil {
			t.Errorf("cancelled after %d questions: the next commit: %v", asked, err)
		}
	}
}
