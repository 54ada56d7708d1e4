package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
	"github.com/bouldermgr/manager/providers/openai"
)

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

// Servers that know neither form cost three requests once and one from then on. Where the endpoint does not know the
// schema, the model has to.
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

func TestOther400sDoNotStepDown(t *testing.T) {
	t.Parallel()
	adaptertest.DoesNotStepDown(t, open,
		api.Picky(t, adaptertest.Refusing("unknown parameter: messages", "messages")))
}

// go-openai refuses parameters by model name before it sends anything; a wish must not become an error.
func TestParametersByModelName(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		model string
		param openai.TokenParam
		sent  string // which of the three parameters
	}{
		"plain model":             {"llama", openai.MaxTokens, "max_tokens temperature"},
		"newer parameter":         {"grok", openai.MaxCompletionTokens, "max_completion_tokens temperature"},
		"reasoning model":         {"gpt-5.4-mini", openai.MaxCompletionTokens, "max_completion_tokens"},
		"reasoning, old endpoint": {"o3-local", openai.MaxTokens, "max_completion_tokens"},
		"gpt-6":                   {"gpt-6-luna", openai.MaxTokens, "max_completion_tokens"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := api.Picky(t)
			c := adaptertest.At(t, opening(func(e *openai.Endpoint) { e.TokenParam = tt.param }), server)
			req := adaptertest.Ask()
			req.Model, req.MaxOutputTokens, req.Temperature = tt.model, 100, new(0.5)
			if _, err := c.Complete(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			var sent []string
			for _, name := range []string{"max_tokens", "max_completion_tokens", "temperature"} {
				value, ok := server.Asked()[0][name]
				if ok {
					sent = append(sent, name)
				}
				if want := map[bool]float64{true: 0.5, false: 100}[name == "temperature"]; ok && value != want {
					t.Errorf("%s is %v", name, value)
				}
			}
			if strings.Join(sent, " ") != tt.sent {
				t.Errorf("sent %v, want %s", sent, tt.sent)
			}
		})
	}
}

func TestTemperatureZeroIsSent(t *testing.T) {
	t.Parallel()
	server := api.Picky(t)
	req := adaptertest.Ask()
	req.Temperature = new(0.0)
	if _, err := adaptertest.At(t, open, server).Complete(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if value, ok := server.Asked()[0]["temperature"].(float64); !ok || value > 1e-30 {
		t.Errorf("temperature on the wire: %v", server.Asked()[0]["temperature"])
	}
}

func TestUsageOfReasoning(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		usage string
		want  boulder.Usage
	}{
		"OpenAI counts reasoning inside": {
			`{"prompt_tokens":10,"completion_tokens":50,"total_tokens":60,
				"completion_tokens_details":{"reasoning_tokens":40}}`,
			boulder.Usage{Input: 10, Output: 50, Reasoning: 40, Unpriced: 1},
		},
		"xAI counts reasoning beside": {
			`{"prompt_tokens":10,"completion_tokens":50,"total_tokens":100,
				"completion_tokens_details":{"reasoning_tokens":40}}`,
			boulder.Usage{Input: 10, Output: 90, Reasoning: 40, Unpriced: 1},
		},
		"no details": {
			`{"prompt_tokens":10,"completion_tokens":50,"total_tokens":60}`,
			boulder.Usage{Input: 10, Output: 50, Unpriced: 1},
		},
		"no usage": {`null`, boulder.Usage{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := adaptertest.At(t, open, adaptertest.JSON(
				`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":`+tt.usage+`}`))
			resp, err := c.Complete(t.Context(), adaptertest.Ask())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, resp.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

// Ollama cuts a prompt at its default context and answers as if nothing had happened.
func TestSilentlyCutPrompt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		letters, counted int
		kind             providers.Kind
	}{
		{letters: 60_000, counted: 4096, kind: providers.KindContextLength},
		{letters: 60_000, counted: 15_000},
		{letters: 60_000, counted: 0},
		{letters: 6_000, counted: 1_400},
	} {
		t.Run(fmt.Sprintf("%d counted %d", tt.letters, tt.counted), func(t *testing.T) {
			t.Parallel()
			c := adaptertest.At(t, open, adaptertest.JSON(fmt.Sprintf(
				`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],
				"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d}}`, tt.counted, tt.counted+1)))
			req := adaptertest.Ask()
			req.Messages[0].Text = strings.Repeat("word ", tt.letters/4)
			if tt.kind != "" {
				if failure := adaptertest.Fails(t, c, req); failure.Kind != tt.kind {
					t.Errorf("kind %s: %v", failure.Kind, failure)
				}
			} else if _, err := c.Complete(t.Context(), req); err != nil {
				t.Error(err)
			}
		})
	}
}

// A base URL often comes with a slash at its end. That this server labels its answer a plain text does not matter.
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
