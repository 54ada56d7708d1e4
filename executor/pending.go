package executor

import (
	"context"
	"errors"
	"slices"

	"github.com/bouldermgr/manager/opencode"
)

// divertListed takes in what a directory lists: what is new, and what is not there any more.
func (t *turn) divertListed(
	ctx context.Context, dir *opencode.Directory, permissions []opencode.PermissionRequest,
	questions []opencode.QuestionRequest,
) error {
	listed := map[string]bool{}
	if err := t.allowTool(ctx, dir, permissions); err != nil {
		return err
	}
	for _, r := range permissions {
		listed[r.ID] = true
	}
	for _, r := range questions {
		listed[r.ID] = true
	}
	for _, a := range slices.Clone(t.seen.asks) {
		if a.dir.Path() == dir.Path() && !listed[a.id] {
			t.settledElsewhere(ctx, a.id)
		}
	}
	asks, err := t.live(ctx, dir, permissions, questions)
	if err != nil {
		return err
	}
	return t.divert(ctx, asks...)
}

// allowTool lets those who want to report a blocker do it, before a refusal sweeps that away.
func (t *turn) allowTool(ctx context.Context, dir *opencode.Directory, listed []opencode.PermissionRequest) error {
	for _, r := range listed {
		if t.isBlockerTool(r.Permission) && t.seen.tree[r.SessionID] != nil {
			if err := t.permission(ctx, dir, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// beside are the other permissions that a directory's sessions ask for at this moment. It is about the order of the
// replies alone, so an ask is not held up for it.
func (t *turn) beside(ctx context.Context, dir *opencode.Directory, but string) []*ask {
	listed, err := dir.Permissions(ctx)
	if err == nil {
		err = t.allowTool(ctx, dir, listed)
	}
	if err != nil {
		t.cfg.Logger.Warn("what else is asked is not known", "error", err)
		return nil
	}
	listed = slices.DeleteFunc(listed, func(r opencode.PermissionRequest) bool { return r.ID == but })
	asks, err := t.live(ctx, dir, listed, nil)
	if err != nil {
		t.cfg.Logger.Warn("what else is asked is not known", "error", err)
	}
	return asks
}

// live are the asks of the tree among those that a directory lists and that are not known yet. One whose turn was
// aborted is still listed: its call has ended, and to refuse it would sweep away what the session asks for now.
func (t *turn) live(
	ctx context.Context, dir *opencode.Directory, permissions []opencode.PermissionRequest,
	questions []opencode.QuestionRequest,
) ([]*ask, error) {
	var asks []*ask
	mine := func(id, session string, ref *opencode.ToolRef) (bool, error) {
		if t.seen.tree[session] == nil || t.seen.asked[id] {
			return false, nil
		}
		return t.calls(ctx, dir, session, ref)
	}
	for _, r := range permissions {
		if t.isBlockerTool(r.Permission) {
			continue
		}
		ok, err := mine(r.ID, r.SessionID, r.Tool)
		if err != nil {
			return asks, err
		}
		if ok {
			asks = append(asks, t.permissionAsk(dir, r))
		}
	}
	for _, r := range questions {
		ok, err := mine(r.ID, r.SessionID, r.Tool)
		if err != nil {
			return asks, err
		}
		if ok {
			asks = append(asks, t.questionAsk(dir, r))
		}
	}
	return asks, nil
}

// calling is a tool call that is under way.
type calling struct {
	tool  string
	input []byte
}

// know sees to it that the arguments of an asking call are known: the event that tells them may come after the ask.
// They are for people to read, so an ask is not held up for them.
func (t *turn) know(ctx context.Context, dir *opencode.Directory, session string, ref *opencode.ToolRef) {
	if _, err := t.calls(ctx, dir, session, ref); err != nil {
		t.cfg.Logger.Warn("the arguments of a call that asks are not known", "session", session, "error", err)
	}
}

// calls reports whether a call is under way, and sees to it that its arguments are known.
func (t *turn) calls(
	ctx context.Context, dir *opencode.Directory, session string, ref *opencode.ToolRef,
) (bool, error) {
	if ref == nil {
		return true, nil
	}
	if _, ok := t.seen.calls[*ref]; ok {
		return true, nil
	}
	m, err := dir.Message(ctx, session, ref.MessageID)
	if errors.Is(err, opencode.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fault(err)
	}
	for _, p := range m.Parts {
		if p.Tool != nil && p.Tool.CallID == ref.CallID {
			t.underWay(p)
			_, ok := t.seen.calls[*ref]
			return ok || p.Tool.State == opencode.ToolPending, nil
		}
	}
	return true, nil
}

// underWay keeps the arguments of a call until it has ended.
func (t *turn) underWay(p opencode.Part) {
	ref := opencode.ToolRef{MessageID: p.MessageID, CallID: p.Tool.CallID}
	switch p.Tool.State {
	case opencode.ToolRunning:
		if t.seen.calls == nil {
			t.seen.calls = map[opencode.ToolRef]calling{}
		}
		t.seen.calls[ref] = calling{p.Tool.Tool, p.Tool.Input}
	case opencode.ToolCompleted, opencode.ToolError:
		delete(t.seen.calls, ref)
	}
}
