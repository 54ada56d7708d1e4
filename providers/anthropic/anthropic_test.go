package anthropic_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/anthropic"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
	"github.com/bouldermgr/manager/providers/providerstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	t.Parallel()
	providerstest.Run(t, providerstest.Adapter{
		Provider: "anthropic", Wire: wire, Open: open,
	})
}

var open = adaptertest.With(anthropic.New)

func FuzzAnswer(f *testing.F) {
	adaptertest.FuzzAnswer(f, open,
		says("end_turn", `{"type":"text","text":"x"}`),
		`{"type":"error","error":{"type":"overloaded_error"}}`,
		`{"type":"message","stop_reason":"end_turn","content":{"a":1},"usage":[]}`,
		`[]`,
	)
}

func says(stop, content string) string {
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[%s],"stop_reason":%q,
		"usage":{"input_tokens":7,"output_tokens":3}}`, content, stop)
}

var api = adaptertest.API{
	Refusal: func(text string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":"invalid_request_error","message":%q}}`, text)
	},
	Answer: func(asked map[string]any) string {
		if asked["tools"] != nil {
			return says("end_turn", `{"type":"tool_use","id":"t","name":"answer","input":{"from":"tool"}}`)
		}
		return says("end_turn", `{"type":"text","text":"{}"}`)
	},
	Features: func(asked map[string]any) string {
		var features []string
		add := func(name string, wanted bool) {
			if wanted {
				features = append(features, name)
			}
		}
		add("schema", adaptertest.Has("output_config", "format")(asked))
		add("tool", asked["tools"] != nil)
		add("room", asked["max_tokens"] == 16000.0)
		add("prompted", strings.Contains(fmt.Sprint(asked["system"]), "JSON Schema"))
		return strings.Join(features, " ")
	},
}

// The texts are those of the API and its imitations.
func TestStepsDownAndRemembers(t *testing.T) {
	t.Parallel()
	const everything = "schema room"
	req := *adaptertest.Ask()
	adaptertest.StepsDown(t, open, api, req, map[string]adaptertest.StepDown{
		"takes all": {Sent: []string{everything, everything}},
		"no structured output": {
			Rules: []adaptertest.Rule{
				adaptertest.Refusing("output_config.format: Extra inputs are not permitted", "output_config", "format"),
			},
			Sent: []string{everything, "tool room", "tool room"},
		},
		"nothing but text": {
			Rules: []adaptertest.Rule{
				adaptertest.Refusing("'m' does not support output format", "output_config", "format"),
				adaptertest.Refusing("tools: Extra inputs are not permitted", "tools"),
			},
			Sent: []string{everything, "tool room", "room prompted", "room prompted"},
		},
		"no output_config at all": {
			Rules: []adaptertest.Rule{adaptertest.Refusing("output_config: Extra inputs are not permitted", "output_config")},
			Sent:  []string{everything, "tool room", "tool room"},
		},
		"small answers": {
			Rules: []adaptertest.Rule{{
				Refuses: func(asked map[string]any) bool { return asked["max_tokens"].(float64) > 8192 },
				Text:    "max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens for m",
			}},
			Sent: []string{everything, "schema", "schema"},
		},
	})
}

// The schema is sent byte for byte, in either form, and the tool's argument is returned unchanged.
func TestSchemaAndToolVerbatim(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"reason":{"type":"string"},"done":{"type":"boolean"}},` +
		`"required":["reason","done"],"additionalProperties":false}`
	var bodies [][]byte
	c := adaptertest.At(t, open, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, body)
		w.Header().Set("Content-Type", "application/json")
		if bytes.Contains(body, []byte(`"output_config"`)) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":{"type":"invalid_request_error","message":"output_config: unknown"}}`))
			return
		}
		_, _ = w.Write([]byte(says("tool_use", `{"type":"text","text":"Here: "},
			{"type":"tool_use","id":"t","name":"verdict","input":{"reason":"r","done":true}}`)))
	}))
	req := adaptertest.Ask()
	req.Schema, req.SchemaName = json.RawMessage(schema), "verdict"
	resp, err := c.Complete(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Text != `{"reason":"r","done":true}` {
		t.Errorf("got %q", resp.Text)
	}
	for i, want := range []string{
		`"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}`,
		`"input_schema":` + schema,
	} {
		if !bytes.Contains(bodies[i], []byte(want)) {
			t.Errorf("request %d does not contain %s:\n%s", i, want, bodies[i])
		}
	}
	if !bytes.Contains(bodies[1], []byte(`"strict":true`)) || !bytes.Contains(bodies[1], []byte(`"type":"tool"`)) {
		t.Errorf("the tool is not forced and strict: %s", bodies[1])
	}
}

// The SDK refuses high limits for calls that are not streamed, unless a timeout is set.
func TestHighOutputLimitIsSent(t *testing.T) {
	t.Parallel()
	server := api.Picky(t)
	req := adaptertest.Ask()
	req.MaxOutputTokens = 64_000
	if _, err := adaptertest.At(t, open, server).Complete(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if got := server.Asked[0]["max_tokens"]; got != 64000.0 {
		t.Errorf("max_tokens %v", got)
	}
}

func TestUsageIncludesTheCache(t *testing.T) {
	t.Parallel()
	c := adaptertest.At(t, open, adaptertest.JSON(`{"type":"message","role":"assistant","model":"m",
		"content":[{"type":"text","text":"x"}],"stop_reason":"end_turn",
		"usage":{"input_tokens":5,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":9,
		"output_tokens_details":{"thinking_tokens":4}}}`))
	want := boulder.Usage{Input: 125, CacheRead: 100, CacheWrite: 20, Output: 9, Reasoning: 4, Unpriced: 1}
	if resp, err := c.Complete(t.Context(), adaptertest.Ask()); err != nil || resp.Usage != want {
		t.Errorf("%+v, %v", resp, err)
	}
}

func TestErrorForms(t *testing.T) {
	t.Parallel()
	adaptertest.ErrorForms(t, open, map[string]adaptertest.ErrorForm{
		"overloaded after the 200": {
			Status: 200, Body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			Kind: providers.KindOverloaded, WantStatus: 529, WantText: "overloaded_error",
		},
		"rate limit after the 200": {
			Status: 200, Body: `{"type":"error","error":{"type":"rate_limit_error","message":"later"}}`,
			Kind: providers.KindRateLimit, WantStatus: 429, WantText: "later",
		},
		"not allowed, after the 200": {
			Status: 200, Body: `{"type":"error","error":{"type":"permission_error","message":"no"}}`,
			Kind: providers.KindAuth, WantStatus: 403, WantText: "permission_error",
		},
		"another API": {
			Status: 200, Body: `{"choices":[]}`, Kind: providers.KindNetwork, WantText: "no message",
		},
		"empty": {Status: 200, Kind: providers.KindNetwork, WantText: "no usable answer"},
		"fields of other types": {
			Status: 429, Body: `{"error":{"type":7,"message":"slow down"}}`,
			Kind: providers.KindRateLimit, WantText: "slow down",
		},
		"a string": {Status: 403, Body: `{"error":"Request not allowed"}`, Kind: providers.KindAuth, WantText: "not allowed"},
	})
}

func TestStopReasons(t *testing.T) {
	t.Parallel()
	ends := map[string]adaptertest.End{
		"end_turn": {}, "stop_sequence": {}, "pause_turn": {}, "from_tomorrow": {},
		"max_tokens": {Kind: providers.KindTruncated}, "refusal": {Kind: providers.KindContentFilter},
		"model_context_window_exceeded": {Kind: providers.KindContextLength},
	}
	for reason, end := range ends {
		end.Body = says(reason, `{"type":"text","text":"{"}`)
		ends[reason] = end
	}
	adaptertest.Ends(t, open, ends)
}

// The SDK's own environment variables have no effect on a request. Not parallel: it sets them.
func TestRegistryToWire(t *testing.T) {
	for name, value := range map[string]string{
		"ANTHROPIC_BASE_URL": adaptertest.Trap(t), "ANTHROPIC_API_KEY": "of-the-process", "ANTHROPIC_AUTH_TOKEN": "token",
		"ANTHROPIC_PROFILE": "nobody", "ANTHROPIC_CUSTOM_HEADERS": "X-Extra: 1",
	} {
		t.Setenv(name, value)
	}
	url, seen := adaptertest.Seen(t, says("end_turn", `{"type":"text","text":"yes"}`))
	getenv := adaptertest.Env(map[string]string{"ANTHROPIC_API_KEY": "given\n", "ANTHROPIC_BASE_URL": url})
	resp := adaptertest.ByName(t, getenv, "anthropic/c-1",
		anthropic.Source(getenv, anthropic.Options{HTTPClient: adaptertest.HTTPClient(t)}))
	if resp.Text != "yes" || resp.Provider != "anthropic" || resp.Model != "m-1" {
		t.Errorf("got %+v", resp)
	}
	if h := seen.Header; h.Get("X-Api-Key") != "given" || h.Get("Authorization") != "" || h.Get("X-Extra") != "" {
		t.Errorf("headers %v", h)
	}
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	adaptertest.BaseURLWithSlash(t, open, "/v1/messages", says("end_turn", `{"type":"text","text":"yes"}`))
	adaptertest.BadBaseURLs(t, func(address string) error {
		_, err := anthropic.New(providers.NewKey("k"), anthropic.Options{BaseURL: address})
		return err
	})
}
