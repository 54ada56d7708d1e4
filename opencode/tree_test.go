package opencode_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
)

// A sub-agent of a sub-agent asks for a permission, in a directory that the subscription does not name. Whoever
// follows the root session only is told, and the answer reaches it: otherwise the whole tree would wait for ever.
func TestAskOfAGrandchildIsSeen(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	config := `{"subagent_depth": 2, "agent": {"nester": {"description": "Delegates", "mode": "subagent",` +
		` "permission": {"task": "allow", "bash": "ask"}}}}`
	if err := os.WriteFile(filepath.Join(s.dir.Path(), "opencode.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	delegate := func(work string) scriptmodel.Reply {
		return call("task", map[string]any{"description": "help", "prompt": s.mark + work, "subagent_type": "nester"})
	}
	levels := map[string]scriptmodel.Handler{
		"the grandchild's work": steps(bash("touch forbidden")),
		"the child's work":      steps(delegate(" the grandchild's work")),
		"the root's work":       steps(delegate(" the child's work")),
	}
	shared.cast.Play(s.mark, func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		for work, handler := range levels {
			if strings.Contains(r.FirstUser(), work) {
				return handler(ctx, r)
			}
		}
		return scriptmodel.Errorf("nobody's work: %s", r.FirstUser())
	})
	session := s.session()
	sub := s.dir.Client().Subscribe(opencode.Filter{Sessions: []string{session.ID}})
	defer sub.Close()
	await(s.ctx, t, sub, is[opencode.Resync])
	s.send(session.ID, "the root's work")

	events := await(s.ctx, t, sub, is[opencode.PermissionAsked])
	event := events[len(events)-1]
	asked := event.Payload.(opencode.PermissionAsked).Request
	if event.Directory != s.dir.Path() || asked.Permission != "bash" || asked.SessionID != event.SessionID {
		t.Errorf("asked for %+v in %s", asked, event.Directory)
	}
	child := only(t, s, session.ID)
	if grandchild := only(t, s, child); grandchild != asked.SessionID {
		t.Errorf("%s asked, not the grandchild %s", asked.SessionID, grandchild)
	}
	// The subscription may have missed the ask: then it is in the list of its directory, under the session's id.
	pending, err := s.dir.Permissions(s.ctx)
	if err != nil || len(pending) != 1 || pending[0].ID != asked.ID || pending[0].SessionID != asked.SessionID {
		t.Errorf("pending: %+v, %v", pending, err)
	}
	reply := s.dir.Client().In(event.Directory)
	if err := reply.ReplyPermission(s.ctx, asked.ID, opencode.ReplyReject, "do it another way"); err != nil {
		t.Fatal(err)
	}
	events = await(s.ctx, t, sub, tool(opencode.ToolError))
	if got := events[len(events)-1].SessionID; got != asked.SessionID {
		t.Errorf("the call failed in %s", got)
	}
	await(s.ctx, t, sub, func(e opencode.Event) bool { return status(opencode.Idle)(e) && e.SessionID == session.ID })
	if n := s.calls(); n != 6 {
		t.Errorf("the model was asked %d times, want twice for each of the three sessions", n)
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
	s := newScene(t, nil)
	root := steps(call("task", map[string]any{
		"description": "help", "prompt": s.mark + " the child's work", "subagent_type": "general",
	}))
	child := steps(bash("touch done"))
	shared.cast.Play(s.mark, func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if strings.Contains(r.FirstUser(), "the child's work") {
			return child(ctx, r)
		}
		return root(ctx, r)
	})
	deny := opencode.Rule{Permission: "question", Pattern: "*", Action: opencode.Deny}
	session := s.session(deny, opencode.Rule{Permission: "bash", Pattern: "*", Action: opencode.Ask})
	sub := s.follow(s.dir.Client(), session.ID)
	s.send(session.ID, "the root's work")
	events := await(s.ctx, t, sub, func(e opencode.Event) bool {
		return status(opencode.Idle)(e) && e.SessionID == session.ID
	})
	if slices.ContainsFunc(events, is[opencode.PermissionAsked]) {
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
