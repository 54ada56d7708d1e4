package contract

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// retried waits until the session waits to retry its provider.
func (s *scene) retried(sub *opencode.Subscription) opencode.Status {
	events := s.await(sub, "the provider to be asked again", Status(opencode.Retry))
	got := events[len(events)-1].Payload.(opencode.StatusChanged).Status
	s.want(got.Attempt == 1 && got.Message != "" && !got.Next.IsZero(), "the wait is told as %+v", got)
	return got
}

func rateLimit(s *scene) {
	const asked = 4 * time.Second // longer than OpenCode waits by itself
	var refused atomic.Pointer[time.Time]
	_, sub, messageID := s.begin(func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		if now := time.Now(); refused.CompareAndSwap(nil, &now) {
			return scriptmodel.Reply{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "4"}}
		}
		return scriptmodel.Reply{Text: "done"}
	})
	wait := s.retried(sub)
	s.want(wait.Next.Add(time.Second).After(refused.Load().Add(asked)),
		"at %v the provider asked for %v, and the wait is %+v", refused.Load(), asked, wait)
	s.await(sub, "the answer", Answered(messageID))
}

func failingProvider(s *scene) {
	session, sub, _ := s.begin(scriptmodel.Always(scriptmodel.Reply{Status: http.StatusInternalServerError}))
	s.retried(sub)
	s.want(s.status(session) == opencode.Busy || s.status(session) == opencode.Retry,
		"meanwhile the session is %q", s.status(session))
	s.must(s.dir.Abort(s.ctx, session))
	s.idle(sub, session)
}

func refusedKey(s *scene) {
	_, sub, _ := s.begin(scriptmodel.Always(scriptmodel.Reply{Status: http.StatusUnauthorized}))
	isRefused(s, next[opencode.SessionFailed](s, sub).Err)
	s.want(len(s.asked()) == 1, "the provider was asked %d times", len(s.asked()))
}

// isRefused checks that err is the refusal of the provider, and cannot be taken for one of the server.
func isRefused(s *scene, err error) {
	failed, ok := errors.AsType[*opencode.TurnError](err)
	s.want(ok && failed.Name == opencode.APIError && failed.StatusCode == http.StatusUnauthorized && !failed.Retryable &&
		!errors.Is(err, opencode.ErrUnauthorized) && !errors.Is(err, opencode.ErrUnavailable), "a refused key is %#v", err)
}

func (s *scene) question() opencode.AskRequest {
	return opencode.AskRequest{Title: s.mark, Model: agentModel, Text: s.mark, Schema: json.RawMessage(
		`{"type":"object","properties":{"answer":{"type":"number"}},"required":["answer"]}`)}
}

func (s *scene) leavesNoSession() {
	left, err := s.dir.Sessions(s.ctx, opencode.SessionFilter{Title: s.mark})
	s.want(err == nil && len(left) == 0, "sessions left behind: %+v, %v", left, err)
}

func askJSON(s *scene) {
	s.model(scriptmodel.Always(scriptmodel.Reply{JSON: map[string]any{"answer": 42}}))
	answer := must(s.dir.Ask(s.ctx, s.question()))
	s.want(string(answer.Info.Structured) == `{"answer":42}` && answer.Info.Cost > 0 && answer.Info.Model == agentModel,
		"the answer is %+v", answer)
	for _, r := range s.asked() {
		s.want(!slices.ContainsFunc(r.Tools, func(name string) bool { return name != "StructuredOutput" }),
			"the model was offered %q", r.Tools)
	}
	s.leavesNoSession()
}

func askFails(s *scene) {
	reply := scriptmodel.Reply{Text: "I would rather talk"}
	s.model(func(context.Context, scriptmodel.Request) scriptmodel.Reply { return reply })
	question := s.question()
	answer, err := s.dir.Ask(s.ctx, question)
	failed, ok := errors.AsType[*opencode.TurnError](err)
	s.want(ok && failed.Name == opencode.StructuredOutput && answer.Text() == reply.Text && answer.Info.Cost > 0 &&
		answer.Info.Structured == nil, "prose instead of JSON: %+v, %v", answer, err)
	reply, question.Schema = scriptmodel.Reply{Status: http.StatusUnauthorized}, nil
	_, err = s.dir.Ask(s.ctx, question)
	isRefused(s, err)
}

func askGivenUp(s *scene) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	var gone atomic.Bool
	s.model(func(call context.Context, _ scriptmodel.Request) scriptmodel.Reply {
		context.AfterFunc(call, func() { gone.Store(true) })
		cancel()
		return scriptmodel.Reply{Wait: make(chan struct{})}
	})
	_, err := s.dir.Ask(ctx, s.question())
	s.want(errors.Is(err, context.Canceled) && !errors.Is(err, opencode.ErrUnavailable),
		"giving up is reported as %v", err)
	s.eventually("the model is not asked any more", gone.Load)
	s.leavesNoSession()
}
