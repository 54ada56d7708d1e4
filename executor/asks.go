package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
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

// askTimeout bounds one answer: an agent waits for it.
const askTimeout = 5 * time.Second

// permission answers a request. One that somebody else has settled, or whose turn was aborted, is no trouble.
func (t *turn) permission(ctx context.Context, dir *opencode.Directory, r opencode.PermissionRequest) error {
	switch {
	case t.seen.asked[r.ID]:
		return nil
	case !t.isBlockerTool(r.Permission) && t.diverted():
		return t.divertAsked(ctx, dir, r)
	}
	reply, message, done := opencode.ReplyReject, refusal, "refused"
	if t.cfg.Asks == AsksAllow || r.Permission == doomLoop || t.isBlockerTool(r.Permission) {
		reply, message, done = opencode.ReplyOnce, "", "allowed"
	}
	activity := fmt.Sprintf("%s permission %s %s", done, r.Permission, text.Short(t.cfg.Redact.Text(fmt.Sprint(r.Patterns)), 200))
	if r.SessionID != t.job.Attempt.SessionID {
		activity += " (sub-agent)"
	}
	tell := t.notice
	if reply == opencode.ReplyOnce { // as the configuration has it
		tell = func(activity string) error { return t.progress(activity, nil) }
	}
	if err := tell(activity); err != nil {
		return err
	}
	t.seen.lastEvent, t.seen.looked = t.cfg.Now(), false
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return fault(ignoreGone(dir.ReplyPermission(ctx, r.ID, reply, message)))
}

// question answers with a text of our own: that keeps the turn going, which a rejection ends (seen).
func (t *turn) question(ctx context.Context, dir *opencode.Directory, r opencode.QuestionRequest) error {
	switch {
	case t.seen.asked[r.ID]:
		return nil
	case t.diverted():
		return t.divertAskedQuestion(ctx, dir, r)
	}
	var asked []string
	answers := make([][]string, len(r.Questions))
	for i, q := range r.Questions {
		asked, answers[i] = append(asked, q.Question), []string{ownAnswer}
	}
	if err := t.notice("nobody answers the question: " + text.Short(t.cfg.Redact.Text(strings.Join(asked, " / ")), 200)); err != nil {
		return err
	}
	t.seen.lastEvent, t.seen.looked = t.cfg.Now(), false
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err := dir.AnswerQuestion(ctx, r.ID, answers)
	if err == nil || errors.Is(err, opencode.ErrNotFound) {
		return nil
	}
	return fault(ignoreGone(dir.RejectQuestion(ctx, r.ID)))
}

// pendingAsks answers what is waiting anywhere in the tree. The newest come first: rejecting one left over from an
// aborted turn rejects the others of its session with it, without a word to the agent.
func (t *turn) pendingAsks(ctx context.Context) error {
	if err := t.findChildren(ctx); err != nil {
		return err
	}
	directories := map[string]bool{"": true}
	for _, m := range t.seen.tree {
		directories[m.directory] = true
	}
	for path := range directories {
		dir := t.directory(path)
		permissions, err := dir.Permissions(ctx)
		if err != nil {
			return fault(err)
		}
		questions, err := dir.Questions(ctx)
		if err != nil {
			return fault(err)
		}
		if t.diverted() {
			err = t.divertListed(ctx, dir, permissions, questions)
		} else {
			err = t.answerListed(ctx, dir, permissions, questions)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) answerListed(
	ctx context.Context, dir *opencode.Directory, permissions []opencode.PermissionRequest,
	questions []opencode.QuestionRequest,
) error {
	for _, r := range slices.Backward(permissions) {
		if t.seen.tree[r.SessionID] != nil {
			if err := t.permission(ctx, dir, r); err != nil {
				return err
			}
		}
	}
	for _, r := range slices.Backward(questions) {
		if t.seen.tree[r.SessionID] != nil {
			if err := t.question(ctx, dir, r); err != nil {
				return err
			}
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
