package opencode_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// With the agent of AgentConfig, a question costs no tokens for OpenCode's own prompt and the user's skills.
func TestLedgerAgentHasAShortPrompt(t *testing.T) {
	t.Parallel()
	skilled := project(t, map[string]string{
		".opencode/skills/baking/SKILL.md": "---\nname: baking\ndescription: Use when there is bread to bake\n---\nBake.\n",
	})
	if err := scriptmodel.Installed(filepath.Join(skilled, ".opencode")); err != nil {
		t.Fatal(err)
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
			s := newScene(t, nil, says(yes()))
			cfg := s.config()
			cfg.Directory, cfg.Agent = skilled, test.agent
			if _, err := cfg.Complete(t.Context(), s.question()); err != nil {
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

// Without any key of the user, the model is the one that OpenCode is set to.
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, says(yes()))
			cfg := s.config()
			cfg.Model = test.configured
			req := s.question()
			req.Model = test.asked
			resp, err := cfg.Complete(t.Context(), req)
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
}

func TestUnpricedModel(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]string{
		"opencode.json": `{"provider":{"scripted":{"models":{"unpriced":{"name":"unpriced"}}}}}`,
	}, says(yes()))
	cfg := s.config()
	cfg.Model = scripted("unpriced")
	resp, err := cfg.Complete(t.Context(), s.question())
	if err != nil || resp.Usage.Unpriced != 1 || resp.Usage.Input == 0 {
		t.Errorf("%+v, %v", resp, err)
	}
}

// Prose is repaired: it goes back to the model with the mistake, in a new session with the conversation so far.
func TestProseIsRepaired(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil, says(scriptmodel.Reply{Text: "I would rather talk."}, yes()))
	var spent boulder.Usage
	got, err := providers.Structured[struct{ Answer string }](
		t.Context(), s.config(), s.question(), nil, func(u boulder.Usage) { spent = spent.Add(u) })
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

// usageOf is the number of input tokens that the scripted model bills for a request.
func usageOf(r scriptmodel.Request) int64 { return int64(len(r.Text()) / 4) }

// After a call of a tool that was not offered, OpenCode asks the model again. Both model calls are billed.
func TestEveryCallOfAQuestionIsBilled(t *testing.T) {
	t.Parallel()
	wrong, right := strayCall(), yes()
	wrong.InputTokens, wrong.OutputTokens = 1000, 10
	right.InputTokens, right.OutputTokens = 2000, 20
	s := newScene(t, nil, says(wrong, right))
	resp, err := s.config().Complete(t.Context(), s.question())
	if err != nil {
		t.Fatal(err)
	}
	if u := resp.Usage; u.Input != 3000 || u.Output != 30 || math.Abs(u.Cost-0.00306) > 1e-9 {
		t.Errorf("usage %v", u)
	}
}

// What a provider cannot mean does not count, or it would take back what other calls used of a budget.
func TestImpossibleUsageDoesNotCount(t *testing.T) {
	t.Parallel()
	for _, n := range []int{-1_000_000, 1 << 62} {
		odd := yes()
		odd.InputTokens, odd.OutputTokens = n, n
		s := newScene(t, nil, says(odd))
		resp, err := s.config().Complete(t.Context(), s.question())
		if err != nil {
			t.Fatal(err)
		}
		if u := resp.Usage; u.Tokens() != 0 || u.Cost != 0 {
			t.Errorf("%d: usage %v", n, u)
		}
	}
}

// An outage that a gateway reports as a success is a fault, which passes, and no answer of a bad model: also where OpenCode
// takes it for an answer, or would ask again at once, forever.
func TestOutageAsSuccess(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]string{"nothing": "", "a reason": "error"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, says(scriptmodel.Reply{Empty: true, Finish: finish}))
			failure := fails(t, s.config(), s.question())
			if failure.Kind != providers.KindNetwork || !failure.Retryable() || !strings.Contains(failure.Error(), "the model was not reached") {
				t.Errorf("%s: %v", failure.Kind, failure)
			}
			s.noSessions()
		})
	}
}

// OpenCode would ask a model that calls missing tools forever, at about ten calls a second.
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
	if n := len(s.requests()); n < 5 || n > 20 { // some more may be in flight before the event arrives
		t.Errorf("%d calls of the model", n)
	}
	s.noSessions()
}

func strayCall() scriptmodel.Reply {
	return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{Name: "bash", Args: map[string]any{"command": "ls"}}}}
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
		_, err := s.config().Complete(ctx, s.question())
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

// An unreachable provider must not look like a slow model.
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

// fails makes a call that must fail with an error of the contract.
func fails(t *testing.T, cfg *ocprovider.Completer, req *providers.Request) *providers.Error {
	t.Helper()
	resp, err := cfg.Complete(t.Context(), req)
	failure, ok := errors.AsType[*providers.Error](err)
	if !ok || resp != nil {
		t.Fatalf("got %+v and error %v, want a *providers.Error alone", resp, err)
	}
	return failure
}

func simpleQuestion() *providers.Request {
	return &providers.Request{Messages: []providers.Message{{Role: providers.RoleUser, Text: "Is it done?"}}}
}

// OpenCode would wait for days, or ask again, and the question would time out: the provider's word is the error at once.
func TestLimitsThatOpenCodeWaitsFor(t *testing.T) {
	t.Parallel()
	const days = 274579 * time.Second
	refusal := func(after time.Duration, body string) scriptmodel.Reply {
		r := scriptmodel.Reply{Status: http.StatusTooManyRequests, Header: map[string]string{}, Body: body}
		if after > 0 {
			r.Header["Retry-After-Ms"] = fmt.Sprint(after.Milliseconds())
		}
		return r
	}
	for name, test := range map[string]struct {
		reply scriptmodel.Reply
		want  providers.Kind
		after time.Duration
	}{
		"for days":      {refusal(days, `{"error":{"message":"You have reached your monthly spend limit."}}`), providers.KindRateLimit, days},
		"until a reset": {refusal(0, `{"error":{"message":"Usage limit reached. Try again in 5 hours."}}`), providers.KindRateLimit, 5 * time.Hour},
		"no credit":     {refusal(0, `{"error":{"message":"You exceeded your current quota, please check your plan.","code":"insufficient_quota"}}`), providers.KindQuota, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil, says(test.reply))
			failure := fails(t, s.config(), s.question())
			if failure.Kind != test.want || failure.RetryAfter > test.after || test.after-failure.RetryAfter > patience {
				t.Errorf("%s after %s: %v", failure.Kind, failure.RetryAfter, failure)
			}
			if n := len(s.requests()); n != 1 {
				t.Errorf("%d calls of the model", n)
			}
			s.noSessions()
		})
	}
}

// A start that cannot succeed is not retried, and its output reaches the user.
func TestStartFailures(t *testing.T) {
	t.Parallel()
	script := func(text string) string {
		path := filepath.Join(t.TempDir(), "opencode")
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	missing := filepath.Join(t.TempDir(), "opencode")
	starting := func(binary string) func(context.Context) (*opencode.Server, error) {
		return func(ctx context.Context) (*opencode.Server, error) {
			return opencode.Start(ctx, opencode.ServerConfig{Binary: binary, StartTimeout: 200 * time.Millisecond})
		}
	}
	failing := func(err error) func(context.Context) (*opencode.Server, error) {
		return func(context.Context) (*opencode.Server, error) { return nil, err }
	}
	for name, test := range map[string]struct {
		start func(context.Context) (*opencode.Server, error)
		want  providers.Kind
		says  string
	}{
		"not installed":   {starting(missing), providers.KindSetup, "npm install -g opencode-ai@"},
		"not a program":   {starting(script("\x7fnonsense")), providers.KindSetup, "exec format error"},
		"another version": {failing(opencode.CheckVersion("2.0.0")), providers.KindSetup, "OpenCode 2.0.0 has an older API"},
		"ended at once":   {starting(script("#!/bin/sh\necho disk full; exit 3")), providers.KindNetwork, "disk full"},
		"too slow":        {starting(script("#!/bin/sh\n[ $1 = --version ] && exit 1\nsleep 600")), providers.KindNetwork, "did not get ready in time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			host := opencode.NewHost(test.start)
			defer host.Stop(context.Background())
			failure := fails(t, &ocprovider.Completer{Host: host, Directory: "/"}, simpleQuestion())
			if failure.Kind != test.want || !strings.Contains(failure.Error(), test.says) {
				t.Errorf("kind %s: %v", failure.Kind, failure)
			}
			if failure.Retryable() != (test.want == providers.KindNetwork) || failure.Usage != (boulder.Usage{}) {
				t.Errorf("retryable %t, usage %v", failure.Retryable(), failure.Usage)
			}
		})
	}
}

func TestCancelWhileTheServerStarts(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	host := opencode.NewHost(func(ctx context.Context) (*opencode.Server, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	defer host.Stop(context.Background())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() {
		_, err := (&ocprovider.Completer{Host: host, Directory: "/"}).Complete(ctx, simpleQuestion())
		result <- err
	}()
	<-begun
	cancel()
	failure, ok := errors.AsType[*providers.Error](<-result)
	if !ok || failure.Kind != providers.KindCanceled || !errors.Is(failure, context.Canceled) {
		t.Errorf("got %v", failure)
	}
}

func answers(status int, media, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// fakeServer returns a host with a server that answers questions with message.
func fakeServer(t *testing.T, message http.HandlerFunc) *opencode.Host {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /global/health", answers(200, "application/json", `{"healthy":true,"version":"1.18.33"}`))
	mux.HandleFunc("POST /session", answers(200, "application/json", `{"id":"ses_1"}`))
	mux.HandleFunc("DELETE /session/ses_1", answers(200, "application/json", `true`))
	mux.HandleFunc("GET /config/providers", answers(500, "application/json", `{}`))
	mux.HandleFunc("POST /session/ses_1/message", message)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	client, err := opencode.Attach(t.Context(), server.URL, opencode.AttachConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return opencode.AttachedHost(client)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	host := fakeServer(t, answers(200, "application/json", `{"info":{"id":"msg_1","role":"assistant","finish":"stop",
		"cost":0.25,"tokens":{"input":100,"output":30,"reasoning":40,"cache":{"read":600,"write":20}}},"parts":[]}`))
	want := boulder.Usage{Input: 720, CacheRead: 600, CacheWrite: 20, Output: 70, Reasoning: 40, Cost: 0.25}
	resp, err := (&ocprovider.Completer{Host: host, Directory: "/"}).Complete(t.Context(), simpleQuestion())
	if err != nil || resp.Usage != want {
		t.Errorf("%+v, %v", resp, err)
	}
}

// Faults that the real server cannot be made to show.
func TestFaultsOfTheServer(t *testing.T) {
	t.Parallel()
	turn := func(name, message string) http.HandlerFunc {
		return answers(200, "application/json", fmt.Sprintf(
			`{"info":{"id":"msg_1","role":"assistant","error":{"name":%q,"data":{"message":%q}}},"parts":[]}`, name, message))
	}
	for name, test := range map[string]struct {
		message http.HandlerFunc
		want    providers.Kind
		says    string
	}{
		"died": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, providers.KindNetwork, "unavailable",
		},
		"other password":     {answers(401, "text/plain", ""), providers.KindSetup, "server refused the credentials"},
		"other program":      {answers(200, "text/html", "<html>"), providers.KindSetup, "not supported by this server"},
		"session deleted":    {answers(404, "application/json", `{}`), providers.KindNetwork, "not found"},
		"call refused":       {answers(400, "application/json", `{"name":"BadRequest"}`), providers.KindBadRequest, "400"},
		"server's own fault": {answers(500, "application/json", `{}`), providers.KindNetwork, "500"},
		"turn aborted":       {turn(opencode.MessageAborted, "aborted"), providers.KindCanceled, "aborted"},
		"not logged in":      {turn(opencode.ProviderAuth, "log in"), providers.KindAuth, "log in"},
		"output too long":    {turn(opencode.MessageOutputLength, "cut"), providers.KindTruncated, "cut"},
		"filtered":           {turn(opencode.ContentFilter, "blocked"), providers.KindContentFilter, "blocked"},
		"unknown model": {
			turn(opencode.UnknownError, "Model not found: p/m"), providers.KindBadRequest, "`opencode models`",
		},
		"no name for it": {turn(opencode.UnknownError, "fetch failed"), providers.KindNetwork, "fetch failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failure := fails(t, &ocprovider.Completer{
				Host: fakeServer(t, test.message), Directory: "/project", Model: opencode.ModelRef{ProviderID: "p", ModelID: "m"},
			}, simpleQuestion())
			if failure.Kind != test.want || !strings.Contains(failure.Error(), test.says) {
				t.Errorf("kind %s: %v", failure.Kind, failure)
			}
			if failure.Provider != "p" || failure.Model != "m" {
				t.Errorf("about %s/%s", failure.Provider, failure.Model)
			}
		})
	}
}
