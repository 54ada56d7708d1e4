package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

const (
	defaultAskTimeout = 10 * time.Minute
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
	Begun  func(sessionID string) // if not nil, is told of the session before the question is put there
	// Timeout defaults to 10 minutes. On 429 OpenCode itself retries, six requests in all, within this time.
	Timeout time.Duration
}

// ask makes the session of a question, has it put there within its time, and removes the session.
func (c *Client) ask(
	ctx context.Context, in API, r AskRequest, rules []Rule, put func(context.Context, string) (Message, error),
) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, defaultAskTimeout))
	defer cancel()
	session, err := in.CreateSession(ctx, NewSession{
		Title: cmp.Or(r.Title, "ask"), Agent: r.Agent, Model: r.Model, Rules: rules,
	})
	if err != nil {
		return Message{}, err
	}
	defer c.discard(ctx, in, session.ID)
	if r.Begun != nil {
		r.Begun(session.ID)
	}
	reply, err := put(ctx, session.ID)
	if err == nil && reply.Info.Error != nil {
		err = reply.Info.Error
	}
	return reply, err
}

// discard removes a session whether or not the caller still waits. A failure is logged only: the answer is worth more
// than a tidy list of sessions.
func (c *Client) discard(ctx context.Context, in API, sessionID string) {
	tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.CallTimeout/6)
	defer cancel()
	var err error
	if ctx.Err() != nil {
		err = in.Abort(tidy, sessionID)
	}
	if err = errors.Join(err, in.DeleteSession(tidy, sessionID)); err != nil {
		c.log.Warn("could not remove the session of a question", "session", sessionID, "error", err)
	}
}

// unknown says of a question that failed with err whether that is because its model or its agent is unknown.
func unknown(ctx context.Context, in API, r AskRequest, err error) error {
	if catalogue, listErr := in.Catalogue(ctx); listErr == nil && !r.Model.IsZero() && !catalogue.Has(r.Model) {
		return &TurnError{Name: UnknownError, Message: modelNotFound + r.Model.String()}
	}
	if agents, listErr := in.Agents(ctx); listErr == nil && r.Agent != "" && !slices.Contains(agents, r.Agent) {
		return &TurnError{Name: UnknownError, Message: agentNotFound + r.Agent}
	}
	return err
}
