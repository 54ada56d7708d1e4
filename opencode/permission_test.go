package opencode_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

func TestRejectedPermissionGoesOn(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps(bash("touch forbidden")))
	session := s.session(opencode.Rule{Permission: "bash", Pattern: "*", Action: opencode.Ask})
	sub := s.follow(s.dir.Client(), session.ID)
	s.send(session.ID, "try")
	events := await(s.ctx, t, sub, is[opencode.PermissionAsked])
	asked := events[len(events)-1].Payload.(opencode.PermissionAsked).Request
	if asked.Permission != "bash" || asked.SessionID != session.ID || asked.Tool == nil || asked.Tool.CallID == "" {
		t.Errorf("asked for %+v", asked)
	}
	pending, err := s.dir.Permissions(s.ctx)
	if err != nil || len(pending) != 1 || pending[0].ID != asked.ID {
		t.Errorf("pending: %+v, %v", pending, err)
	}
	if err := s.dir.ReplyPermission(s.ctx, asked.ID, opencode.ReplyReject, "do it another way"); err != nil {
		t.Fatal(err)
	}
	events = await(s.ctx, t, sub, tool(opencode.ToolError))
	failed := events[len(events)-1].Payload.(opencode.PartUpdated).Part.Tool
	if !strings.Contains(failed.Error, "do it another way") {
		t.Errorf("the agent was told %q", failed.Error)
	}
	await(s.ctx, t, sub, status(opencode.Idle))
	if n := s.calls(); n != 2 {
		t.Errorf("the model was asked %d times: the turn did not go on", n)
	}
	if matches, _ := filepath.Glob(filepath.Join(s.dir.Path(), "forbidden")); len(matches) > 0 {
		t.Error("the rejected command ran")
	}
	err = s.dir.ReplyPermission(s.ctx, asked.ID, opencode.ReplyOnce, "")
	if !errors.Is(err, opencode.ErrNotFound) {
		t.Errorf("a second reply: %v", err)
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
	await(s.ctx, t, sub, is[opencode.QuestionAsked])
	pending, err := s.dir.Questions(s.ctx)
	if err != nil || len(pending) != 1 || len(pending[0].Questions) != 1 || pending[0].Questions[0].Question != "Which?" {
		t.Fatalf("pending: %+v, %v", pending, err)
	}
	if err := s.dir.AnswerQuestion(s.ctx, pending[0].ID, [][]string{{"neither of them"}}); err != nil {
		t.Fatal(err)
	}
	events := await(s.ctx, t, sub, tool(opencode.ToolCompleted))
	answered := events[len(events)-1].Payload.(opencode.PartUpdated).Part.Tool
	if !strings.Contains(answered.Output, "neither of them") {
		t.Errorf("the agent was told %q", answered.Output)
	}
	if err := s.dir.RejectQuestion(s.ctx, pending[0].ID); !errors.Is(err, opencode.ErrNotFound) {
		t.Errorf("rejecting it now: %v", err)
	}
}
