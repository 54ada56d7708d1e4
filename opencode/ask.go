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
	Title string // of the session that is made for the question. Defaults to "ask".
	// Agent decides the system prompt; the default agent's has about 9,800 characters, an agent with a prompt of its
	// own brings only that.
	Agent  string
	Model  ModelRef
	System string
	Text   string
	// Schema is the JSON schema that the answer shall have; without one the answer is text. OpenCode passes it to the
	// model and does not check the answer.
	Schema json.RawMessage
	// Timeout defaults to 10 minutes. On 429 OpenCode itself retries, six requests in all, within this time.
	Timeout time.Duration
}

// Ask puts one question to a model in a session of its own, waits for the answer and deletes the session. What the
// message says of its cost holds also for a failed turn. The error is a [*TurnError] if the model or its provider
// failed or is unknown, an [*Error] if the call did.
//
// The session cannot be kept: once it has had a prompt with a schema, the server answers 400 whenever its messages
// are listed.
func (d *Directory) Ask(ctx context.Context, r AskRequest) (Message, error) {
	timeout := cmp.Or(r.Timeout, defaultAskTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
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
	defer d.discard(ctx, session.ID)
	prompt := Prompt{Agent: r.Agent, Model: r.Model, System: r.System, Text: r.Text}.wire()
	if len(r.Schema) > 0 {
		prompt.Format = &wireFormat{Type: "json_schema", Schema: r.Schema}
	}
	var reply Message
	err = d.call(ctx, request{
		op: "ask", method: http.MethodPost, path: sessionPath(session.ID, "message"), in: prompt, out: &reply, timeout: timeout,
	})
	switch failed, ok := errors.AsType[*Error](err); {
	case ok && failed.Status == http.StatusInternalServerError:
		return Message{}, d.explain(ctx, r, err)
	case err != nil:
		return Message{}, err
	case reply.Info.Error != nil:
		return reply, reply.Info.Error
	}
	return reply, nil
}

// explain finds out why the server failed. A synchronous prompt with an unknown model or agent is answered with a bare
// 500, which would pass for a passing trouble.
func (d *Directory) explain(ctx context.Context, r AskRequest, err error) error {
	if catalogue, listErr := d.Catalogue(ctx); listErr == nil && !r.Model.IsZero() && !catalogue.Has(r.Model) {
		return &TurnError{Name: UnknownError, Message: modelNotFound + r.Model.String()}
	}
	if agents, listErr := d.Agents(ctx); listErr == nil && r.Agent != "" && !slices.Contains(agents, r.Agent) {
		return &TurnError{Name: UnknownError, Message: agentNotFound + r.Agent}
	}
	return err
}

// discard removes a session whether or not the caller still waits. A failure is logged only: the answer is worth more
// than a tidy list of sessions.
func (d *Directory) discard(ctx context.Context, sessionID string) {
	tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
	defer cancel()
	var err error
	if ctx.Err() != nil {
		err = d.Abort(tidy, sessionID)
	}
	if err = errors.Join(err, d.DeleteSession(tidy, sessionID)); err != nil {
		d.client.log.Warn("could not remove the session of a question", "session", sessionID, "error", err)
	}
}
