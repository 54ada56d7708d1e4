package executor

import (
	"context"
	"errors"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// Asks is a policy for permissions that OpenCode's configuration wants a person to be asked for. An ask waits for ever,
// so each is answered at once, in the whole tree of sessions and in whatever directory it comes up.
type Asks string

// The policies.
const (
	AsksReject Asks = "reject" // the tool fails with a text that says so, and the agent goes on
	AsksAllow  Asks = "allow"  // once, each time
)

// refusal is what the agent is told when it asks for a permission that nobody is there to give.
const refusal = "Nobody is there to give this permission. Go on without it: find another way, or leave this part out" +
	" and say so in your final message."

// ownAnswer is what the agent is told when it asks a question.
const ownAnswer = "Nobody is there to answer. Choose yourself what fits the task best, go on, and note the question and" +
	" your choice in your final message."

// doomLoop is the permission that OpenCode asks for when a message makes the same call three times. Rejecting it fails
// the turn, with or without a message (seen). Whether a session is stuck is for the enforcer to say.
const doomLoop = "doom_loop"

// asked takes in an ask of the tree that an event tells of.
func (t *turn) asked(ctx context.Context, a session.Ask) error {
	switch {
	case t.seen.asked[a.ID()]:
		return nil
	case t.diverted() && !t.isToolPermission(a):
		return t.divertAsked(ctx, a)
	}
	return t.answer(ctx, a)
}

// answer answers an ask by the policy. That somebody else has settled it, or its turn was aborted, is no trouble. A
// question gets a text of our own: that keeps the turn going, which a rejection ends (seen).
func (t *turn) answer(ctx context.Context, a session.Ask) error {
	reply, message, done, tell := boulder.ReplyDiverted, refusal, "refused ", t.notice
	switch {
	case a.Question != nil:
		message, done = ownAnswer, "nobody answers "
	case t.cfg.Asks == AsksAllow, a.Permission.Permission == doomLoop, t.isToolPermission(a):
		reply, done = boulder.ReplyAllowed, "allowed "
		tell = func(activity string) error { return t.progress(activity, nil) } // as the configuration has it
	}
	if err := tell(done + t.inWords(a)); err != nil {
		return err
	}
	t.seen.lastEvent, t.seen.looked = t.cfg.Now(), false
	return fault(ignoreGone(a.Reply(ctx, t.directoryOf(a.SessionID()), reply, message)))
}

// isToolPermission reports whether somebody wants to report a blocker, which needs a permission, too (seen).
func (t *turn) isToolPermission(a session.Ask) bool {
	return a.Permission != nil && t.isBlockerTool(a.Permission.Permission)
}

func (t *turn) inWords(a session.Ask) string {
	words := text.Short(t.cfg.Redact.Text(a.String()), 250)
	if a.SessionID() != t.job.Attempt.SessionID {
		words += " (sub-agent)"
	}
	return words
}

// pendingAsks answers what is waiting anywhere in the tree. One that is left over from an aborted turn is passed over:
// rejecting it rejects the others of its session with it, without a word to the agent. For the same reason the newest
// come first.
func (t *turn) pendingAsks(ctx context.Context, listed []session.Ask) error {
	listed = slices.DeleteFunc(listed, func(a session.Ask) bool { return !t.tree.Has(a.SessionID()) })
	if t.diverted() {
		return t.divertListed(ctx, listed)
	}
	for _, a := range slices.Backward(listed) {
		_, waits, err := t.asking(ctx, a)
		if err == nil && waits {
			err = t.asked(ctx, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, opencode.ErrNotFound) {
		return nil
	}
	return err
}
