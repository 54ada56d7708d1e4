package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"
)

const (
	defaultAskTimeout = 10 * time.Minute
	tidyTimeout       = 5 * time.Second
	structuredTool    = "StructuredOutput"
)

// AskRequest is a question to a model that is answered in one go, without tools.
type AskRequest struct {
	// Title of the session that is made for the question. Defaults to "ask".
	Title string
	// Agent decides the system prompt; the default agent's has about 9,800 characters, an agent with a prompt of its
	// own brings only that.
	Agent   string
	Model   ModelRef
	Variant string
	System  string
	Text    string
	// Schema is the JSON schema that the answer shall have; without one the answer is text. OpenCode passes it to the
	// model and does not check the answer.
	Schema json.RawMessage
	// Timeout defaults to 10 minutes. On 429 OpenCode itself retries, six requests in all, within this time.
	Timeout time.Duration
}

type wireFormat struct {
	Type   string          `json:"type"`
	Schema json.RawMessage `json:"schema"`
}

// Ask puts one question to a model in a session of its own, waits for the answer and deletes the session. What the
// message says of its cost holds also for a failed turn. The error is a [*TurnError] if the model or its provider
// failed or is unknown, an [*Error] if the call did.
//
// The session cannot be kept: once it has had a prompt with a schema, the server answers 400 whenever its messages
// are listed.
func (d *Directory) Ask(ctx context.Context, r AskRequest) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, defaultAskTimeout))
	defer cancel()
	session, err := d.CreateSession(ctx, NewSession{
		Title: cmp.Or(r.Title, "ask"),
		Agent: r.Agent,
		// The structured answer is itself a tool; denied with the others it fails.
		Rules: []Rule{{"*", "*", Deny}, {structuredTool, "*", Allow}},
	})
	if err != nil {
		return Message{}, err
	}
	answer, err := d.askIn(ctx, session.ID, r)
	d.discard(ctx, session.ID)
	return answer, err
}

func (d *Directory) askIn(ctx context.Context, sessionID string, r AskRequest) (Message, error) {
	prompt := Prompt{
		Agent: r.Agent, Model: r.Model, Variant: r.Variant, System: r.System, Parts: []TextPart{{Text: r.Text}},
	}.wire()
	if len(r.Schema) > 0 {
		prompt.Format = &wireFormat{Type: "json_schema", Schema: r.Schema}
	}
	var reply Message
	err := d.call(ctx, request{
		op: "ask", method: http.MethodPost, path: sessionPath(sessionID, "message"), in: prompt, out: &reply,
		timeout: cmp.Or(r.Timeout, defaultAskTimeout),
	})
	if err != nil {
		return Message{}, d.explain(ctx, r, err)
	}
	if reply.Info.Error != nil {
		return reply, reply.Info.Error
	}
	return reply, nil
}

// explain finds out why the server failed. A synchronous prompt with an unknown model or agent is answered with a
// bare 500, which would pass for a passing trouble.
func (d *Directory) explain(ctx context.Context, r AskRequest, err error) error {
	failed, ok := errors.AsType[*Error](err)
	if !ok || failed.Status != http.StatusInternalServerError {
		return err
	}
	if catalogue, listErr := d.Catalogue(ctx); listErr == nil && !r.Model.IsZero() {
		if _, known := catalogue.Model(r.Model); !known {
			return &TurnError{Name: UnknownError, Message: modelNotFound + r.Model.String()}
		}
	}
	if agents, listErr := d.Agents(ctx); listErr == nil && r.Agent != "" {
		if !slices.ContainsFunc(agents, func(a Agent) bool { return a.Name == r.Agent }) {
			return &TurnError{Name: UnknownError, Message: agentNotFound + r.Agent}
		}
	}
	return err
}

// discard removes a session whether or not the caller still waits. A failure is logged only: the answer is worth more
// than a tidy list of sessions.
func (d *Directory) discard(ctx context.Context, sessionID string) {
	tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
	defer cancel()
	if ctx.Err() != nil {
		if err := d.Abort(tidy, sessionID); err != nil {
			d.client.log.Warn("could not stop an abandoned question", "session", sessionID, "error", err)
		}
	}
	if err := d.DeleteSession(tidy, sessionID); err != nil {
		d.client.log.Warn("could not delete the session of a question", "session", sessionID, "error", err)
	}
}
