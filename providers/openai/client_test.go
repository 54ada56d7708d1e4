package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/openai"
)

const fine = `{"model":"m","choices":[{"message":{"role":"assistant","content":"{}"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`

// recorded keeps the request bodies that a server got.
type recorded struct {
	mu     sync.Mutex
	bodies []map[string]any
}

func (r *recorded) add(t *testing.T, body io.Reader) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.NewDecoder(body).Decode(&m); err != nil {
		t.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, m)
	return m
}

func (r *recorded) formats() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, body := range r.bodies {
		format, _ := body["response_format"].(map[string]any)
		out = append(out, fmt.Sprint(format["type"]))
	}
	return out
}

// Servers that know neither form cost three requests once and one from then on; each model learns by itself.
func TestStepsDownAndRemembers(t *testing.T) {
	t.Parallel()
	var got recorded
	c := at(t, func(w http.ResponseWriter, r *http.Request) {
		body := got.add(t, r.Body)
		if body["response_format"] != nil && body["model"] == "old" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":{"message":"Unrecognized request argument: response_format"}}`))
			return
		}
		_, _ = w.Write([]byte(fine))
	}, nil)
	for _, model := range []string{"old", "old", "new"} {
		req := ask()
		req.Model, req.Schema = model, json.RawMessage(`{"type":"object","title":"verdict"}`)
		if _, err := c.Complete(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"json_schema", "json_object", "<nil>", "<nil>", "json_schema"}
	if diff := cmp.Diff(want, got.formats()); diff != "" {
		t.Errorf("formats asked for (-want +got):\n%s", diff)
	}
	// Where the endpoint does not know the schema, the model has to.
	for i, wantSchema := range []bool{false, true, true, true, false} {
		text := fmt.Sprint(got.bodies[i]["messages"])
		if strings.Contains(text, "verdict") != wantSchema {
			t.Errorf("request %d: schema in the prompt is %t: %s", i, !wantSchema, text)
		}
	}
}

func TestOther400sDoNotStepDown(t *testing.T) {
	t.Parallel()
	var got recorded
	c := at(t, func(w http.ResponseWriter, r *http.Request) {
		got.add(t, r.Body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"message":"unknown parameter: messages"}}`))
	}, nil)
	req := ask()
	req.Schema = json.RawMessage(`{}`)
	if failure := failing(t, c, req); failure.Kind != providers.KindBadRequest || len(got.bodies) != 1 {
		t.Errorf("%d requests: %v", len(got.bodies), failure)
	}
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
			var got recorded
			c := at(t, func(w http.ResponseWriter, r *http.Request) {
				got.add(t, r.Body)
				_, _ = w.Write([]byte(fine))
			}, func(e *openai.Endpoint) { e.TokenParam = tt.param })
			req := ask()
			req.Model, req.MaxOutputTokens, req.Temperature = tt.model, 100, new(0.5)
			if _, err := c.Complete(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			var sent []string
			for _, name := range []string{"max_tokens", "max_completion_tokens", "temperature"} {
				value, ok := got.bodies[0][name]
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
	var got recorded
	c := at(t, func(w http.ResponseWriter, r *http.Request) {
		got.add(t, r.Body)
		_, _ = w.Write([]byte(fine))
	}, nil)
	req := ask()
	req.Temperature = new(0.0)
	if _, err := c.Complete(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if value, ok := got.bodies[0]["temperature"].(float64); !ok || value > 1e-30 {
		t.Errorf("temperature on the wire: %v", got.bodies[0]["temperature"])
	}
}

func TestUsageOfReasoning(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		usage string
		want  providers.Usage
	}{
		"OpenAI counts reasoning inside": {
			`{"prompt_tokens":10,"completion_tokens":50,"total_tokens":60,
				"completion_tokens_details":{"reasoning_tokens":40}}`,
			providers.Usage{Input: 10, Output: 50, Reasoning: 40},
		},
		"xAI counts reasoning beside": {
			`{"prompt_tokens":10,"completion_tokens":50,"total_tokens":100,
				"completion_tokens_details":{"reasoning_tokens":40}}`,
			providers.Usage{Input: 10, Output: 90, Reasoning: 40},
		},
		"no details": {
			`{"prompt_tokens":10,"completion_tokens":50,"total_tokens":60}`,
			providers.Usage{Input: 10, Output: 50},
		},
		"no usage": {`null`, providers.Usage{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := at(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w,
					`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":%s}`, tt.usage)
			}, nil)
			resp, err := c.Complete(t.Context(), ask())
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
			c := at(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprintf(w, `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],
					"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d}}`, tt.counted, tt.counted+1)
			}, nil)
			req := ask()
			req.Messages[0].Text = strings.Repeat("word ", tt.letters/4)
			if tt.kind != "" {
				if failure := failing(t, c, req); failure.Kind != tt.kind {
					t.Errorf("kind %s: %v", failure.Kind, failure)
				}
			} else if _, err := c.Complete(t.Context(), req); err != nil {
				t.Error(err)
			}
		})
	}
}

// A base URL often comes with a slash at its end.
func TestBaseURLWithSlash(t *testing.T) {
	t.Parallel()
	c := at(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/chat/completions" {
			t.Errorf("path %s", r.URL.Path)
		}
		_, _ = w.Write([]byte(fine))
	}, func(e *openai.Endpoint) { e.BaseURL += "/" })
	if _, err := c.Complete(t.Context(), ask()); err != nil {
		t.Error(err)
	}
}
