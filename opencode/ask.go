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

// AskRequest is a question to a model that is answered in one turn, without tools.
type AskRequest struct {
	Title string // of the question's session. Defaults to "ask".
	// Agent decides the system prompt: about 9,800 characters for the default agent, only its own if it has a prompt.
	Agent   string
	Model   ModelRef
	Variant string // of the model; empty: its default
	System  string
	Text    string
	// Schema is the JSON schema of the answer; empty: text. OpenCode passes it to the model and does not check the answer.
	Schema json.RawMessage
	Begun  func(sessionID string) // if not nil, called with the session before the question is sent
	// Timeout defaults to 10 minutes. Within it, OpenCode itself retries on 429: six requests in all.
	Timeout time.Duration
}

// ask creates a session for the question, sends the question with put, and removes the session.
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

// discard removes a session even if the caller has left. A failure is only logged: the answer matters more.
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

// unknown returns a [*TurnError] if the question's model or agent is unknown, else err, with which the question failed.
func unknown(ctx context.Context, in API, r AskRequest, err error) error {
	if catalogue, listErr := in.Catalogue(ctx); listErr == nil && !r.Model.IsZero() && !catalogue.Has(r.Model) {
		return &TurnError{Name: UnknownError, Message: modelNotFound + r.Model.String()}
	}
	if agents, listErr := in.Agents(ctx); listErr == nil && r.Agent != "" && !slices.Contains(agents, r.Agent) {
		return &TurnError{Name: UnknownError, Message: agentNotFound + r.Agent}
	}
	return err
}
