package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

const (
	stopGrace = 15 * time.Second       // for an aborted turn to become idle
	stopCheck = 200 * time.Millisecond // between aborts; there is no event if the model had not been called
)

// StopSession implements orchestrator.SessionStopper.
func (e *Executor) StopSession(ctx context.Context, left boulder.LeftSession) error {
	if left.Server != "" {
		return e.stopAt(ctx, left.Server, left.SessionID)
	}
	conn, done, err := e.cfg.Host.Use(ctx)
	if err != nil {
		return startFault(err)
	}
	defer done()
	return e.stopAnywhere(ctx, conn.Client, left.SessionID)
}

// stopAt stops a session on the server that a run was attached to. Other servers know the session too, but report it as
// idle. If nothing listens at the address, the agents ended with their server.
func (e *Executor) stopAt(ctx context.Context, server, sessionID string) error {
	client, err := e.cfg.Attach(ctx, server)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil
	case errors.Is(err, opencode.ErrUnavailable):
		return fmt.Errorf("%w: %w", boulder.ErrTrouble, err)
	case err != nil:
		return fmt.Errorf("%w: an agent may be at work there: %w", boulder.ErrFatal, err)
	}
	defer client.Close()
	return e.stopAnywhere(ctx, client, sessionID)
}

// stopAnywhere stops a session in the directory that it works in, perhaps a slot: others do not report it as busy.
func (e *Executor) stopAnywhere(ctx context.Context, client *opencode.Client, sessionID string) error {
	dir := client.In(e.cfg.Project)
	switch s, err := dir.Session(ctx, sessionID); {
	case errors.Is(err, opencode.ErrNotFound):
		return nil
	case err != nil:
		return fault(err)
	default:
		return e.stopSession(ctx, client.In(cmp.Or(s.Directory, dir.Path())), sessionID)
	}
}

// stopSession ends a turn, and waits until its session is idle, so that its work can be judged.
func (e *Executor) stopSession(ctx context.Context, dir *opencode.Directory, sessionID string) error {
	stopping, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	var err error
	for err == nil {
		if err = dir.Abort(stopping, sessionID); err != nil {
			break
		}
		<-e.cfg.After(stopCheck) // an abort just as a tool begins is lost (observed)
		var statuses map[string]opencode.Status
		statuses, err = dir.Statuses(stopping)
		if t := statuses[sessionID].Type; err == nil && (t == "" || t == opencode.Idle) {
			return nil
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, opencode.ErrNotFound):
		return nil
	case stopping.Err() != nil:
		return fmt.Errorf("%w: session %s did not stop within %s of an abort", boulder.ErrTrouble, sessionID, stopGrace)
	}
	return fault(err)
}

// nudge tells the agent in the running turn that it seems to be stuck, once for each rule. It does not check that the
// prompt arrives: if it is lost, the rule stops the turn a little later.
func (t *turn) nudge(ctx context.Context, d enforcer.Decision) error {
	now := t.cfg.Now()
	n := boulder.Nudge{Rule: d.Rule, MessageID: opencode.NewMessageID(now), Prompt: nudgeText(d), At: now.UTC()}
	err := t.report(boulder.Nudged{
		AttemptRef: t.job.Attempt.AttemptRef, Turn: t.job.Turn.Number, Rule: n.Rule, MessageID: n.MessageID, Prompt: n.Prompt,
	})
	if err != nil {
		return err
	}
	t.seen.nudged = true
	t.tree.Nudged(n)
	p := opencode.Prompt{MessageID: n.MessageID, Text: n.Prompt, Metadata: t.tag()}
	if d.Session == t.job.Attempt.SessionID {
		p.Agent, p.Model, p.Variant = t.job.Attempt.Agent, t.model, t.effort // a sub-agent keeps its own
	}
	return fault(t.tree.In(t.dir, d.Session).Prompt(ctx, d.Session, p))
}

func nudgeText(d enforcer.Decision) string {
	what := "Doing the same again will not help. Say in one sentence what you have learned from it, then go another way:" +
		" other arguments, another tool, or a smaller step."
	if d.Rule == boulder.RuleIdle {
		what = "Act: call the tool that does the next step. If everything is done, say what was done and end your turn."
	}
	return "[manager] You seem to be stuck: " + text.Fold(d.Reason) + ". " + what +
		" If it cannot be done, leave it, and say so and why in your final message."
}

// giveUp ends the turn because a provider refuses for good, or needs so long that the slot is better freed.
func (t *turn) giveUp(ctx context.Context, r enforcer.Retry, reason string) error {
	if err := t.stopSession(ctx, t.dir, t.job.Attempt.SessionID); err != nil {
		return err
	}
	after := max(0, r.Next.Sub(t.cfg.Now())).Round(time.Millisecond)
	return retryFault(r.Message, cmp.Or(r.Model, t.modelName(opencode.ModelRef{})), reason, after)
}
