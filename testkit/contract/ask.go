package contract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

const (
	nester = "nester"
	reason = "do it another way"
)

var askForBash = opencode.Rule{Permission: "bash", Pattern: "*", Action: opencode.Ask}

func (s *scene) pending(sessionID string) []opencode.Request {
	all := must(s.dir.Requests(s.ctx))
	return slices.DeleteFunc(all, func(r opencode.Request) bool { return r.SessionID != sessionID })
}

// askedFor runs a turn up to a request, and checks that the event and the list agree.
func (s *scene) askedFor(
	part scriptmodel.Handler, rules ...opencode.Rule,
) (sessionID string, sub *opencode.Subscription, told opencode.Request) {
	sessionID, sub, _ = s.begin(part, rules...)
	told = next[opencode.Asked](s, sub).Request
	listed := s.pending(sessionID)
	s.want(len(listed) == 1 && listed[0].ID == told.ID && told.SessionID == sessionID,
		"told %+v, listed %+v", told, listed)
	return sessionID, sub, told
}

func allowed(s *scene) {
	session, sub, asked := s.askedFor(scriptmodel.Steps(s.touch("done")), askForBash)
	s.want(asked.Permission == "bash" && slices.Contains(asked.Patterns, "touch "+s.mark+"done") && asked.Tool != nil &&
		asked.Tool.CallID != "", "asked for %+v", asked)
	s.want(!s.exists("done"), "the command ran before it was allowed")
	s.must(s.dir.ReplyPermission(s.ctx, asked.ID, opencode.ReplyOnce, ""))
	closed := next[opencode.RequestClosed](s, sub).RequestID
	s.want(closed == asked.ID, "closed is %s", closed)
	s.idle(sub, session)
	s.want(s.exists("done"), "the command did not run")
	err := s.dir.ReplyPermission(s.ctx, asked.ID, opencode.ReplyOnce, "")
	s.want(errors.Is(err, opencode.ErrNotFound), "a second reply: %v", err)
}

func refused(s *scene) {
	session, sub, asked := s.askedFor(once(s.touch("done")), askForBash)
	s.must(s.dir.ReplyPermission(s.ctx, asked.ID, opencode.ReplyReject, reason))
	s.idle(sub, session)
	s.want(!s.exists("done"), "the refused command ran")
	s.want(len(s.asked()) == 2 && strings.Contains(s.asked()[1].Text(), reason),
		"the model was not told why")
}

// threeAsked runs a turn up to three simultaneous requests, for commands that create the files 1, 2 and 3.
func (s *scene) threeAsked() (session string, sub *opencode.Subscription, ids [3]string) {
	var reply scriptmodel.Reply
	for _, name := range []string{"1", "2", "3"} {
		reply.ToolCalls = append(reply.ToolCalls, s.touch(name).ToolCalls...)
	}
	session, sub, _ = s.begin(once(reply), askForBash)
	for range ids { // in any order
		asked := next[opencode.Asked](s, sub).Request
		for i := range ids {
			if slices.Contains(asked.Patterns, fmt.Sprintf("touch %s%d", s.mark, i+1)) {
				ids[i] = asked.ID
			}
		}
	}
	return session, sub, ids
}

func severalAllowed(s *scene) {
	session, sub, ids := s.threeAsked()
	for _, id := range ids {
		s.must(s.dir.ReplyPermission(s.ctx, id, opencode.ReplyOnce, ""))
	}
	s.idle(sub, session)
	s.want(s.exists("1") && s.exists("2") && s.exists("3"), "not all of the commands ran")
}

func severalRefused(s *scene) {
	session, sub, ids := s.threeAsked()
	s.must(s.dir.ReplyPermission(s.ctx, ids[0], opencode.ReplyOnce, ""))
	s.eventually("the command that was allowed runs", func() bool { return s.exists("1") })
	s.must(s.dir.ReplyPermission(s.ctx, ids[1], opencode.ReplyReject, reason))
	s.await(sub, "the answer after the refusal", func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.MessageUpdated)
		return ok && p.Message.Finish == opencode.FinishStop
	})
	s.want(!s.exists("2") && !s.exists("3"), "other commands ran than the one that was allowed")
	s.want(len(s.pending(session)) == 0, "it is still asked for %+v", s.pending(session))
	asked := s.asked()
	s.want(strings.Contains(asked[len(asked)-1].Text(), reason), "the model was not told why")
}

var whichOne = scriptmodel.Call("question", map[string]any{"questions": []any{map[string]any{
	"question": "Which?", "header": "Choice",
	"options": []any{map[string]any{"label": "A", "description": "the first"}},
}}})

func questionAnswered(s *scene) {
	session, sub, asked := s.askedFor(scriptmodel.Steps(whichOne))
	s.want(asked.Permission == "" && len(asked.Questions) == 1 && asked.Questions[0].Question == "Which?" &&
		slices.Equal(asked.Questions[0].Options, []opencode.Option{{Label: "A"}}), "asked %+v", asked)
	s.must(s.dir.AnswerQuestion(s.ctx, asked.ID, [][]string{{"neither of them"}}))
	told := s.toolEnd(sub).Output
	s.want(strings.Contains(told, "neither of them"), "the agent was told %q", told)
	err := s.dir.RejectQuestion(s.ctx, asked.ID)
	s.want(errors.Is(err, opencode.ErrNotFound), "declining it now: %v", err)
	s.idle(sub, session)
}

func questionDeclined(s *scene) {
	session, sub, asked := s.askedFor(scriptmodel.Steps(whichOne))
	s.must(s.dir.RejectQuestion(s.ctx, asked.ID))
	s.idle(sub, session)
	s.want(len(s.pending(session)) == 0, "it is still asked")
}

func delegate(agent, work string) scriptmodel.Reply {
	return scriptmodel.Call("task", map[string]any{"description": "help", "prompt": work, "subagent_type": agent})
}

func (s *scene) child(parent string) string {
	children := must(s.dir.Children(s.ctx, parent))
	s.want(len(children) == 1, "the children of %s are %+v", parent, children)
	return children[0].ID
}

// subAgent gives what a sub-agent asks for: OpenCode 2.0.14 passes the session's ask rules on, OpenCode 1 only denials.
func subAgent(s *scene) {
	session, sub, _ := s.begin(func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if strings.Contains(r.FirstUser(), "the child's work") {
			return scriptmodel.Steps(s.touch("done"))(ctx, r)
		}
		return scriptmodel.Steps(delegate("general", s.mark+" the child's work"))(ctx, r)
	}, noFetch, askForBash)
	events := s.await(sub, "the end of the turn", func(e opencode.Event) bool {
		if asked, ok := e.Payload.(opencode.Asked); ok {
			s.must(s.dir.ReplyPermission(s.ctx, asked.Request.ID, opencode.ReplyOnce, ""))
		}
		return e.SessionID == session && Status(opencode.Idle)(e)
	})
	s.want(s.suite.Caps().Generation == 2 || !slices.ContainsFunc(events, Is[opencode.Asked]), "the sub-agent had to ask")
	s.want(s.exists("done"), "the sub-agent did not do its work")
	born := s.child(session)
	for _, roots := range []bool{true, false} {
		all := must(s.dir.Sessions(s.ctx, opencode.SessionFilter{Roots: roots}))
		listed := slices.ContainsFunc(all, func(one opencode.Session) bool { return one.ID == born })
		s.want(listed != roots, "its session is listed: %t, without sub-agents: %t", listed, roots)
	}
	s.want(slices.ContainsFunc(events, func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.SessionCreated)
		return ok && p.Session.ID == born && p.Session.ParentID == session
	}), "no event told of its session")
	s.want(slices.ContainsFunc(events, func(e opencode.Event) bool {
		return e.SessionID == born && Tool(opencode.ToolCompleted)(e)
	}), "no event told of its tool call")
	s.inherits(born)
}

var noFetch = opencode.Rule{Permission: "webfetch", Pattern: "*", Action: opencode.Deny}

// inherits waits until a sub-agent's session has its parent's deny rule. This may take a moment.
func (s *scene) inherits(child string) {
	s.eventually("the sub-agent is denied what its session is", func() bool {
		session := must(s.dir.Session(s.ctx, child))
		return slices.Contains(session.Rules, noFetch)
	})
}

// grandchild checks an ask of a session that is not followed by id: unanswered, the whole tree would wait for ever.
func grandchild(s *scene) {
	session, sub, _ := s.begin(func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		switch first := r.FirstUser(); {
		case strings.Contains(first, "the grandchild's work"):
			return once(s.touch("done"))(ctx, r)
		case strings.Contains(first, "the child's work"):
			return scriptmodel.Steps(delegate(nester, s.mark+" the grandchild's work"))(ctx, r)
		}
		return scriptmodel.Steps(delegate(nester, s.mark+" the child's work"))(ctx, r)
	}, noFetch)
	events := s.await(sub, "an ask", Is[opencode.Asked])
	event := events[len(events)-1]
	asked := event.Payload.(opencode.Asked).Request
	s.want(event.Directory == s.dir.Path() && event.SessionID == asked.SessionID,
		"asked in %s by %s: %+v", event.Directory, event.SessionID, asked)
	s.want(s.child(s.child(session)) == asked.SessionID, "%s asked, who is not the grandchild", asked.SessionID)
	// After a missed event, the directory's list has the ask under the session's id.
	listed := s.pending(asked.SessionID)
	s.want(len(listed) == 1 && listed[0].ID == asked.ID, "listed are %+v", listed)
	s.must(s.dir.ReplyPermission(s.ctx, asked.ID, opencode.ReplyReject, reason))
	s.idle(sub, session)
	s.want(len(s.asked()) == 6,
		"the model was asked %d times, not twice for each of the three sessions", len(s.asked()))
	s.want(slices.ContainsFunc(s.asked(), func(r scriptmodel.Request) bool {
		return strings.Contains(r.FirstUser(), "the grandchild's work") && strings.Contains(r.Text(), reason)
	}), "the grandchild was not told why")
	s.want(!s.exists("done"), "the refused command ran")
	s.inherits(asked.SessionID)
}
