package watch

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// readTree reads the server's state of a session and everything below it.
func readTree(ctx context.Context, dir *opencode.Directory, root string, at time.Time) (session.Reading, error) {
	r := session.Reading{At: at}
	main, err := dir.Session(ctx, root)
	if err != nil {
		return r, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		r.Sessions, err = withChildren(ctx, dir, main)
		if err == nil { // after the sessions: a child that begins meanwhile is at work by its parent's status
			r.Statuses, err = dir.Statuses(ctx)
		}
		return err
	})
	g.Go(func() (err error) {
		r.Messages, err = dir.Messages(ctx, root, session.MaxMessages)
		return err
	})
	g.Go(func() (err error) {
		r.Todos, err = dir.Todos(ctx, root)
		return err
	})
	g.Go(func() (err error) {
		r.Permissions, err = dir.Permissions(ctx)
		return err
	})
	g.Go(func() (err error) {
		r.Questions, err = dir.Questions(ctx)
		return err
	})
	return r, g.Wait()
}

// withChildren lists a session and its sub-agents', parents before children.
func withChildren(ctx context.Context, dir *opencode.Directory, main opencode.Session) ([]opencode.Session, error) {
	all := []opencode.Session{main}
	for i := 0; i < len(all); i++ {
		children, err := dir.Children(ctx, all[i].ID)
		if err != nil {
			return nil, err
		}
		all = append(all, children...)
	}
	return all, nil
}
