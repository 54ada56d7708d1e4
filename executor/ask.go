package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// ask is a request of a session of the tree that the diverter was given and that is not replied to.
type ask struct {
	id, session string
	dir         *opencode.Directory
	questions   int // of a question: how many texts answer it
	blocker     boulder.Blocker
	ruling      boulder.Ruling
	failed      error // why there is no record
}

func (a *ask) waits() bool { return a.ruling.Reply == boulder.ReplyWaiting }

func (a *ask) reply(ctx context.Context, message string) error {
	switch {
	case a.questions > 0:
		answers := make([][]string, a.questions)
		for i := range answers {
			answers[i] = []string{message}
		}
		err := a.dir.AnswerQuestion(ctx, a.id, answers)
		if err == nil || errors.Is(err, opencode.ErrNotFound) {
			return err
		}
		return a.dir.RejectQuestion(ctx, a.id) // better than to let it hang
	case a.ruling.Reply == boulder.ReplyAllowed:
		return a.dir.ReplyPermission(ctx, a.id, opencode.ReplyOnce, "")
	}
	return a.dir.ReplyPermission(ctx, a.id, opencode.ReplyReject, message)
}

// permissionAsk is a permission as it is taken down.
func (t *turn) permissionAsk(dir *opencode.Directory, r opencode.PermissionRequest) *ask {
	what := "May the agent use " + r.Permission
	if patterns := strings.Join(r.Patterns, ", "); patterns != "" && patterns != "*" {
		what += " for " + patterns
	}
	a := &ask{id: r.ID, session: r.SessionID, dir: dir, blocker: t.blocker(r.SessionID, r.Tool)}
	a.blocker.Category, a.blocker.Question = boulder.BlockerPermission, what+"?"
	a.blocker.Ask.Kind, a.blocker.Ask.RequestID = boulder.AskPermission, r.ID
	a.blocker.Ask.Permission, a.blocker.Ask.Patterns = r.Permission, r.Patterns
	return a
}

// questionAsk is a question as it is taken down. Several that are asked together are one.
func (t *turn) questionAsk(dir *opencode.Directory, r opencode.QuestionRequest) *ask {
	a := &ask{
		id: r.ID, session: r.SessionID, dir: dir, questions: max(1, len(r.Questions)),
		blocker: t.blocker(r.SessionID, r.Tool),
	}
	var asked []string
	for _, q := range r.Questions {
		asked = append(asked, q.Question)
		for _, o := range q.Options {
			a.blocker.Options = append(a.blocker.Options, o.Label)
		}
	}
	a.blocker.Category = boulder.BlockerQuestion
	a.blocker.Question = cmp.Or(strings.Join(asked, " / "), "A question without words.")
	a.blocker.Ask.Kind, a.blocker.Ask.RequestID = boulder.AskQuestion, r.ID
	return a
}

// blocker is what asks have in common.
func (t *turn) blocker(session string, ref *opencode.ToolRef) boulder.Blocker {
	s := t.scope()
	b := boulder.Blocker{
		BoulderID: s.BoulderID, SubTaskID: s.SubTaskID, Attempt: s.Attempt, SessionID: s.SessionID, Diverted: s.Diverted,
		Context: "The sub-task: " + strings.TrimRight(t.job.SubTask.Subject, ".") + ".", Ask: &boulder.Ask{},
	}
	m := t.member(session)
	if session != s.SessionID {
		b.Context += " A sub-agent asks, which is to do this: " + cmp.Or(m.title, "unknown") + "."
	}
	if m.directory != "" {
		b.Context += " It works in " + m.directory + "."
	}
	if ref != nil {
		c := t.seen.calls[*ref]
		b.Ask.Tool, b.Ask.Arguments = c.tool, string(c.input)
	}
	return b
}

func (t *turn) inWords(a *ask) string {
	asked := "the question " + text.Short(t.cfg.Redact.Text(a.blocker.Question), 200)
	if p := a.blocker.Ask; p.Kind == boulder.AskPermission {
		asked = "permission " + p.Permission + " " + text.Short(t.cfg.Redact.Text(fmt.Sprint(p.Patterns)), 200)
	}
	if a.session != t.job.Attempt.SessionID {
		asked += " (sub-agent)"
	}
	return asked
}
