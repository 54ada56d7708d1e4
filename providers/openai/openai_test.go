package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
	"github.com/bouldermgr/manager/providers/openai"
	"github.com/bouldermgr/manager/providers/providerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, param := range []openai.TokenParam{openai.MaxTokens, openai.MaxCompletionTokens} {
		t.Run(string(param), func(t *testing.T) {
			providerstest.Run(t, providerstest.Adapter{
				Provider: "local", Wire: wire,
				Open: opening(func(e *openai.Endpoint) { e.TokenParam = param }),
			})
		})
	}
}

var open = opening(func(*openai.Endpoint) {})

// opening returns an Open for a changed endpoint.
func opening(change func(*openai.Endpoint)) adaptertest.Open {
	return func(t testing.TB, baseURL string, key providers.Key, client *http.Client) providers.Completer {
		t.Helper()
		endpoint := openai.Endpoint{Name: "local", BaseURL: baseURL + "/v1", KeyEnv: "LOCAL_KEY"}
		change(&endpoint)
		c, err := openai.New(endpoint, key, openai.Options{HTTPClient: client})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

func FuzzAnswer(f *testing.F) {
	adaptertest.FuzzAnswer(f, open,
		fine,
		`{"choices":"none"}`,
		`{"choices":[{"message":{"content":[1]}}],"usage":[]}`,
		`[{"error":{"code":503,"message":{"a":1}}}]`,
	)
}

const fine = `{"model":"m","choices":[{"message":{"role":"assistant","content":"{}"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`

var api = adaptertest.API{
	Refusal: func(text string) string { return fmt.Sprintf(`{"error":{"message":%q}}`, text) },
	Answer:  func(map[string]any) string { return fine },
	Features: func(asked map[string]any) string {
		format, _ := asked["response_format"].(map[string]any)
		form := fmt.Sprint(format["type"])
		if strings.Contains(fmt.Sprint(asked["messages"]), "verdict") {
			form += " prompted"
		}
		return form
	},
}

// Servers without response formats cost three requests once, then one. The prompt has the schema instead.
func TestStepsDownAndRemembers(t *testing.T) {
	t.Parallel()
	req := *adaptertest.Ask()
	req.Schema = json.RawMessage(`{"type":"object","title":"verdict"}`)
	adaptertest.StepsDown(t, open, api, req, map[string]adaptertest.StepDown{
		"takes all": {Sent: []string{"json_schema", "json_schema"}},
		"old": {
			Rules: []adaptertest.Rule{
				adaptertest.Refusing("Unrecognized request argument: response_format", "response_format"),
			},
			Sent: []string{"json_schema", "json_object prompted", "<nil> prompted", "<nil> prompted"},
		},
	})
}

// go-openai refuses parameters by model name before it sends anything. An optional parameter must not become an error.
func TestParametersByModelName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		model string
		param openai.TokenParam
		sent  string // which of the two parameters
	}{
		{"llama", openai.MaxTokens, "max_tokens:100"},
		{"grok", openai.MaxCompletionTokens, "max_completion_tokens:100"},
		{"gpt-5.4-mini", openai.MaxCompletionTokens, "max_completion_tokens:100"},
		{"o3-local", openai.MaxTokens, "max_completion_tokens:100"},
		{"gpt-6-luna", openai.MaxTokens, "max_completion_tokens:100"},
	} {
		server := api.Picky(t)
		c := adaptertest.At(t, opening(func(e *openai.Endpoint) { e.TokenParam = tt.param }), server)
		req := adaptertest.Ask()
		req.Model, req.MaxOutputTokens = tt.model, 100
		if _, err := c.Complete(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		sent := server.Asked[0]
		maps.DeleteFunc(sent, func(name string, _ any) bool { return !strings.HasPrefix(name, "max") })
		if got := fmt.Sprint(sent); got != "map["+tt.sent+"]" {
			t.Errorf("%s: sent %s, want %s", tt.model, got, tt.sent)
		}
	}
}

// OpenAI includes reasoning in the output tokens, as in the conformance tests; xAI counts it separately.
func TestUsage(t *testing.T) {
	t.Parallel()
	for usage, want := range map[string]boulder.Usage{
		`{"prompt_tokens":10,"completion_tokens":50,"total_tokens":100,"completion_tokens_details":{"reasoning_tokens":40}}`: {
			Input: 10, Output: 90, Reasoning: 40, Unpriced: 1,
		},
		`{"prompt_tokens":10,"completion_tokens":50,"total_tokens":60}`: {Input: 10, Output: 50, Unpriced: 1},
		`null`: {},
	} {
		c := adaptertest.At(t, open, adaptertest.JSON(
			`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":`+usage+`}`))
		if resp, err := c.Complete(t.Context(), adaptertest.Ask()); err != nil || resp.Usage != want {
			t.Errorf("%s: %+v, %v", usage, resp, err)
		}
	}
}

// Ollama truncates a prompt to its default context, and answers without an error.
func TestSilentlyCutPrompt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		letters, counted int
		cut              bool
	}{{60_000, 4096, true}, {60_000, 15_000, false}, {60_000, 0, false}, {6_000, 1_400, false}} {
		c := adaptertest.At(t, open, adaptertest.JSON(fmt.Sprintf(
			`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],
			"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d}}`, tt.counted, tt.counted+1)))
		req := adaptertest.Ask()
		req.Messages[0].Text = strings.Repeat("word ", tt.letters/4)
		_, err := c.Complete(t.Context(), req)
		failure, failed := errors.AsType[*providers.Error](err)
		if failed != tt.cut || failed && failure.Kind != providers.KindContextLength {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// A base URL may end with a slash. That this server labels its answer as plain text does not matter.
func TestBaseURLWithSlash(t *testing.T) {
	t.Parallel()
	slashed := opening(func(e *openai.Endpoint) { e.BaseURL += "/" })
	c := adaptertest.At(t, slashed, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" {
			t.Errorf("path %s", r.URL.Path)
		}
		_, _ = w.Write([]byte(fine))
	}))
	if _, err := c.Complete(t.Context(), adaptertest.Ask()); err != nil {
		t.Error(err)
	}
}

// Error forms that were seen from servers of this family.
func TestErrorForms(t *testing.T) {
	t.Parallel()
	adaptertest.ErrorForms(t, open, map[string]adaptertest.ErrorForm{
		"xAI: error is a string, wrong key is a 400": {
			Status: 400, Body: `{"code":"Client specified an invalid argument",
				"error":"Incorrect API key provided: xa***yz."}`,
			Kind: providers.KindAuth, WantText: "Incorrect API key",
		},
		"vLLM: flat, code is a number": {
			Status: 400, Body: `{"object":"error","message":"This model's maximum context length is 8192 tokens.",
				"type":"BadRequestError","param":null,"code":400}`,
			Kind: providers.KindContextLength, WantText: "8192",
		},
		"OpenRouter: upstream error inside of a 200": {
			Status: 200, Body: `{"error":{"message":"Provider returned error","code":502}}`,
			Kind: providers.KindNetwork, WantStatus: 502, WantText: "Provider returned error",
		},
		"OpenRouter: rate limit inside of a 200": {
			Status: 200, Body: `{"error":{"message":"slow down","code":429}}`, Header: map[string]string{"Retry-After": "7"},
			Kind: providers.KindRateLimit, WantStatus: 429, WantText: "slow down", RetryAfter: 7 * time.Second,
		},
		"OpenAI: code null, wait in milliseconds": {
			Status: 429, Body: `{"error":{"message":"slow down","type":"requests","param":null,"code":null}}`,
			Header: map[string]string{"Retry-After-Ms": "1500"},
			Kind:   providers.KindRateLimit, WantText: "slow down", RetryAfter: 1500 * time.Millisecond,
		},
		"Gemini's compatible endpoint: a list around the error": {
			Status: 400, Body: `[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.",
				"status":"INVALID_ARGUMENT"}}]`,
			Kind: providers.KindAuth, WantText: "API key not valid",
		},
		"FastAPI: detail": {
			Status: 404, Body: `{"detail":"Not Found"}`,
			Kind: providers.KindBadRequest, WantText: "Not Found",
		},
		"no choices": {
			Status: 200, Body: `{"id":"x","object":"chat.completion","choices":[]}`,
			Kind: providers.KindNetwork, WantText: "no choices",
		},
		"empty body": {
			Status: 200, Body: ``, Kind: providers.KindNetwork, WantText: "cannot be read",
		},
		"plain text": {
			Status: 418, Type: "text/plain", Body: "short and stout",
			Kind: providers.KindBadRequest, WantText: "short and stout",
		},
	})
}

func TestFinishReasons(t *testing.T) {
	t.Parallel()
	says := func(choice string) string {
		return `{"choices":[` + choice + `],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`
	}
	adaptertest.Ends(t, open, map[string]adaptertest.End{
		"stop":   {Body: says(`{"message":{"content":"{}"},"finish_reason":"stop"}`)},
		"others": {Body: says(`{"message":{"content":"{}"},"finish_reason":"eos"}`)},
		"limit": {
			Body: says(`{"message":{"content":"{"},"finish_reason":"length"}`), Kind: providers.KindTruncated,
		},
		"refusal": {
			Body: says(`{"message":{"content":null,"refusal":"I can't help with that."},"finish_reason":"stop"}`),
			Kind: providers.KindContentFilter,
		},
		"filter": {
			Body: says(`{"message":{"content":""},"finish_reason":"content_filter"}`),
			Kind: providers.KindContentFilter,
		},
	})
}

// A redirect would send the key to any host that the first server names; the adapter package tests more cases.
func TestRedirectToAnotherHostIsRefused(t *testing.T) {
	t.Parallel()
	thief := adaptertest.Trap(t)
	c := adaptertest.At(t, open, http.RedirectHandler(
		thief+"/v1/chat/completions?session=private", http.StatusTemporaryRedirect))
	failure := adaptertest.Fails(t, c, adaptertest.Ask())
	if failure.Kind != providers.KindBadRequest || !strings.Contains(failure.Error(), thief) ||
		strings.Contains(failure.Message, "private") {
		t.Errorf("kind %s: %v", failure.Kind, failure)
	}
}

func TestAnswerWithoutEndIsRefused(t *testing.T) {
	t.Parallel()
	c := adaptertest.At(t, open, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 20<<20))
	}))
	if failure := adaptertest.Fails(t, c, adaptertest.Ask()); failure.Kind != providers.KindBadRequest {
		t.Errorf("kind %s: %v", failure.Kind, failure)
	}
}

func TestSourcesFromEnvironment(t *testing.T) {
	t.Parallel()
	local := openai.Endpoint{Name: "ollama", BaseURL: "http://127.0.0.1:11434/v1"}
	keyed := openai.Endpoint{Name: "router", BaseURL: "https://router.example/v1", KeyEnv: "ROUTER_KEY"}
	for name, tt := range map[string]struct {
		env       map[string]string
		endpoints []openai.Endpoint
		names     []string
	}{
		"nothing":                {},
		"openai":                 {map[string]string{"OPENAI_API_KEY": "k"}, nil, []string{"openai"}},
		"xai":                    {map[string]string{"XAI_API_KEY": "k"}, nil, []string{"xai"}},
		"blank and others' keys": {env: map[string]string{"OPENAI_API_KEY": " \n", "GEMINI_API_KEY": "k"}},
		"endpoints": {
			map[string]string{"ROUTER_KEY": "k"}, []openai.Endpoint{keyed, local}, []string{"router", "ollama"},
		},
	} {
		sources := []providers.Source{openai.Source(adaptertest.Env(tt.env), openai.Options{}), openai.XAI(openai.Options{})}
		for _, e := range tt.endpoints {
			sources = append(sources, e.Source(openai.Options{}))
		}
		r, err := providers.NewRegistry(providers.RegistryConfig{Getenv: adaptertest.Env(tt.env)}, sources...)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(r.Names(), tt.names) {
			t.Errorf("%s: %v are available", name, r.Names())
		}
	}
}

// From a reference to the request, with the address from the environment.
func TestRegistryToWire(t *testing.T) {
	t.Parallel()
	url, seen := adaptertest.Seen(t, fine)
	env := adaptertest.Env(map[string]string{"OPENAI_API_KEY": "key-from-env\n", "OPENAI_BASE_URL": url + "/v1"})
	source := openai.Source(env, openai.Options{HTTPClient: adaptertest.HTTPClient(t)})
	adaptertest.ByName(t, env, "openai/o-1", source)
	if path, auth := seen.URL.Path, seen.Header.Get("Authorization"); path != "/v1/chat/completions" ||
		auth != "Bearer key-from-env" {
		t.Errorf("path %q, authorization %q", path, auth)
	}
}

func TestEndpointValidation(t *testing.T) {
	t.Parallel()
	good := openai.Endpoint{Name: "local", BaseURL: "http://localhost/v1"}
	if err := good.Validate(); err != nil {
		t.Errorf("a good endpoint: %v", err)
	}
	for want, spoil := range map[string]func(*openai.Endpoint){
		"no name":            func(e *openai.Endpoint) { e.Name = "" },
		"whole address":      func(e *openai.Endpoint) { e.BaseURL = "localhost:8080" },
		"password":           func(e *openai.Endpoint) { e.BaseURL = "https://user:pw@host/v1" },
		"query":              func(e *openai.Endpoint) { e.BaseURL = "https://host/v1?key=1" },
		"structured is":      func(e *openai.Endpoint) { e.Structured = "xml" },
		"token_param is":     func(e *openai.Endpoint) { e.TokenParam = "tokens" },
		"must be a whole ad": func(e *openai.Endpoint) { e.BaseURL = "" },
	} {
		endpoint := good
		spoil(&endpoint)
		_, err := endpoint.Source(openai.Options{}).Open(providers.Key{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// An answer that is there is read, wherever the server puts it and whatever it makes of fields that nobody needs.
func TestAnswersAreReadWhereverTheyAre(t *testing.T) {
	t.Parallel()
	const told = `,"usage":{"prompt_tokens":10,"completion_tokens":2}`
	for name, tt := range map[string]struct{ message, rest string }{
		"parts":                   {`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"{\"a\":1}"}]}`, told},
		"one part":                {`{"content":{"type":"text","text":"{\"a\":1}"}}`, told},
		"strings in parts":        {`{"content":["{\"a\"",":1}"]}`, told},
		"reasoning alone":         {`{"content":null,"reasoning_content":"{\"a\":1}"}`, told},
		"reasoning of OpenRouter": {`{"content":"","reasoning":"{\"a\":1}"}`, told},
		"a tool call":             {`{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}`, told},
		"a tool call's object":    {`{"tool_calls":[{"function":{"arguments":{"a":1}}}]}`, told},
		"a function call":         {`{"function_call":{"name":"f","arguments":"{\"a\":1}"}}`, told},
		"created is a fraction":   {`{"content":"{\"a\":1}"}`, `,"created":1764374400.5` + told},
		"usage in strings":        {`{"content":"{\"a\":1}"}`, `,"usage":{"prompt_tokens":"10","completion_tokens":"2"}`},
		"usage in fractions":      {`{"content":"{\"a\":1}"}`, `,"usage":{"prompt_tokens":10.0,"completion_tokens":2e0}`},
		"odd fields": {
			`{"content":"{\"a\":1}","annotations":{},"audio":1,"role":null}`, `,"id":7,"object":null,"system_fingerprint":{}` + told,
		},
	} {
		body := `{"model":"m","choices":[{"index":"0","finish_reason":"stop","message":` + tt.message + `}]` + tt.rest + `}`
		resp, err := adaptertest.At(t, open, adaptertest.JSON(body)).Complete(t.Context(), adaptertest.Ask())
		if err != nil || resp.Text != `{"a":1}` || resp.Usage.Input != 10 || resp.Usage.Output != 2 {
			t.Errorf("%s: %+v, %v", name, resp, err)
		}
	}
	failure := adaptertest.Fails(t, adaptertest.At(t, open, adaptertest.JSON(
		`{"choices":[{"finish_reason":"stop","message":{"content":7}}]`+told+`}`)), adaptertest.Ask())
	if !strings.Contains(failure.Error(), "content") {
		t.Errorf("the field is not named: %v", failure)
	}
}

// An outage that a gateway reports as a success is a fault, which passes, and no answer of a bad model.
func TestOutageAsSuccess(t *testing.T) {
	t.Parallel()
	for name, choice := range map[string]string{
		"a reason":                           `{"finish_reason":"error","message":{"content":""}}`,
		"a reason in the middle of the text": `{"finish_reason":"error","message":{"content":"{"}}`,
		"nothing":                            `{"finish_reason":"stop","message":{"content":null}}`,
		"no message":                         `{"finish_reason":"stop"}`,
		"its own error":                      `{"finish_reason":"error","message":{"content":""},"error":{"code":502,"message":"upstream"}}`,
	} {
		c := adaptertest.At(t, open, adaptertest.JSON(`{"model":"m","choices":[`+choice+`]}`))
		if failure := adaptertest.Fails(t, c, adaptertest.Ask()); failure.Kind != providers.KindNetwork || !failure.Retryable() {
			t.Errorf("%s: %s: %v", name, failure.Kind, failure)
		}
	}
}

// No count can make a budget grow, or wrap around; the log says that it was refused.
func TestImpossibleUsageDoesNotCount(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	logging := func(t testing.TB, baseURL string, key providers.Key, client *http.Client) providers.Completer {
		c, err := openai.New(openai.Endpoint{Name: "local", BaseURL: baseURL}, key,
			openai.Options{HTTPClient: client, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, counts := range []string{`-5000000000`, `9223372036854775807`, `1e300`, `"-1"`, `"many"`} {
		body := `{"model":"m","choices":[{"finish_reason":"stop","message":{"content":"{}"}}],"usage":{"prompt_tokens":` +
			counts + `,"completion_tokens":` + counts + `,"total_tokens":` + counts + `}}`
		resp, err := adaptertest.At(t, logging, adaptertest.JSON(body)).Complete(t.Context(), adaptertest.Ask())
		if err != nil || resp.Usage != (boulder.Usage{}) || !strings.Contains(logged.String(), "impossible usage") {
			t.Errorf("%s: %+v, %v; logged: %s", counts, resp, err, logged.String())
		}
		logged.Reset()
	}
}
