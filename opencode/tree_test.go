package opencode_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
)

// delegate is a call of a sub-agent.
func delegate(agent, work string) scriptmodel.Reply {
	return call("task", map[string]any{"description": "help", "prompt": work, "subagent_type": agent})
}

// A sub-agent of a sub-agent asks for a permission, in a directory that the subscription does not name. Whoever
// follows the root session only is told, and the answer reaches it: otherwise the whole tree would wait for ever. Told
// why it is refused, the agent goes on in the same turn.
func TestAskOfAGrandchildIsSeen(t *testing.T) {
	t.Parallel()
	config := `{"subagent_depth": 2, "agent": {"nester": {"description": "Delegates", "mode": "subagent",` +
		` "permission": {"task": "allow", "bash": "ask"}}}}`
	var s *scene
	s = newScene(t, func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		switch first := r.FirstUser(); {
		case strings.Contains(first, "the grandchild's work"):
			return steps(bash("touch forbidden"))(ctx, r)
		case strings.Contains(first, "the child's work"):
			return steps(delegate("nester", s.mark+" the grandchild's work"))(ctx, r)
		}
		return steps(delegate("nester", s.mark+" the child's work"))(ctx, r)
	})
	s.dir = s.dir.Client().In(octest.Repo(t, map[string]string{"opencode.json": config}))
	session := s.session()
	sub := s.dir.Client().Subscribe(opencode.Filter{Sessions: []string{session.ID}})
	defer sub.Close()
	await(s.ctx, t, sub, is[opencode.Resync])
	s.send(session.ID, "the root's work")

	events := await(s.ctx, t, sub, is[opencode.Asked])
	event := events[len(events)-1]
	asked := event.Payload.(opencode.Asked).Request
	if event.Directory != s.dir.Path() || asked.Permission != "bash" || asked.SessionID != event.SessionID ||
		asked.Tool == nil || asked.Tool.CallID == "" {
		t.Errorf("asked for %+v in %s", asked, event.Directory)
	}
	child := only(t, s, session.ID)
	if grandchild := only(t, s, child); grandchild != asked.SessionID {
		t.Errorf("%s asked, not the grandchild %s", asked.SessionID, grandchild)
	}
	// The subscription may have missed the ask: then it is in the list of its directory, under the session's id.
	pending, err := s.dir.Requests(s.ctx)
	if err != nil || len(pending) != 1 || pending[0].ID != asked.ID || pending[0].SessionID != asked.SessionID {
		t.Errorf("pending: %+v, %v", pending, err)
	}
	reply := s.dir.Client().In(event.Directory)
	if err := reply.ReplyPermission(s.ctx, asked.ID, opencode.ReplyReject, "do it another way"); err != nil {
		t.Fatal(err)
	}
	events = await(s.ctx, t, sub, tool(opencode.ToolError))
	failed := events[len(events)-1]
	told := failed.Payload.(opencode.PartUpdated).Part.Tool.Error
	if failed.SessionID != asked.SessionID || !strings.Contains(told, "do it another way") {
		t.Errorf("the agent was told %q in %s", told, failed.SessionID)
	}
	await(s.ctx, t, sub, func(e opencode.Event) bool { return status(opencode.Idle)(e) && e.SessionID == session.ID })
	if n := s.calls(); n != 6 {
		t.Errorf("the model was asked %d times, want twice for each of the three sessions", n)
	}
	if _, err := os.Stat(filepath.Join(s.dir.Path(), "forbidden")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the rejected command ran: %v", err)
	}
	if err := reply.ReplyPermission(s.ctx, asked.ID, opencode.ReplyOnce, ""); !errors.Is(err, opencode.ErrNotFound) {
		t.Errorf("a second reply: %v", err)
	}
}

func only(t *testing.T, s *scene, parent string) (child string) {
	t.Helper()
	children, err := s.dir.Children(s.ctx, parent)
	if err != nil || len(children) != 1 {
		t.Fatalf("children of %s: %+v, %v", parent, children, err)
	}
	return children[0].ID
}

// A sub-agent's session is followed without being asked for. What a session denies its agent is denied to sub-agents
// too. What it has to ask for is not: that comes from the configuration alone.
func TestSubAgentIsFollowedAndDenied(t *testing.T) {
	t.Parallel()
	var s *scene
	s = newScene(t, func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if strings.Contains(r.FirstUser(), "the child's work") {
			return steps(bash("touch done"))(ctx, r)
		}
		return steps(delegate("general", s.mark+" the child's work"))(ctx, r)
	})
	deny := opencode.Rule{Permission: "question", Pattern: "*", Action: opencode.Deny}
	session := s.session(deny, opencode.Rule{Permission: "bash", Pattern: "*", Action: opencode.Ask})
	sub := s.follow(s.dir.Client(), session.ID)
	s.send(session.ID, "the root's work")
	events := await(s.ctx, t, sub, func(e opencode.Event) bool {
		return status(opencode.Idle)(e) && e.SessionID == session.ID
	})
	if slices.ContainsFunc(events, is[opencode.Asked]) {
		t.Error("the sub-agent had to ask")
	}
	if _, err := os.Stat(filepath.Join(s.dir.Path(), "done")); err != nil {
		t.Error(err)
	}
	born, err := s.dir.Session(s.ctx, only(t, s, session.ID))
	if err != nil || !slices.Contains(born.Rules, deny) {
		t.Errorf("the sub-agent's rules are %+v, %v", born.Rules, err)
	}
	if !slices.ContainsFunc(events, func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.SessionCreated)
		return ok && p.Session.ID == born.ID && p.Session.ParentID == session.ID
	}) {
		t.Errorf("no SessionCreated of the child in %s", kinds(events))
	}
	if !slices.ContainsFunc(events, func(e opencode.Event) bool {
		return e.SessionID == born.ID && tool(opencode.ToolCompleted)(e)
	}) {
		t.Error("the child's tool call was not reported")
	}
}

func TestQuestionTakesFreeText(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps(call("question", map[string]any{"questions": []any{map[string]any{
		"question": "Which?", "header": "Choice",
		"options": []any{map[string]any{"label": "A", "description": "the first"}},
	}}})))
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	s.send(session.ID, "ask")
	await(s.ctx, t, sub, is[opencode.Asked])
	pending, err := s.dir.Requests(s.ctx)
	if err != nil || len(pending) != 1 || len(pending[0].Questions) != 1 || pending[0].Questions[0].Question != "Which?" {
		t.Fatalf("pending: %+v, %v", pending, err)
	}
	if err := s.dir.AnswerQuestion(s.ctx, pending[0].ID, [][]string{{"neither of them"}}); err != nil {
		t.Fatal(err)
	}
	if told := toolIn(s, sub, opencode.ToolCompleted).Output; !strings.Contains(told, "neither of them") {
		t.Errorf("the agent was told %q", told)
	}
	if err := s.dir.RejectQuestion(s.ctx, pending[0].ID); !errors.Is(err, opencode.ErrNotFound) {
		t.Errorf("rejecting it now: %v", err)
	}
}
