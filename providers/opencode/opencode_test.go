package opencode_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
)

func TestStructuredAnswer(t *testing.T) {
	t.Parallel()
	reply := yes()
	reply.InputTokens, reply.OutputTokens = 1000, 50
	s := newScene(t, nil, says(reply))
	resp, err := ocprovider.New(s.config()).Complete(t.Context(), s.question())
	if err != nil {
		t.Fatal(err)
	}
	if resp.Text != `{"answer":"yes"}` || resp.Stop != providers.StopEnd {
		t.Errorf("answer %q, stop %q", resp.Text, resp.Stop)
	}
	if resp.Provider != scriptmodel.ProviderID || resp.Model != scriptmodel.ModelAgent {
		t.Errorf("answered by %s/%s", resp.Provider, resp.Model)
	}
	// The scripted model costs 1 and 2 dollars per million tokens.
	if u := resp.Usage; u.Input != 1000 || u.Output != 50 || math.Abs(u.Cost-0.0011) > 1e-9 {
		t.Errorf("usage %v", u)
	}
	s.noSessions()
}

// With the agent of AgentConfig a question must not pay for OpenCode's own prompt and the user's skills.
func TestLedgerAgentHasAShortPrompt(t *testing.T) {
	t.Parallel()
	skill := map[string]string{
		".opencode/skills/baking/SKILL.md": "---\nname: baking\ndescription: Use when there is bread to bake\n---\nBake.\n",
	}
	for name, test := range map[string]struct {
		agent    string
		min, max int
	}{
		"ledger":                  {ocprovider.Agent, 100, 1200},
		"unknown to the server":   {"nobody", 2000, math.MaxInt},
		"none, so OpenCode's own": {"", 2000, math.MaxInt},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, skill, says(yes()))
			cfg := s.config()
			cfg.Agent = test.agent
			if _, err := ocprovider.New(cfg).Complete(t.Context(), s.question()); err != nil {
				t.Fatal(err)
			}
			seen := s.requests()
			if len(seen) != 1 {
				t.Fatalf("%d calls of the model", len(seen))
			}
			if n := len(seen[0].System); n < test.min || n > test.max {
				t.Errorf("the system prompt has %d characters: %s", n, seen[0].System)
			}
			if !strings.Contains(seen[0].System, "You are a judge.") {
				t.Error("the question's own instruction is missing")
			}
			if got := strings.Join(seen[0].Tools, " "); got != "StructuredOutput" {
				t.Errorf("the model was offered %s", got)
			}
		})
	}
}

// This is what happens to a person without any key: the model is the one that OpenCode is set to.
func TestModelIsOpenCodesOwnUnlessNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		configured opencode.ModelRef
		asked      string
		want       string
	}{
		"nothing named":              {want: scriptmodel.ModelAgent},
		"configured":                 {configured: scripted(scriptmodel.ModelAgent2), want: scriptmodel.ModelAgent2},
		"asked of the same provider": {scripted(scriptmodel.ModelAgent2), scriptmodel.ModelLedger, scriptmodel.ModelLedger},
		"asked in OpenCode's words":  {asked: "scripted/ledger", want: scriptmodel.ModelLedger},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, says(yes()))
			cfg := s.config()
			cfg.Model = test.configured
			req := s.question()
			req.Model = test.asked
			resp, err := ocprovider.New(cfg).Complete(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if resp.Provider != scriptmodel.ProviderID || resp.Model != test.want {
				t.Errorf("answered by %s/%s, want %s", resp.Provider, resp.Model, test.want)
			}
		})
	}
}

func TestUnknownModel(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, says(yes()))
	cfg := s.config()
	cfg.Model = scripted("nope")
	failure := fails(t, cfg, s.question())
	if failure.Kind != providers.KindBadRequest || failure.Retryable() || !errors.Is(failure, opencode.ErrUnknownModel) {
		t.Errorf("kind %s: %v", failure.Kind, failure)
	}
	for _, part := range []string{"scripted/nope", "`opencode models`"} {
		if !strings.Contains(failure.Error(), part) {
			t.Errorf("%q does not say %q", failure, part)
		}
	}
	s.noSessions()

	cfg.Model = opencode.ModelRef{}
	req := s.question()
	req.Model = "gpt-4o"
	if failure := fails(t, cfg, req); failure.Kind != providers.KindBadRequest ||
		!strings.Contains(failure.Error(), "provider/model") {
		t.Errorf("a model without a provider: %v", failure)
	}
}

func TestUnpricedModel(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]string{
		"opencode.json": `{"provider":{"scripted":{"models":{"unpriced":{"name":"unpriced"}}}}}`,
	}, says(yes()))
	cfg := s.config()
	cfg.Model = scripted("unpriced")
	resp, err := ocprovider.New(cfg).Complete(t.Context(), s.question())
	if err != nil || resp.Usage.Unpriced != 1 || resp.Usage.Input == 0 {
		t.Errorf("%+v, %v", resp, err)
	}
}

// Prose is not the end: it goes back to the model with what is wrong, in a new session that knows what was said.
func TestProseIsRepaired(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, says(scriptmodel.Reply{Text: "I would rather talk."}, yes()))
	var spent boulder.Usage
	got, err := providers.Structured[struct{ Answer string }](
		t.Context(), ocprovider.New(s.config()), s.question(), nil, func(u boulder.Usage) { spent = spent.Add(u) })
	if err != nil || got.Answer != "yes" {
		t.Fatalf("%+v, %v", got, err)
	}
	seen := s.requests()
	if len(seen) != 2 || !strings.Contains(seen[1].LastUser(), "[assistant]\nI would rather talk.\n\n[user]\n") {
		t.Fatalf("the model was asked %d times, last: %q", len(seen), seen[len(seen)-1].LastUser())
	}
	if spent.Cost == 0 || spent.Unpriced != 0 || spent.Input <= usageOf(seen[0]) {
		t.Errorf("both calls are billed, got %v", spent)
	}
	s.noSessions()
}

// usageOf is what the scripted model says that a request has cost.
func usageOf(r scriptmodel.Request) int64 { return int64(len(r.Text()) / 4) }

// A model that calls a tool which it was not offered is asked again by OpenCode: the first call is billed as well.
func TestEveryCallOfAQuestionIsBilled(t *testing.T) {
	t.Parallel()
	wrong, right := strayCall(), yes()
	wrong.InputTokens, wrong.OutputTokens = 1000, 10
	right.InputTokens, right.OutputTokens = 2000, 20
	s := newScene(t, nil, says(wrong, right))
	resp, err := ocprovider.New(s.config()).Complete(t.Context(), s.question())
	if err != nil {
		t.Fatal(err)
	}
	if u := resp.Usage; u.Input != 3000 || u.Output != 30 || math.Abs(u.Cost-0.00306) > 1e-9 {
		t.Errorf("usage %v", u)
	}
}

// OpenCode asks such a model for ever, at some ten calls a second.
func TestRunawayModelIsStopped(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, says(strayCall()))
	failure := fails(t, s.config(), s.question())
	if failure.Kind != providers.KindMalformedOutput || !strings.Contains(failure.Error(), "tools that it does not have") {
		t.Errorf("kind %s: %v", failure.Kind, failure)
	}
	if failure.Usage.Input == 0 || failure.Usage.Cost == 0 {
		t.Errorf("usage %v", failure.Usage)
	}
	if n := len(s.requests()); n < 5 || n > 20 { // some more than 5 may be under way before the event is here
		t.Errorf("%d calls of the model", n)
	}
	s.noSessions()
}

func strayCall() scriptmodel.Reply {
	return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{Name: "bash", Args: map[string]any{"command": "ls"}}}}
}

// OpenCode itself repeats such a call, five times; the missing credit is told by a code in the answer's body only.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body string
		want providers.Kind
	}{
		"too many requests": {`{"error":{"message":"Slow down.","code":"rate_limit_exceeded"}}`, providers.KindRateLimit},
		"no credit":         {`{"error":{"message":"Slow down.","code":"insufficient_quota"}}`, providers.KindQuota},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, says(scriptmodel.Reply{
				Status: http.StatusTooManyRequests, Body: test.body,
				Header: http.Header{"Retry-After-Ms": {"1"}, "Retry-After": {"37"}}, // OpenCode obeys the first
			}))
			failure := fails(t, s.config(), s.question())
			if failure.Kind != test.want || failure.RetryAfter != 37*time.Second ||
				failure.Status != http.StatusTooManyRequests || failure.Message != "Slow down." {
				t.Errorf("got %+v", failure)
			}
			if n := len(s.requests()); n != 6 {
				t.Errorf("%d calls of the model", n)
			}
		})
	}
}

func TestCancelEndsTheModelCall(t *testing.T) {
	t.Parallel()
	asked, gone := make(chan struct{}), make(chan struct{})
	never := make(chan struct{})
	s := newScene(t, nil, func(ctx context.Context, _ scriptmodel.Request) scriptmodel.Reply {
		context.AfterFunc(ctx, func() { close(gone) })
		close(asked)
		return scriptmodel.Reply{Wait: never}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	result := make(chan error, 1)
	go func() {
		_, err := ocprovider.New(s.config()).Complete(ctx, s.question())
		result <- err
	}()
	<-asked
	cancel(errors.New("the person left"))
	failure, ok := errors.AsType[*providers.Error](<-result)
	if !ok || failure.Kind != providers.KindCanceled || !errors.Is(failure, context.Canceled) ||
		failure.Message != "the person left" {
		t.Errorf("got %v", failure)
	}
	<-gone
	s.noSessions()
}

// A provider that is not there must not look like a slow model.
func TestDeadlineTellsWhatWasWaitedFor(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]string{"opencode.json": localProvider("http://127.0.0.1:1", "key")}, nil)
	cfg := s.config()
	cfg.Model, cfg.Timeout = opencode.ModelRef{ProviderID: "local", ModelID: "some-model"}, 20*time.Second
	failure := fails(t, cfg, s.question())
	if failure.Kind != providers.KindNetwork || !errors.Is(failure, context.DeadlineExceeded) ||
		!strings.Contains(failure.Error(), "still trying to reach the model (") {
		t.Errorf("kind %s: %v", failure.Kind, failure)
	}
}

// fails asks and expects an error that keeps the contract of providers.Completer.
func fails(t *testing.T, cfg ocprovider.Config, req *providers.Request) *providers.Error {
	t.Helper()
	resp, err := ocprovider.New(cfg).Complete(t.Context(), req)
	failure, ok := errors.AsType[*providers.Error](err)
	if !ok || resp != nil {
		t.Fatalf("got %+v and error %v, want a *providers.Error alone", resp, err)
	}
	return failure
}
