package anthropic_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

// says is an answer with the given content blocks.
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
		add("effort", adaptertest.Has("output_config", "effort")(asked))
		add("temperature", asked["temperature"] != nil)
		add("room", asked["max_tokens"] == 16000.0)
		add("prompted", strings.Contains(fmt.Sprint(asked["system"]), "JSON Schema"))
		return strings.Join(features, " ")
	},
}

// The texts are those of the API and its imitations.
func TestStepsDownAndRemembers(t *testing.T) {
	t.Parallel()
	const everything = "schema effort temperature room"
	req := *adaptertest.Ask()
	req.Schema, req.Effort, req.Temperature = json.RawMessage(`{"type":"object"}`), "low", new(0.0)
	adaptertest.StepsDown(t, open, api, req, map[string]adaptertest.StepDown{
		"takes all": {Sent: []string{everything, everything}},
		"no structured output": {
			Rules: []adaptertest.Rule{
				adaptertest.Refusing("output_config.format: Extra inputs are not permitted", "output_config", "format"),
			},
			Sent: []string{everything, "tool effort temperature room", "tool effort temperature room"},
		},
		"nothing but text": {
			Rules: []adaptertest.Rule{
				adaptertest.Refusing("'m' does not support output format", "output_config", "format"),
				adaptertest.Refusing("tools: Extra inputs are not permitted", "tools"),
			},
			Sent: []string{everything, "tool effort temperature room", "effort temperature room prompted",
				"effort temperature room prompted"},
		},
		"no output_config at all": {
			Rules: []adaptertest.Rule{adaptertest.Refusing("output_config: Extra inputs are not permitted", "output_config")},
			Sent:  []string{everything, "tool effort temperature room", "tool temperature room", "tool temperature room"},
		},
		"no temperature": {
			Rules: []adaptertest.Rule{adaptertest.Refusing("`temperature` is deprecated for this model.", "temperature")},
			Sent:  []string{everything, "schema effort room", "schema effort room"},
		},
		"no effort": {
			Rules: []adaptertest.Rule{
				adaptertest.Refusing("This model does not support the effort parameter.", "output_config", "effort"),
			},
			Sent: []string{everything, "schema temperature room", "schema temperature room"},
		},
		"small answers": {
			Rules: []adaptertest.Rule{{
				Refuses: func(asked map[string]any) bool { return asked["max_tokens"].(float64) > 8192 },
				Text:    "max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens for m",
			}},
			Sent: []string{everything, "schema effort temperature", "schema effort temperature"},
		},
	})
}

func TestOther400sDoNotStepDown(t *testing.T) {
	t.Parallel()
	adaptertest.DoesNotStepDown(t, open, api.Picky(t,
		adaptertest.Refusing("messages: roles must alternate", "messages")))
}

// The schema goes out byte for byte, whichever way, and the tool's argument comes back as it is.
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
	if resp.Text != `{"reason":"r","done":true}` || resp.Stop != providers.StopEnd {
		t.Errorf("got %q, stop %s", resp.Text, resp.Stop)
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

// The SDK refuses high limits for calls that are not streamed, unless told how long to wait.
func TestHighOutputLimitIsSent(t *testing.T) {
	t.Parallel()
	server := api.Picky(t)
	req := adaptertest.Ask()
	req.MaxOutputTokens = 64_000
	if _, err := adaptertest.At(t, open, server).Complete(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if got := server.Asked()[0]["max_tokens"]; got != 64000.0 {
		t.Errorf("max_tokens %v", got)
	}
}

func TestUsageIncludesTheCache(t *testing.T) {
	t.Parallel()
	c := adaptertest.At(t, open, adaptertest.JSON(`{"type":"message","role":"assistant","model":"m",
		"content":[{"type":"text","text":"x"}],"stop_reason":"end_turn",
		"usage":{"input_tokens":5,"cache_read_input_tokens":100,"cache_creation_input_tokens":20,"output_tokens":9,
		"output_tokens_details":{"thinking_tokens":4}}}`))
	resp, err := c.Complete(t.Context(), adaptertest.Ask())
	if err != nil {
		t.Fatal(err)
	}
	want := boulder.Usage{Input: 125, CacheRead: 100, CacheWrite: 20, Output: 9, Reasoning: 4, Unpriced: 1}
	if diff := cmp.Diff(want, resp.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}
