package executor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// Bodies are as the providers send them; OpenCode passes them on.
func TestProvidersErrors(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		body   string
		after  time.Duration
		want   boulder.TroubleKind // "" if fatal
		fatal  bool
	}{
		{"openai rate limit", 429, `{"error":{"message":"Rate limit reached for gpt-4o","type":"requests","code":"rate_limit_exceeded"}}`, 7 * time.Second, boulder.TroubleRateLimit, false},
		{"openai without credit", 429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, 0, "", true},
		{"anthropic overloaded", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 0, boulder.TroubleOverloaded, false},
		{"anthropic without credit", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`, 0, "", true},
		{"anthropic wrong key", 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}`, 0, "", true},
		{"google rate limit", 429, `{"error":{"code":429,"message":"Resource has been exhausted","status":"RESOURCE_EXHAUSTED"}}`, 0, boulder.TroubleRateLimit, false},
		{"google wrong key", 400, `{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}`, 0, "", true},
		{"unknown model", 404, `{"error":{"message":"The model gpt-9 does not exist","type":"invalid_request_error","code":"model_not_found"}}`, 0, "", true},
		{"bad gateway", 502, `<html>bad gateway</html>`, 0, boulder.TroubleNetwork, false},
		{"too long", 400, `{"error":{"message":"maximum context length is 8192 tokens","code":"context_length_exceeded"}}`, 0, "", false},
		{"bad request", 400, `{"error":{"message":"Unknown parameter: foo","type":"invalid_request_error"}}`, 0, "", false},
		{"filtered", 400, `{"error":{"message":"The response was filtered","code":"content_filter"}}`, 0, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := turnFault(&opencode.TurnError{
				Name: opencode.APIError, Message: "it failed", StatusCode: test.status, Body: test.body, RetryAfter: test.after,
			}, "p/m")
			trouble, _ := errors.AsType[*boulder.TroubleError](err)
			switch {
			case test.fatal:
				if !errors.Is(err, boulder.ErrFatal) || trouble != nil {
					t.Errorf("got %v", err)
				}
			case test.want == "":
				if err != nil {
					t.Errorf("not judged: %v", err)
				}
			case trouble == nil || trouble.Kind != test.want || trouble.RetryAfter != test.after:
				t.Errorf("got %+v (%v), want %s", trouble, err, test.want)
			}
			if err != nil && !strings.Contains(err.Error(), "p/m") {
				t.Errorf("nobody knows which model: %v", err)
			}
		})
	}
}

// An overflow has one name, however it is reported, and a turn that ended early is truncated.
func TestEndings(t *testing.T) {
	const overflow = `{"error":{"message":"prompt is too long: 210000 tokens","type":"invalid_request_error"}}`
	for name, test := range map[string]struct {
		finish    string
		tools     int
		tokens    int64 // 0: not counted by the provider
		says      string
		failed    string
		truncated string
	}{
		"overflow":        {"", 1, 0, "", overflow, ""},
		"length":          {"length", 1, 0, "", "", "the turn was cut off at the output limit"},
		"unknown":         {"unknown", 1, 0, "", "", "the turn ended for a reason that its provider did not name"},
		"two tokens":      {"stop", 0, 2, "I will", "", "the turn ended after 2 output tokens and no tool call"},
		"a short answer":  {"stop", 0, 4, "There is nothing to do.", "", ""},
		"not counted":     {"stop", 0, 0, "There is nothing to do.", "", ""},
		"nothing":         {"stop", 0, 0, "", "", "the turn ended after 0 output tokens and no tool call"},
		"a word and work": {"stop", 1, 1, "Done.", "", ""},
	} {
		turn := bare(Config{}).newTurn(boulder.Job{}, nil)
		if test.failed != "" {
			turn.seen.failed = &opencode.TurnError{Name: opencode.APIError, StatusCode: 400, Body: test.failed}
		}
		r := reading{evidence: boulder.Evidence{ToolCount: test.tools}}
		turn.readMessage(&r, opencode.Message{
			Info: opencode.MessageInfo{
				Role: opencode.RoleAssistant, Finish: test.finish, Tokens: opencode.Tokens{Input: 9, Output: test.tokens},
			},
			Parts: []opencode.Part{{Type: opencode.PartText, Text: test.says}},
		}, true)
		e := r.evidence
		turn.ending(&e, &r)
		if e.Ended.Truncated != test.truncated || (e.Ended.Error == opencode.ContextOverflow) != (test.failed != "") {
			t.Errorf("%s: ended %+v", name, e.Ended)
		}
	}
}

// The providers' wording. OpenCode retries both alike.
const (
	openAIWithoutCredit = "You exceeded your current quota, please check your plan and billing details. For more information on" +
		" this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors."
	geminiPerMinute = "You exceeded your current quota, please check your plan and billing details. For more information on" +
		" this error, head to: https://ai.google.dev/gemini-api/docs/rate-limits.\n* Quota exceeded for metric:" +
		" generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 5\nPlease retry in 41.9s."
)

// OpenCode 1.18.33 sends these while it retries (seen). What waiting cannot cure ends turn and run at the first retry.
func TestRetryMessages(t *testing.T) {
	for _, test := range []struct {
		kind    boulder.TroubleKind
		todo    string // for a fatal error, what the user has to do
		message string
	}{
		{"", "add credit", openAIWithoutCredit},
		{
			"", "add credit",
			`Too Many Requests: {"error":{"message":"No more.","type":"insufficient_quota","code":"insufficient_quota"}}`,
		},
		{"", "add credit", "Your credit balance is too low to access the Anthropic API."},
		{
			"", "check the provider's key",
			`Too Many Requests: {"error":{"message":"Incorrect API key provided","code":"invalid_api_key"}}`,
		},
		{
			boulder.TroubleRateLimit, "",
			`Too Many Requests: {"error":{"code":"rate_limit_exceeded","message":"Rate limit reached for gpt-4o"}}`,
		},
		{boulder.TroubleRateLimit, "", geminiPerMinute},
		{boulder.TroubleRateLimit, "", "5 hour usage limit reached. It will reset in 45 seconds."},
		{boulder.TroubleRateLimit, "", "Usage limit reached, it resets at 2020-11-21T12:11:03Z"}, // a reset that has passed
		{boulder.TroubleOverloaded, "", "Provider is overloaded"},
		{
			boulder.TroubleOverloaded, "",
			`Service Unavailable: {"error":{"message":"Service Unavailable","type":"server_error"}}`,
		},
		{
			boulder.TroubleNetwork, "",
			`Internal Server Error: {"error":{"message":"Internal Server Error","type":"server_error"}}`,
		},
		{boulder.TroubleNetwork, "", "Cannot connect to API: The socket connection was closed unexpectedly."},
		{boulder.TroubleNetwork, "", "Connection reset by server"},
		{boulder.TroubleNetwork, "", ""},
	} {
		err := retryFault(test.message, "p/m", "why", time.Minute)
		if h := waitsInVain(test.message, time.Minute); h != (test.todo != "") || errors.Is(err, boulder.ErrFatal) != h {
			t.Errorf("%q: in vain %v, error %v", test.message, h, err)
		}
		if !strings.Contains(err.Error(), test.todo) || !strings.Contains(err.Error(), "p/m") {
			t.Errorf("%q: nobody knows what to do: %v", test.message, err)
		}
		trouble, ok := errors.AsType[*boulder.TroubleError](err)
		if ok != (test.kind != "") || ok && (trouble.Kind != test.kind || trouble.RetryAfter != time.Minute) {
			t.Errorf("%q: got %v, want %s", test.message, err, test.kind)
		}
	}
}

// A spending limit with an end is a limit like any other, and its end is OpenCode's next retry.
func TestSpendLimitWithAnEnd(t *testing.T) {
	const message = "You have reached your monthly spend limit."
	if !waitsInVain(message, 30*time.Second) {
		t.Error("without an end somebody has to raise it")
	}
	err := retryFault(message, "p/m", "OpenCode would wait", 76*time.Hour)
	trouble, _ := errors.AsType[*boulder.TroubleError](err)
	if waitsInVain(message, 76*time.Hour) || trouble == nil || trouble.Kind != boulder.TroubleRateLimit || trouble.RetryAfter != 76*time.Hour {
		t.Errorf("%v", err)
	}
}

// withoutCredit is OpenAI's refusal for lack of credit. Its status is that of a rate limit.
func withoutCredit(t *testing.T) scriptmodel.Reply {
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"message": openAIWithoutCredit, "type": "insufficient_quota", "code": "insufficient_quota",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return scriptmodel.Reply{Status: http.StatusTooManyRequests, Body: string(body)}
}

// A turn that its provider refuses is run again in the same session, however often, and never as one that was cut off.
// Without credit one try is enough: OpenCode would make five, in 74 seconds.
func TestTurnIsRunAgainWhenItsProviderLetsIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refusal  scriptmodel.Reply
		refusals int
		want     error
		says     []string
	}{
		"no credit": {withoutCredit(t), 1, boulder.ErrNoCredit, []string{"cannot continue: scripted/agent: no credit left"}},
		"wrong key": {scriptmodel.Reply{Status: http.StatusUnauthorized}, 1, boulder.ErrFatal, nil},
		"too often": {scriptmodel.Reply{Status: http.StatusTooManyRequests}, 3, boulder.ErrTrouble, nil},
		// A gateway's outage: OpenCode takes these for answers, and asks again at once after the second kind.
		"nothing":           {scriptmodel.Reply{Empty: true}, 3, boulder.ErrTrouble, []string{"scripted/agent", "the model was not reached"}},
		"nothing but error": {scriptmodel.Reply{Empty: true, Finish: "error"}, 3, boulder.ErrTrouble, []string{"scripted/agent", "the model was not reached"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := make(chan struct{})
			w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
				select {
				case <-open:
				default:
					return test.refusal
				}
				if req.TurnsSinceUser() == 0 {
					return calls(readFile("hello.txt"))
				}
				return scriptmodel.Reply{Text: "Now I could do what was asked."}
			}, func(c *Config) {
				c.Rules = new(enforcer.DefaultRules())
				c.Rules.ProviderRetries = 0
				c.Rules.Admission = 2 * time.Second // OpenCode drops a prompt that arrives while the turn before it ends
			})
			a := w.newAttempt("x", "go")
			for n := range test.refusals {
				run := []run{a.run, a.again}[min(n, 1)]
				if e, err := run(t.Context(), w); !errors.Is(err, test.want) {
					t.Fatalf("%+v, %v", e.Ended, err)
				} else if i := slices.IndexFunc(test.says, func(s string) bool { return !strings.Contains(err.Error(), s) }); i >= 0 {
					t.Errorf("%v does not say %q", err, test.says[i])
				}
			}
			if errors.Is(test.want, boulder.ErrNoCredit) {
				if w.asked() != 1 || a.saw("makes it wait") {
					t.Errorf("nobody waits: the model was asked %d times, %q", w.asked(), a.activities())
				}
				if s, err := w.dir().Statuses(t.Context()); err != nil || s[a.session()].Type != "" {
					t.Errorf("the session is %+v (%v)", s[a.session()], err)
				}
			}
			close(open)
			e, err := a.again(t.Context(), w)
			if err != nil || e.FinalMessage != "Now I could do what was asked." ||
				e.Ended != (boulder.Ended{Finish: "stop"}) || e.ToolCount != 1 {
				t.Errorf("ended %+v with %q, %v", e.Ended, e.FinalMessage, err)
			}
			if n := len(reported[boulder.SubTaskStart](a)); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// A sub-agent whose model has no credit ends the run too: that model may be on another account.
func TestCreditOfASubAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		if strings.Contains(req.FirstUser(), "CHILD") {
			return withoutCredit(t)
		}
		return calls(delegate(t, "Look around", "CHILD"))
	})
	a := w.newAttempt("x", "go")
	_, err := a.run(t.Context(), w)
	if !errors.Is(err, boulder.ErrFatal) || !strings.Contains(err.Error(), "add credit with the provider") || w.asked() != 2 {
		t.Errorf("got %v after %d calls", err, w.asked())
	}
}
