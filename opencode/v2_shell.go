package opencode

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// v2idle bounds the wait for the end of an interrupted turn, which takes half a second.
const v2idle = 5 * time.Second

// v2shell is a command that the server started.
type v2shell struct {
	ID, Status string
	Metadata   struct{ SessionID string }
	Time       struct{ Started millis }
}

// Abort also ends the commands that an interrupt leaves running: 2.0.14 forgets one that it has just started.
func (v v2) Abort(ctx context.Context, sessionID string) error {
	began := time.Now()
	if err := v.interrupt(ctx, sessionID); err != nil {
		return err
	}
	return ignoreNotFound(v.endShells(ctx, sessionID, began))
}

func (v v2) interrupt(ctx context.Context, sessionID string) error {
	return ignoreNotFound(post(ctx, v, "abort session", v2path(sessionID, "interrupt"), nil))
}

// endShells ends the commands of a session and its sub-agents that were started before a time. A session that stays busy
// has a new turn, or will be aborted again.
func (v v2) endShells(ctx context.Context, sessionID string, before time.Time) error {
	const op = "end commands"
	settling, cancel := context.WithTimeout(ctx, v2idle)
	defer cancel()
	err := v2poll(settling, op, func() (done bool, err error) {
		active, err := v.active(settling)
		_, busy := active[sessionID]
		return !busy, err
	})
	if settling.Err() != nil && ctx.Err() == nil {
		return nil
	}
	if err != nil {
		return err
	}
	s, err := v.Session(ctx, sessionID)
	if err != nil {
		return err
	}
	v.dir = s.Directory
	shells, err := getData[[]v2shell](ctx, v, op, "/api/shell", v.here())
	if errors.Is(err, ErrUnsupported) { // the preview of this API in OpenCode 1.18 lacks it
		return nil
	}
	for _, shell := range shells {
		if err != nil {
			return err
		}
		if shell.Status == "running" && shell.Time.Started.time().Before(before) {
			err = v.endShell(ctx, sessionID, shell)
		}
	}
	return err
}

// endShell ends a command if it belongs to the session or a sub-agent, and does not run in the background: the end of
// one that does would wake its session.
func (v v2) endShell(ctx context.Context, sessionID string, shell v2shell) (err error) {
	owner := shell.Metadata.SessionID
	for owner != "" && owner != sessionID && err == nil {
		owner, err = v.parent(ctx, owner)
	}
	if owner == "" || err != nil {
		return err
	}
	background := false
	query := url.Values{"limit": {strconv.Itoa(v2page)}, "order": {"desc"}, "type": {"assistant"}}
	err = v2pages(ctx, v, "end commands", v2path(shell.Metadata.SessionID, "message"), query, func(m v2message) bool {
		background = slices.ContainsFunc(m.Content, func(c v2content) bool {
			return c.State.Status == string(ToolCompleted) && bytes.Contains(c.State.Metadata, []byte(strconv.Quote(shell.ID)))
		})
		return !background
	})
	if err != nil || background {
		return err
	}
	return remove(ctx, v, "end command", "/api/shell/"+url.PathEscape(shell.ID), v.here())
}
