// Package opencode asks models through an OpenCode server, with the user's logins, for ledgers without a key.
package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
)

// Agent is the name of the agent that [AgentConfig] defines.
const Agent = "manager-ledger"

// AgentConfig is the value of "agent" in OpenCode's configuration: an agent without tools and with a short prompt. With
// it a ledger call has a system prompt of some 900 characters instead of 9,800.
//
// The session of a question denies all tools as well, but only this one removes the user's skills from the prompt.
func AgentConfig() map[string]any {
	return map[string]any{Agent: map[string]any{
		"mode": "primary", "hidden": true,
		"description": "Answers the ledger questions of manager; has no tools.",
		"prompt": "You answer one question with the JSON that it asks for. " +
			"You have no tools except the one for the answer.",
		"permission": map[string]any{"*": "deny", "StructuredOutput": "allow"},
	}}
}

// Completer implements [providers.Completer] on an OpenCode server. Host and Directory are required.
//
// OpenCode repeats temporarily refused calls itself: six requests in all, within a minute; a provider's longer wait is an
// error. So do not add retries. MaxOutputTokens has no effect: OpenCode has its own setting.
type Completer struct {
	Host      *opencode.Host
	Directory string // absolute; OpenCode reads its configuration there
	// Model is used for requests without one; a named model is one of its provider. Zero: the model of the user's
	// configuration, else OpenCode's choice.
	Model opencode.ModelRef
	// Agent answers if the server knows it; else the default agent does. All tools are denied either way.
	Agent   string
	Timeout time.Duration // of one question, including OpenCode's retries. Defaults to 10 minutes.
}

var _ providers.Completer = (*Completer)(nil)

// Complete implements [providers.Completer]. The session of the question is deleted afterwards.
func (c *Completer) Complete(ctx context.Context, req *providers.Request) (*providers.Response, error) {
	model := c.Model
	model.ModelID = cmp.Or(req.Model, model.ModelID)
	conn, done, err := c.Host.Use(ctx)
	if err != nil {
		return nil, attribute(model, boulder.Usage{}, failed(ctx, err, true))
	}
	defer done()
	answer, spent, err := c.ask(ctx, conn.Client.In(c.Directory), model, req)
	turn, isTurn := errors.AsType[*opencode.TurnError](err)
	switch prose := isTurn && turn.Name == opencode.StructuredOutput; { // for the caller to inspect and repair
	case err != nil && !prose:
		return nil, attribute(model, spent, failed(ctx, err, false))
	case answer.Info.Finish == opencode.FinishLength:
		return nil, attribute(model, spent, &providers.Error{Kind: providers.KindTruncated})
	}
	resp := &providers.Response{
		Text: answer.Text(), Usage: spent,
		Provider: answer.Info.Model.ProviderID, Model: answer.Info.Model.ModelID,
	}
	if json.Valid(answer.Info.Structured) {
		resp.Text = string(answer.Info.Structured)
	}
	if answer.Info.Finish == opencode.FinishError || resp.Text == "" && spent.Tokens() == 0 { // no model has worked on it
		return nil, attribute(model, spent, notReached())
	}
	return resp, nil
}

// ask asks in a session of its own, followed by a watch. spent is valid even after an error.
func (c *Completer) ask(
	ctx context.Context, dir *opencode.Directory, model opencode.ModelRef, req *providers.Request,
) (answer opencode.Message, spent boulder.Usage, err error) {
	ctx, w := newWatch(ctx, dir.Client())
	agent, agents := c.Agent, []string(nil)
	if agent != "" {
		agents, err = dir.Agents(ctx)
	}
	if !slices.Contains(agents, agent) { // an attached server may not have it
		agent = ""
	}
	if err == nil && req.Effort != "" {
		err = has(ctx, dir, model, req.Effort)
	}
	if err == nil {
		answer, err = dir.Ask(ctx, opencode.AskRequest{
			Title: "manager: " + cmp.Or(req.SchemaName, "question"), Agent: agent, Model: model, Variant: req.Effort, System: req.System,
			Text: flatten(req.Messages), Schema: req.Schema, Begun: w.begin, Timeout: c.Timeout,
		})
	}
	w.end()
	return answer, w.spent(answer.Info), w.explain(err)
}

// has refuses an effort that the model lacks: OpenCode would go without.
func has(ctx context.Context, dir *opencode.Directory, model opencode.ModelRef, effort string) error {
	catalogue, err := dir.Catalogue(ctx)
	if all := catalogue.Efforts[model]; err == nil && catalogue.Has(model) && !slices.Contains(all, effort) {
		err = &providers.Error{
			Kind: providers.KindBadRequest, Message: fmt.Sprintf("%s does not have the effort %s: it has %s", model, effort,
				cmp.Or(strings.Join(all, ", "), "none")),
		}
	}
	return err
}

// flatten turns a conversation into one text, since a new session has no history.
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
