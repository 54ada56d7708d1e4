package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

// ReplyTimeout bounds a reply: an agent waits for it.
const ReplyTimeout = 5 * time.Second

// Ask is what OpenCode wants the user to say: a permission or a question.
type Ask struct {
	ID         string            // of the request
	Session    string            // that asks
	Tool       *opencode.ToolRef // the call that asks; nil: none, or not known
	Permission *opencode.PermissionRequest
	Question   *opencode.QuestionRequest
}

func permission(r opencode.PermissionRequest) Ask {
	return Ask{ID: r.ID, Session: r.SessionID, Tool: r.Tool, Permission: &r}
}

func question(r opencode.QuestionRequest) Ask {
	return Ask{ID: r.ID, Session: r.SessionID, Tool: r.Tool, Question: &r}
}

// String says it in words, however many.
func (a Ask) String() string {
	if p := a.Permission; p != nil {
		return fmt.Sprintf("permission %s %v", p.Permission, p.Patterns)
	}
	return "the question " + cmp.Or(a.asked(), "without words")
}

// asked are the words of a question; several that are asked together are one.
func (a Ask) asked() string {
	var all []string
	for _, q := range a.Question.Questions {
		all = append(all, cmp.Or(q.Question, q.Header))
	}
	return strings.Join(all, " / ")
}

// Blocker is the ask as it is taken down, without whose it is; the words for a permission are found when it is stored.
func (a Ask) Blocker() boulder.Blocker {
	if p := a.Permission; p != nil {
		return boulder.Blocker{Category: boulder.BlockerPermission, Ask: &boulder.Ask{
			Kind: boulder.AskPermission, RequestID: p.ID, Permission: p.Permission, Patterns: p.Patterns,
			Arguments: string(p.Metadata),
		}}
	}
	b := boulder.Blocker{
		Category: boulder.BlockerQuestion, Question: a.asked(),
		Ask: &boulder.Ask{Kind: boulder.AskQuestion, RequestID: a.Question.ID},
	}
	for _, q := range a.Question.Questions {
		for _, o := range q.Options {
			b.Options = append(b.Options, o.Label)
		}
	}
	return b
}

// Call reads the call that asks, as far as it is known, and reports whether it waits: OpenCode goes on listing asks of a
// turn that was aborted (seen), and to refuse one of those sweeps away what the session asks for now.
func (a Ask) Call(ctx context.Context, dir *opencode.Directory) (call opencode.ToolCall, waits bool, err error) {
	if a.Tool == nil {
		return call, true, nil
	}
	m, err := dir.Message(ctx, a.Session, a.Tool.MessageID)
	if errors.Is(err, opencode.ErrNotFound) {
		return call, false, nil
	}
	if c := CallOf(m, a.Tool.CallID); c != nil {
		return *c, !c.State.Ended(), err
	}
	return call, err == nil, err
}

// Reply tells OpenCode what was ruled. [opencode.ErrNotFound] means that nobody waits for it.
func (a Ask) Reply(ctx context.Context, dir *opencode.Directory, reply boulder.AskReply, message string) error {
	ctx, cancel := context.WithTimeout(ctx, ReplyTimeout)
	defer cancel()
	switch {
	case a.Question != nil:
		answers := make([][]string, max(1, len(a.Question.Questions)))
		for i := range answers {
			answers[i] = []string{message}
		}
		err := dir.AnswerQuestion(ctx, a.Question.ID, answers)
		if err == nil || errors.Is(err, opencode.ErrNotFound) {
			return err
		}
		return dir.RejectQuestion(ctx, a.Question.ID) // better than to let it hang
	case reply == boulder.ReplyAllowed:
		return dir.ReplyPermission(ctx, a.Permission.ID, opencode.ReplyOnce, "")
	}
	return dir.ReplyPermission(ctx, a.Permission.ID, opencode.ReplyReject, message)
}
