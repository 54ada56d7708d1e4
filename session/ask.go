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

// Ask is what OpenCode wants the user to say: one of the two.
type Ask struct {
	Permission *opencode.PermissionRequest
	Question   *opencode.QuestionRequest
}

// Asks are the permissions and the questions that a directory lists.
func Asks(permissions []opencode.PermissionRequest, questions []opencode.QuestionRequest) []Ask {
	var all []Ask
	for i := range permissions {
		all = append(all, Ask{Permission: &permissions[i]})
	}
	for i := range questions {
		all = append(all, Ask{Question: &questions[i]})
	}
	return all
}

// ID is the request's.
func (a Ask) ID() string {
	if a.Permission != nil {
		return a.Permission.ID
	}
	return a.Question.ID
}

// SessionID is the session that asks.
func (a Ask) SessionID() string {
	if a.Permission != nil {
		return a.Permission.SessionID
	}
	return a.Question.SessionID
}

// Tool is the call that asks; nil: none, or not known.
func (a Ask) Tool() *opencode.ToolRef {
	if a.Permission != nil {
		return a.Permission.Tool
	}
	return a.Question.Tool
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
	ref := a.Tool()
	if ref == nil {
		return call, true, nil
	}
	m, err := dir.Message(ctx, a.SessionID(), ref.MessageID)
	if errors.Is(err, opencode.ErrNotFound) {
		return call, false, nil
	}
	if err != nil {
		return call, false, err
	}
	for _, p := range m.Parts {
		if p.Tool != nil && p.Tool.CallID == ref.CallID {
			return *p.Tool, !p.Tool.State.Ended(), nil
		}
	}
	return call, true, nil
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
