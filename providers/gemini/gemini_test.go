package gemini_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/gemini"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
	"github.com/bouldermgr/manager/providers/providerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	providerstest.Run(t, providerstest.Adapter{
		Provider: "google", Wire: wire, Open: open,
	})
}

var open = adaptertest.With(gemini.New)

func FuzzAnswer(f *testing.F) {
	adaptertest.FuzzAnswer(f, open,
		says("STOP", `{"text":"x"}`),
		`{"candidates":"none"}`,
		`{"candidates":[{"content":{"parts":{"a":1}}}],"usageMetadata":[]}`,
		`[{"error":{"code":503,"details":[{"violations":[7]}]}}]`,
	)
}

func says(finish, parts string) string {
	return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[%s]},"finishReason":%q}],"modelVersion":"m-1",
		"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":3,"totalTokenCount":10}}`, parts, finish)
}

var api = adaptertest.API{
	Refusal: func(text string) string {
		return fmt.Sprintf(`{"error":{"code":400,"message":%q,"status":"INVALID_ARGUMENT"}}`, text)
	},
	Answer: func(map[string]any) string { return says("STOP", `{"text":"{}"}`) },
	Features: func(asked map[string]any) string {
		var names []string
		for _, name := range []string{"responseJsonSchema", "responseMimeType", "thinkingConfig"} {
			if adaptertest.Has("generationConfig", name)(asked) {
				names = append(names, name)
			}
		}
		if strings.Contains(fmt.Sprint(asked["systemInstruction"]), "JSON Schema") {
			names = append(names, "prompted")
		}
		return strings.Join(names, " ")
	},
}

func refusing(text, name string) []adaptertest.Rule {
	return []adaptertest.Rule{adaptertest.Refusing(text, "generationConfig", name)}
}

func TestStepsDownAndRemembers(t *testing.T) {
	t.Parallel()
	const everything = "responseJsonSchema responseMimeType"
	req := *adaptertest.Ask()
	adaptertest.StepsDown(t, open, api, req, map[string]adaptertest.StepDown{
		"takes all": {Sent: []string{everything, everything}},
		"no schema": {
			Rules: refusing(`Unknown name "responseJsonSchema" at 'generation_config'`, "responseJsonSchema"),
			Sent:  []string{everything, "responseMimeType prompted", "responseMimeType prompted"},
		},
		"Gemma": {
			Rules: refusing("JSON mode is not enabled for models/gemma-3-27b-it", "responseMimeType"),
			Sent:  []string{everything, "prompted", "prompted"},
		},
	})
}

// The SDK would sort the properties of the schema, but the model answers in their order.
func TestParametersOnTheWire(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"reason":{"type":"string"},"done":{"type":"boolean"}},` +
		`"required":["reason","done"],"additionalProperties":false}`
	for want, change := range map[string]func(*providers.Request){
		`"responseJsonSchema":` + schema:        func(r *providers.Request) { r.Schema = json.RawMessage(schema) },
		`"responseMimeType":"application/json"`: func(r *providers.Request) { r.Schema = json.RawMessage(schema) },
		`"maxOutputTokens":2147483647`:          func(r *providers.Request) { r.MaxOutputTokens = 1 << 40 },
	} {
		var body []byte
		c := adaptertest.At(t, open, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ = io.ReadAll(r.Body)
			adaptertest.JSON(says("STOP", `{"text":"{}"}`))(w, r)
		}))
		req := adaptertest.Ask()
		change(req)
		if _, err := c.Complete(t.Context(), req); err != nil || !bytes.Contains(body, []byte(want)) {
			t.Errorf("%s is not in %s, %v", want, body, err)
		}
	}
}

// Thoughts and unknown parts are not in the answer, and the SDK logs nothing. Not parallel: it redirects the log.
func TestTextWithoutThoughts(t *testing.T) {
	var printed bytes.Buffer
	log.SetOutput(&printed)
	t.Cleanup(func() { log.SetOutput(io.Discard) })
	c := adaptertest.At(t, open, adaptertest.JSON(says("STOP", `{"text":"I wonder","thought":true},{"text":"{\"a\":"},
		{"functionCall":{"name":"f","args":{}}},{"text":"1}","thoughtSignature":"c2ln"},{"thoughtSignature":"c2ln"},
		{"fromTomorrow":{"x":1}}`)))
	resp, err := c.Complete(t.Context(), adaptertest.Ask())
	if err != nil || resp.Text != `{"a":1}` {
		t.Errorf("got %+v, %v", resp, err)
	}
	if printed.Len() > 0 {
		t.Errorf("printed: %s", &printed)
	}
}

func TestErrorForms(t *testing.T) {
	t.Parallel()
	status := func(code, status, text, details string) string {
		return fmt.Sprintf(`{"error":{"code":%s,"message":%q,"status":%q,"details":[%s]}}`, code, text, status, details)
	}
	const retryInfo = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37.5s"}`
	const quota = "You exceeded your current quota, please check your plan and billing details."
	adaptertest.ErrorForms(t, open, map[string]adaptertest.ErrorForm{
		"not allowed": {
			Status: 403, Body: status("403", "PERMISSION_DENIED", "no access to this model", ""),
			Kind: providers.KindAuth, WantText: "no access",
		},
		"limit per minute": {
			Status: 429, Body: status("429", "RESOURCE_EXHAUSTED", quota, retryInfo+
				`,{"violations":[{"quotaId":"GenerateContentInputTokensPerModelPerMinute-FreeTier"}]}`),
			Kind: providers.KindRateLimit, WantText: "RESOURCE_EXHAUSTED", RetryAfter: 37500 * time.Millisecond,
		},
		"the longer of two waits": {
			Status: 429, Body: status("429", "RESOURCE_EXHAUSTED", quota, retryInfo),
			Header: map[string]string{"Retry-After": "50"},
			Kind:   providers.KindRateLimit, WantText: "quota", RetryAfter: 50 * time.Second,
		},
		"limit per day": {
			Status: 429, Body: status("429", "RESOURCE_EXHAUSTED", quota, retryInfo+
				`,{"violations":[{"quotaId":"PerMinute"},{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}`),
			Kind: providers.KindQuota, WantText: "quota", RetryAfter: 37500 * time.Millisecond,
		},
		"model is not in the tier": {
			Status: 429, Body: status("429", "RESOURCE_EXHAUSTED", quota+
				" * Quota exceeded for metric: free_tier_requests, limit: 0, model: gemini-pro", retryInfo),
			Kind: providers.KindQuota, WantText: "limit: 0", RetryAfter: 37500 * time.Millisecond,
		},
		"overloaded inside of a 200, with a list around it": {
			Status: 200, Body: "[" + status("503", "UNAVAILABLE", "The model is overloaded.", "") + "]",
			Kind: providers.KindOverloaded, WantStatus: 503, WantText: "UNAVAILABLE",
		},
		"error inside of a 200": {
			Status: 200, Body: status("429", "RESOURCE_EXHAUSTED", "slow down", retryInfo),
			Kind: providers.KindRateLimit, WantStatus: 429, WantText: "slow down", RetryAfter: 37500 * time.Millisecond,
		},
		"details of unknown forms": {
			Status: 500, Body: status("500", "INTERNAL", "oops", `{"reason":7,"violations":{"a":1}},{"retryDelay":"soon"}`),
			Kind: providers.KindNetwork, WantText: "oops",
		},
		"no candidates": {Status: 200, Body: `{"modelVersion":"m"}`, Kind: providers.KindNetwork, WantText: "no candidates"},
		// The SDK panics at this one.
		"another type": {
			Status: 200, Body: `{"candidates":"none"}`, Kind: providers.KindNetwork, WantText: "cannot be read",
		},
	})
}

func TestFinishReasons(t *testing.T) {
	t.Parallel()
	filtered := func(body string) adaptertest.End {
		return adaptertest.End{Body: body, Kind: providers.KindContentFilter}
	}
	cut := func(body string) adaptertest.End {
		return adaptertest.End{Body: body, Kind: providers.KindTruncated}
	}
	adaptertest.Ends(t, open, map[string]adaptertest.End{
		"stop":             {Body: says("STOP", `{"text":"{}"}`)},
		"stop, no parts":   {Body: says("STOP", ``)},
		"from tomorrow":    {Body: says("FROM_TOMORROW", `{"text":"{}"}`)},
		"limit":            cut(says("MAX_TOKENS", `{"text":"{"}`)),
		"limit, no parts":  cut(says("MAX_TOKENS", ``)),
		"to be continued":  cut(says("CONTINUATION", `{"text":"{"}`)),
		"safety":           filtered(says("SAFETY", ``)),
		"recitation":       filtered(says("RECITATION", `{"text":"It was the"}`)),
		"prohibited":       filtered(says("PROHIBITED_CONTENT", ``)),
		"personal numbers": filtered(says("SPII", ``)),
		"limit, no content": cut(`{"candidates":[{"finishReason":"MAX_TOKENS"}],
			"usageMetadata":{"promptTokenCount":7,"thoughtsTokenCount":3}}`),
		"prompt": filtered(`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":10}}`),
	})
}

// The SDK refuses some model names before it sends anything. That is not retryable.
func TestModelNameThatIsNotSent(t *testing.T) {
	t.Parallel()
	c := open(t, adaptertest.Trap(t), providers.NewKey("k"), adaptertest.HTTPClient(t))
	for _, model := range []string{"", "a?key=b", "../../etc"} {
		req := adaptertest.Ask()
		req.Model = model
		if failure := adaptertest.Fails(t, c, req); failure.Kind != providers.KindBadRequest {
			t.Errorf("%q: kind %s: %v", model, failure.Kind, failure)
		}
	}
}

// The SDK's own environment variables have no effect on a request. Not parallel: it sets them.
func TestRegistryToWire(t *testing.T) {
	thief := adaptertest.Trap(t)
	for name, value := range map[string]string{
		"GOOGLE_GEMINI_BASE_URL": thief, "GOOGLE_VERTEX_BASE_URL": thief, "GOOGLE_API_KEY": "of-the-process",
		"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_GENAI_USE_ENTERPRISE": "1", "GOOGLE_CLOUD_PROJECT": "p",
		"GOOGLE_CLOUD_LOCATION": "us",
	} {
		t.Setenv(name, value)
	}
	url, seen := adaptertest.Seen(t, says("STOP", `{"text":"yes"}`))
	getenv := adaptertest.Env(map[string]string{"GEMINI_API_KEY": "given\n", "GOOGLE_GEMINI_BASE_URL": url})
	resp := adaptertest.ByName(t, getenv, "google/g-1",
		gemini.Source(getenv, gemini.Options{HTTPClient: adaptertest.HTTPClient(t)}))
	if resp.Text != "yes" || resp.Provider != "google" || resp.Model != "m-1" {
		t.Errorf("got %+v", resp)
	}
	path, key := seen.URL.String(), seen.Header.Get("X-Goog-Api-Key")
	if path != "/v1beta/models/g-1:generateContent" || key != "given" {
		t.Errorf("path %s, key %s", path, key)
	}
}

func TestNewRefusesNoKey(t *testing.T) {
	t.Parallel()
	_, err := gemini.New(providers.Key{}, gemini.Options{})
	if err == nil || !strings.Contains(err.Error(), "GEMINI_API_KEY") {
		t.Errorf("no key: %v", err)
	}
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	adaptertest.BaseURLWithSlash(t, open, "/v1beta/models/m:generateContent", says("STOP", `{"text":"yes"}`))
	adaptertest.BadBaseURLs(t, func(address string) error {
		_, err := gemini.New(providers.NewKey("k"), gemini.Options{BaseURL: address})
		return err
	})
}
