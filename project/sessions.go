package project

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

// afterwards is how long after the end of a boulder OpenCode may still write to its sessions.
const afterwards = time.Minute

// leftSessions finds the sessions of archived boulders, or of all, in OpenCode.
func (p *Project) leftSessions(ctx context.Context, known map[string]*boulder.Snapshot, every bool) (all []Left, warn error) {
	var dir *opencode.Directory
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if !every && known[id].Boulder.ArchivedAt.IsZero() {
			continue
		}
		sessions, ended, err := p.sessionsOf(ctx, id)
		if err == nil && len(sessions) > 0 && dir == nil {
			dir, err = p.directory(ctx)
		}
		if err != nil {
			return all, err
		}
		l, used := Left{Kind: "sessions", BoulderID: id}, 0
		var gone []string
		for _, session := range sessions {
			switch s, err := dir.Session(ctx, session); {
			case errors.Is(err, opencode.ErrNotFound): // removed, or on another server
			case err != nil:
				return all, err
			case s.Updated.After(ended.Add(afterwards)):
				used++
			default:
				gone = append(gone, session)
			}
		}
		if l.Count = len(gone); l.Count > 0 {
			l.remove = func(ctx context.Context) error {
				for _, session := range gone {
					if err := dir.DeleteSession(ctx, session); err != nil {
						return err
					}
				}
				return nil
			}
			all = append(all, l)
		}
		if used > 0 {
			all = append(all, Left{Kind: "sessions", BoulderID: id, Count: used, Stays: "used after the end of the boulder"})
		}
	}
	return all, nil
}

// sessionsOf returns the OpenCode sessions of a boulder, and when its work ended.
func (p *Project) sessionsOf(ctx context.Context, id string) (sessions []string, ended time.Time, err error) {
	events, err := Look(ctx, p, id, func(ctx context.Context, there *Access, _ boulder.Snapshot) ([]boulder.Event, error) {
		return there.Events(ctx, id, 0, 0)
	})
	for _, e := range events {
		session := ""
		switch body := e.Body.(type) {
		case boulder.SubTaskStart:
			session = body.SessionID
		case boulder.LookSession:
			session = body.SessionID
		case boulder.Archived, boulder.Landed, boulder.Redone, boulder.Kept, boulder.SessionLeft:
			continue
		}
		if ended = e.Time; session != "" && !slices.Contains(sessions, session) {
			sessions = append(sessions, session)
		}
	}
	return sessions, ended, err
}

// directory connects to OpenCode in the project, and starts it if necessary.
func (p *Project) directory(ctx context.Context) (*opencode.Directory, error) {
	if p.host == nil {
		if err := p.ConnectOpenCode(ctx); err != nil {
			return nil, err
		}
	}
	client, err := p.Client(ctx)
	if err != nil {
		return nil, err
	}
	return client.In(p.dir), nil
}

func (p *Project) archiveSessions(ctx context.Context, id string, at time.Time) error {
	sessions, _, err := p.sessionsOf(ctx, id)
	if err != nil || len(sessions) == 0 {
		return err
	}
	dir, err := p.directory(ctx)
	if err != nil {
		return err
	}
	for _, session := range sessions {
		if err := dir.ArchiveSession(ctx, session, at); err != nil && !errors.Is(err, opencode.ErrNotFound) {
			return err
		}
	}
	return nil
}
