package project

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project/internal/control"
	"github.com/bouldermgr/manager/store"
)

// leaving is a holder that ends between two answers; another process follows it.
type leaving struct{ left atomic.Bool }

func (*leaving) Listing(context.Context) ([]store.Item, error) {
	return []store.Item{{BoulderID: "b", Raised: 1}}, nil
}

func (l *leaving) Get(context.Context, string) (boulder.Snapshot, error) {
	if l.left.CompareAndSwap(false, true) {
		return boulder.Snapshot{}, fmt.Errorf("%w: %w", ErrNotServed, context.Canceled)
	}
	return boulder.Snapshot{Boulder: boulder.Boulder{ID: "b"}}, nil
}

func (*leaving) Events(context.Context, string, uint64, int) ([]boulder.Event, error) {
	return nil, nil
}

// What is read in several steps is read again if the holder ends between them.
func TestTheHolderEndsWhileItIsRead(t *testing.T) {
	t.Parallel()
	p := prepare(t.TempDir(), Options{})
	dir, err := store.EnsureDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	holder := &leaving{}
	server, err := control.Serve(t.Context(), filepath.Join(dir, control.SocketName), Holder{PID: 1, Running: []string{"b"}}, holder, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := p.ListBlockers(t.Context(), blockers.Filter{}); err != nil {
		t.Error(err)
	}
	holder.left.Store(false)
	if b, err := p.Snapshot(t.Context(), "b"); err != nil || b.Boulder.ID != "b" {
		t.Errorf("%+v, %v", b.Boulder, err)
	}
}
