package opencode

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// demand precedes the schema in a question.
const demand = "Answer with JSON alone, of this schema:"

func (v v2) Ask(ctx context.Context, r AskRequest) (Message, error) {
	if len(r.Schema) > 0 {
		r.Text += "\n\n" + demand + "\n" + string(r.Schema)
	}
	rules := []Rule{{"*", "*", Deny}}
	reply, err := v.ask(ctx, v, r, rules, func(ctx context.Context, sessionID string) (reply Message, err error) {
		err = v.Prompt(ctx, sessionID, Prompt{Agent: r.Agent, Model: r.Model, Variant: r.Variant, System: r.System, Text: r.Text})
		if err != nil {
			return reply, err
		}
		if reply, err = v.answer(ctx, sessionID); err == nil && reply.Info.ID == "" {
			err = unknown(ctx, v, r, &TurnError{Name: UnknownError, Message: "OpenCode ended the turn without an answer"})
		}
		return reply, err
	})
	if err != nil || len(r.Schema) == 0 {
		return reply, err
	}
	answer := jsonIn(reply.Text())
	if !json.Valid(answer) {
		return reply, &TurnError{Name: StructuredOutput, Message: "the model did not answer with JSON"}
	}
	reply.Info.Structured = answer
	return reply, nil
}

// answer waits for the end of a session's only turn and returns its answer, or an empty message if there is none.
func (v v2) answer(ctx context.Context, sessionID string) (Message, error) {
	const op = "ask"
	err := v2poll(ctx, op, func() (over bool, err error) {
		err = v.call(ctx, request{
			op: op, method: http.MethodPost, path: "/api/experimental" + sessionPath(sessionID, "wait"), timeout: defaultAskTimeout,
		})
		if err != nil {
			return false, err
		}
		s, err := getData[struct{ Outcome string }](ctx, v, op, v2path(sessionID), nil)
		return s.Outcome != "", err // empty: the turn has not begun
	})
	if err != nil {
		return Message{}, err
	}
	all, err := v.Messages(ctx, sessionID, 1)
	if err != nil || len(all) == 0 || all[0].Info.Role != RoleAssistant {
		return Message{}, err
	}
	return all[0], nil
}

// jsonIn returns a model's answer without the code fence that many models add.
func jsonIn(said string) json.RawMessage {
	said = strings.TrimSpace(said)
	if rest, fenced := strings.CutPrefix(said, "```"); fenced {
		said = strings.TrimPrefix(strings.TrimSuffix(strings.TrimSpace(rest), "```"), "json")
	}
	return json.RawMessage(strings.TrimSpace(said))
}
