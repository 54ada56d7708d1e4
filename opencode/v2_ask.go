package opencode

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// demand is what a question says about the answer that it wants.
const demand = "Answer with JSON alone, of this schema:"

func (v v2) Ask(ctx context.Context, r AskRequest) (Message, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.Timeout, defaultAskTimeout))
	defer cancel()
	session, err := v.CreateSession(ctx, NewSession{
		Title: cmp.Or(r.Title, "ask"), Agent: r.Agent, Model: r.Model, Rules: []Rule{{"*", "*", Deny}},
	})
	if err != nil {
		return Message{}, err
	}
	defer v.discard(ctx, v, session.ID)
	if len(r.Schema) > 0 {
		r.Text += "\n\n" + demand + "\n" + string(r.Schema)
	}
	err = v.Prompt(ctx, session.ID, Prompt{Agent: r.Agent, Model: r.Model, System: r.System, Text: r.Text})
	if err != nil {
		return Message{}, err
	}
	reply, err := v.answer(ctx, session.ID)
	switch {
	case err != nil:
		return Message{}, err
	case reply.Info.ID == "":
		return Message{}, unknown(ctx, v, r, &TurnError{Name: UnknownError, Message: "OpenCode ended the turn without an answer"})
	case reply.Info.Error != nil:
		return reply, reply.Info.Error
	}
	if len(r.Schema) > 0 {
		answer := jsonIn(reply.Text())
		if !json.Valid(answer) {
			return reply, &TurnError{Name: StructuredOutput, Message: "the model did not answer with JSON"}
		}
		reply.Info.Structured = answer
	}
	return reply, nil
}

// answer waits for the end of a session's only turn, and gives what came of it; an empty message: nothing.
func (v v2) answer(ctx context.Context, sessionID string) (Message, error) {
	const op = "ask"
	for {
		err := v.call(ctx, request{
			op: op, method: http.MethodPost, path: "/api/experimental" + sessionPath(sessionID, "wait"), timeout: defaultAskTimeout,
		})
		if err != nil {
			return Message{}, err
		}
		s, err := getData[v2session](ctx, v, op, v2path(sessionID), nil)
		if err != nil {
			return Message{}, err
		}
		if s.Outcome == "" { // it has not begun
			if pause(ctx, v2pause) != nil {
				return Message{}, transportError(ctx, op, ctx.Err())
			}
			continue
		}
		all, err := v.Messages(ctx, sessionID, 1)
		if err != nil || len(all) == 0 || all[0].Info.Role != RoleAssistant {
			return Message{}, err
		}
		return all[0], nil
	}
}

// jsonIn is what a model wrote without the fence that many put around it.
func jsonIn(said string) json.RawMessage {
	said = strings.TrimSpace(said)
	if rest, fenced := strings.CutPrefix(said, "```"); fenced {
		said = strings.TrimPrefix(strings.TrimSuffix(strings.TrimSpace(rest), "```"), "json")
	}
	return json.RawMessage(strings.TrimSpace(said))
}
