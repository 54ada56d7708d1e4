package opencode

import (
	"context"
	"encoding/json"
	"net/url"
)

// ToolRef names the tool call that a request belongs to.
type ToolRef struct {
	MessageID string `json:"messageID"`
	CallID    string `json:"callID"`
}

// PermissionRequest is a tool call that waits for a reply, for ever if need be.
type PermissionRequest struct {
	ID         string          `json:"id"`
	SessionID  string          `json:"sessionID"`
	Permission string          `json:"permission"` // such as "bash"
	Patterns   []string        `json:"patterns"`   // what is asked for, such as the command
	Metadata   json.RawMessage `json:"metadata"`
	Tool       *ToolRef        `json:"tool"`
}

// PermissionReply answers a [PermissionRequest].
type PermissionReply string

// The replies to a permission request.
const (
	ReplyOnce   PermissionReply = "once"
	ReplyReject PermissionReply = "reject"
)

// Permissions lists the pending requests of the directory, those of child sessions included. One whose session was
// aborted stays listed; a reply to it is accepted and does nothing.
func (d *Directory) Permissions(ctx context.Context) ([]PermissionRequest, error) {
	return get[[]PermissionRequest](ctx, d, "list permission requests", "/permission", nil)
}

// ReplyPermission answers a request. Rejecting with a message makes the tool fail with that text, and the agent goes
// on in the same turn; rejecting without one ends the turn. Rejecting one of several parallel requests of a session
// rejects them all, the others without the message. The error matches [ErrNotFound] if somebody else was quicker.
func (d *Directory) ReplyPermission(
	ctx context.Context, requestID string, reply PermissionReply, message string,
) error {
	body := struct {
		Reply   PermissionReply `json:"reply"`
		Message string          `json:"message,omitempty"`
	}{reply, message}
	return d.post(ctx, "reply to permission request", "/permission/"+url.PathEscape(requestID)+"/reply", body)
}

// QuestionRequest is a question of the agent that waits for an answer, for ever if need be.
type QuestionRequest struct {
	ID        string     `json:"id"`
	SessionID string     `json:"sessionID"`
	Questions []Question `json:"questions"`
	Tool      *ToolRef   `json:"tool"`
}

// Question is one of the questions that the agent asks together.
type Question struct {
	Header   string   `json:"header"`
	Question string   `json:"question"`
	Options  []Option `json:"options"`
}

// Option is an answer that the agent suggests.
type Option struct {
	Label string `json:"label"`
}

// Questions lists the pending questions of the directory, those of child sessions included.
func (d *Directory) Questions(ctx context.Context) ([]QuestionRequest, error) {
	return get[[]QuestionRequest](ctx, d, "list questions", "/question", nil)
}

// AnswerQuestion answers with, for each question in order, the chosen labels or free text. The error matches
// [ErrNotFound] if somebody else was quicker.
func (d *Directory) AnswerQuestion(ctx context.Context, requestID string, answers [][]string) error {
	body := map[string]any{"answers": answers}
	return d.post(ctx, "answer question", "/question/"+url.PathEscape(requestID)+"/reply", body)
}

// RejectQuestion declines to answer, which ends the turn unless the configuration has
// experimental.continue_loop_on_deny. The error matches [ErrNotFound] if somebody else was quicker.
func (d *Directory) RejectQuestion(ctx context.Context, requestID string) error {
	return d.post(ctx, "reject question", "/question/"+url.PathEscape(requestID)+"/reject", nil)
}
