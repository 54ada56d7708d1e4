package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// ToolRef names the tool call that a request belongs to.
type ToolRef struct {
	MessageID string `json:"messageID"`
	CallID    string `json:"callID"`
}

// Request is a tool call that waits for a permission, or a question of the agent that waits for an answer: for ever, if need
// be.
type Request struct {
	ID        string   `json:"id"`
	SessionID string   `json:"sessionID"`
	Tool      *ToolRef `json:"tool"` // the call that asks; nil: none, or not known

	Permission string          `json:"permission"` // such as "bash"; empty: it is a question
	Patterns   []string        `json:"patterns"`   // what is asked for, such as the command
	Metadata   json.RawMessage `json:"metadata"`   // of a permission

	Questions []Question `json:"questions"`
}

// String says it in words, however many.
func (r Request) String() string {
	if r.Permission != "" {
		return fmt.Sprintf("permission %s %v", r.Permission, r.Patterns)
	}
	return "the question " + cmp.Or(r.Asked(), "without words")
}

// Asked are the words of a question; several that are asked together are one.
func (r Request) Asked() string {
	var all []string
	for _, q := range r.Questions {
		all = append(all, cmp.Or(q.Question, q.Header))
	}
	return strings.Join(all, " / ")
}

// Requests lists what is pending in the directory, in child sessions too. What a session asked that was aborted stays
// listed; a reply to it is accepted and does nothing.
func (d *Directory) Requests(ctx context.Context) ([]Request, error) {
	permissions, err := get[[]Request](ctx, d, "list permission requests", "/permission", nil)
	if err != nil {
		return nil, err
	}
	questions, err := get[[]Request](ctx, d, "list questions", "/question", nil)
	return append(permissions, questions...), err
}

// PermissionReply answers a [Request] for a permission.
type PermissionReply string

// The replies to a permission request.
const (
	ReplyOnce   PermissionReply = "once"
	ReplyReject PermissionReply = "reject"
)

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
