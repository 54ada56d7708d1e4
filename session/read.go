package session

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/bouldermgr/manager/opencode"
)

// Read reads the server's state of a session and everything below it, in whatever directories that works. at is the
// time now.
func Read(ctx context.Context, dir *opencode.Directory, root string, at time.Time) (Reading, error) {
	r := Reading{At: at, Statuses: map[string]opencode.Status{}}
	main, err := dir.Session(ctx, root)
	if err != nil {
		return r, err
	}
	if r.Messages, err = dir.Messages(ctx, root, MaxMessages); err != nil {
		return r, err
	}
	if r.Todos, err = dir.Todos(ctx, root); err != nil {
		return r, err
	}
	below, err := Descendants(ctx, dir, root)
	if err != nil {
		return r, err
	}
	r.Sessions = append([]opencode.Session{main}, below...)
	in := map[string]*opencode.Directory{main.Directory: dir}
	for _, s := range below {
		in[s.Directory] = dir.Client().In(s.Directory)
	}
	for _, d := range in {
		// After the sessions: a child that begins meanwhile is at work by its parent's status.
		statuses, err := d.Statuses(ctx)
		if err != nil {
			return r, err
		}
		maps.Copy(r.Statuses, statuses)
		asks, err := d.Requests(ctx)
		if err != nil {
			return r, err
		}
		r.Asks = append(r.Asks, asks...)
	}
	return r, nil
}

// Descendants are the sessions of sub-agents, and of theirs, parents before children.
func Descendants(ctx context.Context, dir *opencode.Directory, root string) ([]opencode.Session, error) {
	all := []opencode.Session{{ID: root}}
	for i := 0; i < len(all); i++ {
		in := dir
		if all[i].Directory != "" {
			in = dir.Client().In(all[i].Directory)
		}
		children, err := in.Children(ctx, all[i].ID)
		if err != nil && (i == 0 || !errors.Is(err, opencode.ErrNotFound)) {
			return nil, err
		}
		all = append(all, children...)
	}
	return all[1:], nil
}
