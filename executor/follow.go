package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
)

// observation is what was seen of a turn while it ran.
type observation struct {
	began, lastEvent time.Time
	busy             bool
	offlineSince     time.Time
	toolsRunning     map[string]bool // by call id
	toolsBegun       map[string]bool // those that were reported when they began
	toolsDone        map[string]bool
	touched          map[string]bool // files, absolute
	steps            map[string]bool // finished calls of the model, by part
	usage            boulder.Usage   // of these
	failed           *opencode.TurnError
	stopped          string // why the manager ended the turn
	looks            int    // how often a prompt without a turn was sent again
}

// errNoTurn is the answer to a prompt that was accepted again and again and never began a turn.
var errNoTurn = errors.New("OpenCode accepted the prompt but began no turn")

// maxLooks bounds how often a prompt that began no turn is sent again.
const maxLooks = 3

// follow reads the events until the turn has ended. It ends the turn itself when the enforcer says so, and when ctx ends.
func (t *turn) follow(ctx context.Context, sub *opencode.Subscription) error {
	now := t.cfg.Now()
	t.seen.lastEvent = now
	if t.seen.began.IsZero() {
		t.seen.began = now
	}
	for {
		d := enforcer.Decide(t.asSeen(), t.rules, t.cfg.Now())
		switch d.Kind {
		case enforcer.Stop:
			t.seen.stopped = d.Reason
			return t.stop(ctx, sub)
		case enforcer.Lose:
			return fmt.Errorf("%w: %s", boulder.ErrTrouble, d.Reason)
		case enforcer.Look:
			if ended, err := t.look(ctx); ended || err != nil {
				return err
			}
			continue
		}
		ended, err := t.next(ctx, sub, d.At)
		if ended || err != nil {
			return err
		}
	}
}

// confirmed reports whether the turn is over indeed. A turn that failed or was aborted gives its last idle event late: one that is
// run again right after it would be taken for ended by that event (seen).
func (t *turn) confirmed(ctx context.Context) (bool, error) {
	if !t.job.Recovered || t.seen.stopped != "" {
		return true, nil
	}
	p, err := t.position(ctx)
	return !p.busy, err
}

func (t *turn) asSeen() enforcer.Seen {
	return enforcer.Seen{
		Began: t.seen.began, LastEvent: t.seen.lastEvent, Busy: t.seen.busy,
		ToolsRunning: len(t.seen.toolsRunning), OfflineSince: t.seen.offlineSince,
	}
}

// next waits for one event, at most until the given time.
func (t *turn) next(ctx context.Context, sub *opencode.Subscription, until time.Time) (ended bool, err error) {
	timer := time.NewTimer(until.Sub(t.cfg.Now()))
	defer timer.Stop()
	select {
	case e, ok := <-sub.C():
		if !ok {
			return false, fmt.Errorf("%w: the event stream was closed", boulder.ErrTrouble)
		}
		return t.event(ctx, e)
	case <-timer.C:
		return false, nil
	case <-t.conn.Down:
		return false, fmt.Errorf("%w: the OpenCode server died", boulder.ErrTrouble)
	case <-ctx.Done():
		t.abort(context.WithoutCancel(ctx))
		return false, context.Cause(ctx)
	}
}

// skip drops what came before the prompt is sent. A [opencode.Resync] among it says that the connection stands: then nothing of
// the turn will be missing, and there is no need to ask.
func (t *turn) skip(sub *opencode.Subscription) {
	for {
		select {
		case e, ok := <-sub.C():
			if !ok {
				return
			}
			switch e.Payload.(type) {
			case opencode.Resync:
				t.seen.offlineSince = time.Time{}
			case opencode.Disconnected:
				t.seen.offlineSince = t.cfg.Now()
			}
		default:
			return
		}
	}
}

// event takes in one event, and says whether the turn has ended with it.
func (t *turn) event(ctx context.Context, e opencode.Event) (ended bool, err error) {
	own := e.SessionID == t.job.Attempt.SessionID
	if e.SessionID != "" {
		t.seen.lastEvent = t.cfg.Now()
	}
	switch p := e.Payload.(type) {
	case opencode.Resync:
		t.seen.offlineSince = time.Time{}
		return t.resync(ctx)
	case opencode.Disconnected:
		t.seen.offlineSince = t.cfg.Now()
	case opencode.StatusChanged:
		if own {
			return t.status(p.Status)
		}
	case opencode.SessionFailed:
		if own {
			return t.sessionFailed(p.Err), nil
		}
	case opencode.PartUpdated:
		return false, t.part(p.Part, own)
	case opencode.TodosUpdated:
		if own {
			return false, t.todos(p.Todos)
		}
	case opencode.PermissionAsked:
		return false, t.answer(ctx, p.Request)
	case opencode.QuestionAsked:
		return false, fault(ignoreGone(t.dir.RejectQuestion(ctx, p.Request.ID)))
	}
	return false, nil
}

// sessionFailed remembers why a turn failed. One that could not even begin says nothing more.
func (t *turn) sessionFailed(e *opencode.TurnError) (ended bool) {
	if e == nil {
		return false
	}
	t.seen.failed = e
	return !t.seen.busy
}

func (t *turn) status(s opencode.Status) (ended bool, err error) {
	switch s.Type {
	case opencode.Busy:
		t.seen.busy = true
	case opencode.Retry:
		t.seen.busy = true
		return false, t.progress(fmt.Sprintf("the model's provider makes it wait (try %d, until %s): %s",
			s.Attempt, s.Next.Format(time.TimeOnly), s.Message), nil)
	case opencode.Idle:
		return t.seen.busy, nil
	}
	return false, nil
}

// resync reads what may have happened while no events came.
func (t *turn) resync(ctx context.Context) (ended bool, err error) {
	requests, err := t.dir.Permissions(ctx)
	if err != nil {
		return false, fault(err)
	}
	for _, r := range requests {
		if r.SessionID == t.job.Attempt.SessionID {
			if err := t.answer(ctx, r); err != nil {
				return false, err
			}
		}
	}
	p, err := t.position(ctx)
	if err != nil {
		return false, err
	}
	t.seen.busy = t.seen.busy || p.busy
	return !p.busy && p.answered, nil
}

// look finds out why an accepted prompt shows no turn: it may have been missed, or it has to be sent again.
func (t *turn) look(ctx context.Context) (ended bool, err error) {
	ended, err = t.resync(ctx)
	if ended || err != nil || t.seen.busy {
		return ended, err
	}
	if t.seen.looks++; t.seen.looks > maxLooks {
		return false, fmt.Errorf("%w: %w", boulder.ErrTrouble, errNoTurn)
	}
	t.seen.began = t.cfg.Now()
	return false, t.prompt(ctx, t.lastMessageID(), t.lastPrompt())
}

// refusal is what the agent is told when it asks for a permission that nobody is there to give.
const refusal = "Nobody is there to give this permission. Go on without it: find another way, or leave this part out and" +
	" say so in your final message."

func (t *turn) answer(ctx context.Context, r opencode.PermissionRequest) error {
	if err := t.progress(fmt.Sprintf("refused permission %s %v", r.Permission, r.Patterns), nil); err != nil {
		return err
	}
	return fault(ignoreGone(t.dir.ReplyPermission(ctx, r.ID, opencode.ReplyReject, refusal)))
}

func ignoreGone(err error) error {
	if errors.Is(err, opencode.ErrNotFound) {
		return nil
	}
	return err
}

// stopGrace is how long an aborted turn may take to become idle.
const stopGrace = 15 * time.Second

// stop aborts the turn and waits until the session is idle: what it did until then is judged.
func (t *turn) stop(ctx context.Context, sub *opencode.Subscription) error {
	t.abort(ctx)
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	for {
		ended, err := t.next(ctx, sub, t.cfg.Now().Add(stopGrace))
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("%w: the session did not stop within %s of an abort", boulder.ErrTrouble, stopGrace)
		case ended || err != nil:
			return err
		}
	}
}

// abort tells the server to end the turn. It is best effort: whoever calls it waits for the idle event, or leaves.
func (t *turn) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := t.dir.Abort(ctx, t.job.Attempt.SessionID); err != nil {
		t.cfg.Logger.Warn("the turn could not be aborted", "session", t.job.Attempt.SessionID, "error", err)
	}
}
