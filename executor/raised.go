package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// blockerPart tells the diverter which session calls the tool that reports blockers, and the orchestrator what came
// of it.
func (t *turn) blockerPart(ctx context.Context, p opencode.Part) error {
	if t.cfg.Diverter == nil || p.Tool == nil {
		return nil
	}
	c := p.Tool
	ended, told := t.seen.toldOf[p.ID]
	if !t.isBlockerTool(c.Tool) || c.State == opencode.ToolPending || ended {
		return nil
	}
	if !told { // a short call can end before an event says that it runs
		input, err := t.wholeInput(ctx, p)
		if err != nil {
			return err
		}
		t.seen.diverting = true
		// The part's id, since providers number calls as they like: two sessions of the tree may have the same.
		t.cfg.Diverter.Called(boulder.BlockerCall{BlockerScope: t.scope(), CallID: p.ID, Input: input})
	}
	if t.seen.toldOf == nil {
		t.seen.toldOf = map[string]bool{}
	}
	ended = c.State != opencode.ToolRunning
	t.seen.toldOf[p.ID] = ended
	if !ended {
		return nil
	}
	return t.tellRaised(ctx)
}

// wholeInput are a call's arguments as they were made: events cut long texts, and with those the call is not
// recognised.
func (t *turn) wholeInput(ctx context.Context, p opencode.Part) ([]byte, error) {
	if !p.Cut {
		return p.Tool.Input, nil
	}
	m, err := t.directoryOf(p.SessionID).Message(ctx, p.SessionID, p.MessageID)
	if err != nil && !errors.Is(err, opencode.ErrNotFound) {
		return nil, fault(err)
	}
	for _, x := range m.Parts {
		if x.Tool != nil && x.Tool.CallID == p.Tool.CallID {
			return x.Tool.Input, nil
		}
	}
	return p.Tool.Input, nil
}

// blockersMissed takes in what no event told, after all that is pending was looked at.
func (t *turn) blockersMissed(ctx context.Context) error {
	if t.diverted() {
		t.offerTool(ctx, t.conn.Down == nil)
		if err := t.tellUnoffered(); err != nil {
			return err
		}
	}
	if !t.seen.diverting {
		return nil
	}
	if err := t.missedCalls(ctx); err != nil {
		return err
	}
	all, err := t.raised(ctx, rulingTimeout)
	if err != nil {
		t.cfg.Logger.Warn("what was recorded for an attempt cannot be read", "error", err)
		return nil // it is read again at the end of the turn
	}
	if err := t.reportRaised(all); err != nil {
		return err
	}
	t.bury(ctx, all)
	return nil
}

// missedCalls looks for calls of the tool of which no event told: each waits to be known.
func (t *turn) missedCalls(ctx context.Context) error {
	if t.tool.name() == "" {
		return nil
	}
	const newest = 2
	for _, id := range t.tree.Sessions() {
		messages, err := t.directoryOf(id).Messages(ctx, id, newest)
		if err != nil && !errors.Is(err, opencode.ErrNotFound) {
			return fault(err)
		}
		for _, x := range messages {
			for _, p := range x.Parts {
				if p.Tool == nil || p.Tool.State != opencode.ToolRunning {
					continue
				}
				if err := t.blockerPart(ctx, p); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tellRaised reports what was recorded for the attempt, as soon as it is: an answer is for a blocker that is known.
// What cannot be read now is read at the end of the turn, see [turn.conclude].
func (t *turn) tellRaised(ctx context.Context) error {
	all, err := t.raised(ctx, rulingTimeout)
	if err != nil {
		t.cfg.Logger.Warn("what was recorded for an attempt cannot be read", "error", err)
		return nil
	}
	return t.reportRaised(all)
}

// concludeTimeout bounds the reading of what was recorded when no agent waits for it: somebody else may hold the
// database.
const concludeTimeout = 10 * time.Second

func (t *turn) raised(ctx context.Context, limit time.Duration) ([]boulder.Blocker, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return t.cfg.Diverter.Raised(ctx, t.job.Attempt.AttemptRef, t.job.BoulderID)
}

func (t *turn) reportRaised(all []boulder.Blocker) error {
	for _, b := range all {
		known := func(k boulder.RaisedBlocker) bool { return k.ID == b.ID }
		if t.seen.raised[b.ID] || slices.ContainsFunc(t.job.SubTask.Blockers, known) {
			continue
		}
		if err := t.report(boulder.BlockerRaised{AttemptRef: t.job.Attempt.AttemptRef, Blocker: b}); err != nil {
			return err
		}
		setIn(&t.seen.raised, b.ID)
		t.job.SubTask.Blockers = append(slices.Clip(t.job.SubTask.Blockers), boulder.RaisedBlocker{
			ID: b.ID, Attempt: t.job.Attempt.Attempt, Hard: b.Hard, Question: b.Question, Status: b.Status,
		}) // for [boulder.Job.Awaits]
	}
	return nil
}

// bury marks what no session waits for any longer, after all that is pending was looked at: asks of a turn that was
// aborted, or of a server that died, perhaps under an earlier process.
func (t *turn) bury(ctx context.Context, all []boulder.Blocker) {
	for _, b := range all {
		waits := func(a *ask) bool { return a.ruling.BlockerID == b.ID }
		if b.Ask != nil && b.Ask.Reply == boulder.ReplyWaiting && !slices.ContainsFunc(t.seen.asks, waits) {
			t.gone(ctx, b.ID)
		}
	}
}

// conclude reports everything that was recorded before the turn's end is, so that nothing that is blocked goes on.
// Where that cannot be known the turn's end has to be taken up again.
func (t *turn) conclude(ctx context.Context) error {
	if t.cfg.Diverter == nil {
		return nil
	}
	t.endAsks(ctx)
	all, err := t.raised(ctx, concludeTimeout)
	switch {
	case err == nil:
	case t.seen.diverting || t.diverted():
		return fmt.Errorf("%w: what the agent reported as blocked cannot be read: %w", boulder.ErrTrouble, err)
	default:
		t.cfg.Logger.Warn("what was recorded for an attempt cannot be read", "error", err)
		return nil
	}
	if err := t.reportRaised(all); err != nil {
		return err
	}
	t.bury(ctx, all)
	return nil
}

// leave is conclude for a turn that did not come to its end. It is best effort: whoever takes the turn up does it
// again.
func (t *turn) leave(ctx context.Context, over bool) {
	if t.cfg.Diverter == nil || !t.seen.diverting {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), session.ReplyTimeout)
	defer cancel()
	if err := t.tellRaised(ctx); err != nil {
		t.cfg.Logger.Warn("a blocker is not reported yet", "error", err)
		return
	}
	if over { // otherwise the server may be out of reach only, and the asks still there
		t.endAsks(ctx)
	}
}

// endAsks marks the asks that are left: nobody waits for them any more.
func (t *turn) endAsks(ctx context.Context) {
	for _, a := range t.seen.asks {
		t.gone(ctx, a.ruling.BlockerID)
	}
	t.seen.asks = nil
}
