// Package opencode asks models through an OpenCode server, with whatever its user is logged in to: the ledgers' way to a
// model when no key is set.
package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
)

// Agent is the name of the agent that [AgentConfig] defines.
const Agent = "manager-ledger"

// AgentConfig is OpenCode configuration (JSON) that defines an agent without tools and with a short prompt of its own. A
// server that was started with it spends some 700 characters of system prompt on a ledger call instead of 9,800.
func AgentConfig() map[string]any {
	return map[string]any{"agent": map[string]any{Agent: map[string]any{
		"mode": "primary", "hidden": true,
		"description": "Answers the ledger questions of manager; has no tools.",
		"prompt":      "You answer one question with the JSON that it asks for. You have no tools beside the one for the answer.",
	}}}
}

// Config is what a Completer works with. Host and Directory are required.
type Config struct {
	Host      *opencode.Host
	Directory string // absolute; OpenCode reads its configuration from there
	// Model is asked when a request names none. Zero: the one that the user's configuration names, else OpenCode's choice.
	Model opencode.ModelRef
	// Agent answers. It is used only if the server knows it; else the default agent answers, with all tools denied.
	Agent string
}

// Completer implements providers.Completer on an OpenCode server. OpenCode itself retries a rate limit (six requests in
// 12.6 s, measured), so no retries belong on top.
type Completer struct{ cfg Config }

// New returns a Completer.
func New(cfg Config) *Completer { return &Completer{cfg: cfg} }

var _ providers.Completer = (*Completer)(nil)

// Complete asks in a session of its own, which is deleted afterwards.
func (c *Completer) Complete(ctx context.Context, req *providers.Request) (*providers.Response, error) {
	model := c.cfg.Model
	if req.Model != "" {
		provider, name, _ := strings.Cut(req.Model, "/")
		model = opencode.ModelRef{ProviderID: provider, ModelID: name}
	}
	conn, err := c.cfg.Host.Connect(ctx)
	if err != nil {
		return nil, c.failed(ctx, model, opencode.Answer{}, err)
	}
	dir := conn.Client.In(c.cfg.Directory)
	agent, err := c.agent(ctx, dir)
	if err != nil {
		return nil, c.failed(ctx, model, opencode.Answer{}, err)
	}
	answer, err := dir.Ask(ctx, opencode.AskRequest{
		Title: "manager: " + cmp.Or(req.SchemaName, "question"), Agent: agent, Model: model,
		System: req.System, Text: flatten(req.Messages), Schema: req.Schema,
	})
	if err != nil {
		return nil, c.failed(ctx, model, answer, err)
	}
	return c.response(model, answer, req)
}

// agent is the configured agent if the server has it. An attached server may not.
func (c *Completer) agent(ctx context.Context, dir *opencode.Directory) (string, error) {
	if c.cfg.Agent == "" {
		return "", nil
	}
	agents, err := dir.Agents(ctx)
	if err != nil {
		return "", err
	}
	for _, a := range agents {
		if a.Name == c.cfg.Agent {
			return a.Name, nil
		}
	}
	return "", nil
}

func (c *Completer) response(
	asked opencode.ModelRef, a opencode.Answer, req *providers.Request,
) (*providers.Response, error) {
	text := a.Text
	if len(req.Schema) > 0 && json.Valid(a.JSON) {
		text = string(a.JSON)
	}
	resp := &providers.Response{
		Text: text, Stop: providers.StopOther, Provider: a.Model.ProviderID, Model: a.Model.ModelID, Usage: usage(a),
	}
	switch a.Finish {
	case opencode.FinishStop, opencode.FinishToolCalls:
		resp.Stop = providers.StopEnd
	case opencode.FinishLength:
		resp.Stop = providers.StopLength
		if len(req.Schema) > 0 {
			return nil, c.failed(context.Background(), asked, a, &opencode.TurnError{
				Name: opencode.MessageOutputLength, Message: "the answer was cut by the output limit",
			})
		}
	}
	return resp, nil
}

// flatten makes one text of a conversation: a session of its own has no earlier answers.
func flatten(messages []providers.Message) string {
	if len(messages) == 1 {
		return messages[0].Text
	}
	var b strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&b, "[%s]\n%s\n\n", m.Role, m.Text)
	}
	return strings.TrimRight(b.String(), "\n")
}

// usage leaves the cost unknown where OpenCode knows no price: it then says 0 for what was not free.
func usage(a opencode.Answer) providers.Usage {
	t := a.Tokens
	u := providers.Usage{
		Input: t.Input + t.CacheRead + t.CacheWrite, CachedInput: t.CacheRead, CacheWrite: t.CacheWrite,
		Output: t.Output + t.Reasoning, Reasoning: t.Reasoning,
	}
	if a.Cost > 0 {
		u.Cost = &a.Cost
	}
	return u
}

// failed makes the error of an attempt: by OpenCode's own name of it where that says it all, else by the status.
func (c *Completer) failed(ctx context.Context, model opencode.ModelRef, a opencode.Answer, err error) *providers.Error {
	var e *providers.Error
	var turn *opencode.TurnError
	var call *opencode.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		e = providers.Classify(0, "", "", nil, context.Canceled)
	case errors.As(err, &turn):
		header := http.Header{}
		if turn.RetryAfter > 0 {
			header.Set("Retry-After", fmt.Sprint(int(turn.RetryAfter.Seconds())))
		}
		e = providers.Classify(turn.StatusCode, turn.Name, turn.Message, header, nil)
		if kind, ok := kinds[turn.Name]; ok {
			e.Kind = kind
		}
	case errors.As(err, &call) && !errors.Is(err, opencode.ErrUnavailable):
		e = providers.Classify(call.Status, call.Name, call.Message, nil, err)
	case errors.Is(err, opencode.ErrNoBinary), errors.Is(err, opencode.ErrUnauthorized):
		e = &providers.Error{Kind: providers.KindBadRequest, Message: err.Error(), Err: err}
	default:
		e = &providers.Error{Kind: providers.KindNetwork, Message: err.Error(), Err: err}
	}
	e.Provider, e.Model = cmp.Or(model.ProviderID, "opencode"), model.ModelID
	e.Usage = usage(a)
	return e
}

// kinds of OpenCode's errors whose name says it all.
var kinds = map[string]providers.Kind{
	opencode.ProviderAuth:        providers.KindAuth,
	opencode.ContextOverflow:     providers.KindContextLength,
	opencode.ContentFilter:       providers.KindContentFilter,
	opencode.MessageOutputLength: providers.KindTruncated,
	opencode.StructuredOutput:    providers.KindMalformedOutput,
	opencode.MessageAborted:      providers.KindCanceled,
	opencode.UnknownError:        providers.KindBadRequest, // unknown model or agent
}
