package opencode

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

type v2request struct {
	ID, SessionID, Action string
	Resources             []string
	Metadata              json.RawMessage
	Source                *v2source
}

type v2source struct{ MessageID, ID string }

func (s *v2source) toV1() *ToolRef {
	if s == nil {
		return nil
	}
	return &ToolRef{s.MessageID, s.ID}
}

func (r v2request) toV1() Request {
	return Request{
		ID: r.ID, SessionID: r.SessionID, Tool: r.Source.toV1(), Permission: v1tool(r.Action), Patterns: r.Resources,
		Metadata: r.Metadata,
	}
}

// v2form is a set of questions, or something else for a user to fill in.
type v2form struct {
	ID, SessionID string
	Metadata      struct {
		Kind string
		Tool *v2source
	}
	Fields []struct {
		Key, Type, Title, Description string
		Options                       []Option
	}
}

func (f v2form) question() bool { return f.Metadata.Kind == "question" }

func (f v2form) toV1() Request {
	r := Request{ID: f.ID, SessionID: f.SessionID, Tool: f.Metadata.Tool.toV1()}
	for _, q := range f.Fields {
		r.Questions = append(r.Questions, Question{q.Title, q.Description, q.Options})
	}
	return r
}

func (v v2) Requests(ctx context.Context) (all []Request, err error) {
	permissions, err := v.permissions(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range permissions {
		all = append(all, r.toV1())
	}
	forms, err := v.forms(ctx)
	for _, f := range forms {
		all = append(all, f.toV1())
	}
	return all, err
}

func (v v2) permissions(ctx context.Context) ([]v2request, error) {
	return getData[[]v2request](ctx, v, "list permission requests", "/api/permission/request", v.here())
}

func (v v2) forms(ctx context.Context) ([]v2form, error) {
	all, err := getData[[]v2form](ctx, v, "list questions", "/api/form", v.here())
	return slices.DeleteFunc(all, func(f v2form) bool { return !f.question() }), err
}

// explanation marks a prompt that gives the reason for a refusal.
const explanation = "refusal"

// ReplyPermission sends the reason for a refusal as a prompt first, since OpenCode's own tools do not pass it on. The
// agent reads the prompt at its next step, or in a new turn if the refusal ends this one.
func (v v2) ReplyPermission(ctx context.Context, requestID string, reply PermissionReply, message string) error {
	const op = "reply to permission request"
	pending, err := v.permissions(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pending, func(r v2request) bool { return r.ID == requestID })
	if i < 0 {
		return notFound(op)
	}
	sessionID := pending[i].SessionID
	if reply == ReplyReject && message != "" {
		err := v.send(ctx, sessionID, v2prompt{
			ID: messagePrefix + strings.TrimPrefix(requestID, "per_") + explanation, Text: message,
			Metadata: map[string]any{explanation: requestID},
		})
		if err != nil {
			return err
		}
	}
	body := struct {
		Decision PermissionReply `json:"decision"`
		Message  string          `json:"message,omitempty"`
	}{reply, message}
	return post(ctx, v, op, v2path(sessionID, "permission", requestID, "reply"), body)
}

func notFound(op string) error { return &Error{Op: op, Status: http.StatusNotFound, kind: ErrNotFound} }

func (v v2) AnswerQuestion(ctx context.Context, requestID string, answers [][]string) error {
	const op = "answer question"
	form, err := v.form(ctx, op, requestID)
	if err != nil {
		return err
	}
	answer := map[string]any{}
	for i, field := range form.Fields[:min(len(form.Fields), len(answers))] {
		answer[field.Key] = answers[i]
		if field.Type != "multiselect" {
			answer[field.Key] = strings.Join(answers[i], ", ")
		}
	}
	err = post(ctx, v, op, v2path(form.SessionID, "form", requestID, "reply"), map[string]any{"answer": answer})
	return settled(op, err)
}

func (v v2) RejectQuestion(ctx context.Context, requestID string) error {
	const op = "reject question"
	form, err := v.form(ctx, op, requestID)
	if err != nil {
		return err
	}
	err = v.call(ctx, request{op: op, method: http.MethodDelete, path: v2path(form.SessionID, "form", requestID)})
	return settled(op, err)
}

func (v v2) form(ctx context.Context, op, formID string) (v2form, error) {
	forms, err := v.forms(ctx)
	if err != nil {
		return v2form{}, err
	}
	i := slices.IndexFunc(forms, func(f v2form) bool { return f.ID == formID })
	if i < 0 {
		return v2form{}, notFound(op)
	}
	return forms[i], nil
}

// settled returns [ErrNotFound] if another client was quicker.
func settled(op string, err error) error {
	if conflict(err) {
		return notFound(op)
	}
	return err
}
