package anthropic_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/anthropic"
)

// at gives a client for a server that runs handler.
func at(t *testing.T, handler http.HandlerFunc) *anthropic.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := anthropic.New(providers.NewKey("not-a-real-key"),
		anthropic.Options{BaseURL: server.URL + "/", HTTPClient: httpClient(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func httpClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func ask() *providers.Request {
	return &providers.Request{
		Model:    "m",
		Messages: []providers.Message{{Role: providers.RoleUser, Text: "Is it done?"}},
	}
}

func failing(t *testing.T, c providers.Completer, req *providers.Request) *providers.Error {
	t.Helper()
	_, err := c.Complete(t.Context(), req)
	failure, ok := errors.AsType[*providers.Error](err)
	if !ok {
		t.Fatalf("error is %T: %v", err, err)
	}
	return failure
}

// says is an answer with the given content blocks.
func says(stop, content string) string {
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"m-1","content":[%s],"stop_reason":%q,
		"usage":{"input_tokens":7,"output_tokens":3}}`, content, stop)
}

// a picky server refuses requests that its rules name, in order, and keeps what it was asked.
type picky struct {
	mu     sync.Mutex
	bodies []map[string]any
	rules  []rule
}

type rule struct {
	refuses func(body map[string]any) bool
	text    string
}

func (p *picky) handle(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	p.mu.Lock()
	p.bodies = append(p.bodies, body)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	for _, rule := range p.rules {
		if rule.refuses(body) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":"invalid_request_error","message":%q}}`, rule.text)
			return
		}
	}
	content := `{"type":"text","text":"{}"}`
	if body["tools"] != nil {
		content = `{"type":"tool_use","id":"t","name":"answer","input":{"from":"tool"}}`
	}
	_, _ = w.Write([]byte(says("end_turn", content)))
}

// sent names the features of each request.
func (p *picky) sent() []string {
	var out []string
	for _, body := range p.bodies {
		config, _ := body["output_config"].(map[string]any)
		var features []string
		for name, present := range map[string]bool{
			"1 schema": config["format"] != nil, "2 tool": body["tools"] != nil, "3 effort": config["effort"] != nil,
			"4 temperature": body["temperature"] != nil, "5 room": body["max_tokens"] == 16000.0,
			"6 prompted": strings.Contains(fmt.Sprint(body["system"]), "JSON Schema"),
		} {
			if present {
				features = append(features, name)
			}
		}
		out = append(out, join(features))
	}
	return out
}

func join(features []string) string {
	var out []string
	for n := '1'; n <= '6'; n++ {
		for _, f := range features {
			if rune(f[0]) == n {
				out = append(out, f[2:])
			}
		}
	}
	return strings.Join(out, " ")
}

func has(path ...string) func(map[string]any) bool {
	return func(body map[string]any) bool {
		for _, key := range path[:len(path)-1] {
			body, _ = body[key].(map[string]any)
		}
		return body[path[len(path)-1]] != nil
	}
}

// What a model refuses is left out at once and never sent to it again; each model learns by itself. The texts are those
// of the API and its imitations.
func TestStepsDownAndRemembers(t *testing.T) {
	t.Parallel()
	everything := "schema effort temperature room"
	for name, tt := range map[string]struct {
		rules []rule
		sent  []string // by the first two requests
	}{
		"takes all": {nil, []string{everything, everything}},
		"no structured output": {
			[]rule{{has("output_config", "format"), "output_config.format: Extra inputs are not permitted"}},
			[]string{everything, "tool effort temperature room", "tool effort temperature room"},
		},
		"nothing but text": {
			[]rule{
				{has("output_config", "format"), "'m' does not support output format"},
				{has("tools"), "tools: Extra inputs are not permitted"},
			},
			[]string{everything, "tool effort temperature room", "effort temperature room prompted",
				"effort temperature room prompted"},
		},
		"no output_config at all": {
			[]rule{{has("output_config"), "output_config: Extra inputs are not permitted"}},
			[]string{everything, "tool effort temperature room", "tool temperature room", "tool temperature room"},
		},
		"no temperature": {
			[]rule{{has("temperature"), "`temperature` is deprecated for this model."}},
			[]string{everything, "schema effort room", "schema effort room"},
		},
		"no effort": {
			[]rule{{has("output_config", "effort"), "This model does not support the effort parameter."}},
			[]string{everything, "schema temperature room", "schema temperature room"},
		},
		"small answers": {
			[]rule{{
				func(body map[string]any) bool { return body["max_tokens"].(float64) > 8192 },
				"max_tokens: 16000 > 8192, which is the maximum allowed number of output tokens for m",
			}},
			[]string{everything, "schema effort temperature", "schema effort temperature"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &picky{rules: tt.rules}
			c := at(t, server.handle)
			req := ask()
			req.Schema, req.Effort, req.Temperature = json.RawMessage(`{"type":"object"}`), "low", new(0.0)
			for range 2 {
				if _, err := c.Complete(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.sent, server.sent()); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			req.Model = "another"
			if _, err := c.Complete(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if got := server.sent()[len(tt.sent)]; got != everything {
				t.Errorf("another model was first asked with %s", got)
			}
		})
	}
}

func TestOther400sDoNotStepDown(t *testing.T) {
	t.Parallel()
	server := &picky{rules: []rule{{has("messages"), "messages: roles must alternate"}}}
	req := ask()
	req.Schema = json.RawMessage(`{}`)
	if failure := failing(t, at(t, server.handle), req); failure.Kind != providers.KindBadRequest {
		t.Errorf("kind %s", failure.Kind)
	}
	if len(server.bodies) != 1 {
		t.Errorf("%d requests", len(server.bodies))
	}
}

// The schema goes out byte for byte, whichever way, and the tool's argument comes back as it is.
func TestSchemaAndToolVerbatim(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"reason":{"type":"string"},"done":{"type":"boolean"}},` +
		`"required":["reason","done"],"additionalProperties":false}`
	var bodies [][]byte
	c := at(t, func(w http.ResponseWriter, r *http.Request) {
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
	})
	req := ask()
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
	server := &picky{}
	req := ask()
	req.MaxOutputTokens = 64_000
	if _, err := at(t, server.handle).Complete(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if got := server.bodies[0]["max_tokens"]; got != 64000.0 {
		t.Errorf("max_tokens %v", got)
	}
}

func TestUsageIncludesTheCache(t *testing.T) {
	t.Parallel()
	c := at(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"x"}],
			"stop_reason":"end_turn","usage":{"input_tokens":5,"cache_read_input_tokens":100,
			"cache_creation_input_tokens":20,"output_tokens":9,"output_tokens_details":{"thinking_tokens":4}}}`))
	})
	resp, err := c.Complete(t.Context(), ask())
	if err != nil {
		t.Fatal(err)
	}
	want := providers.Usage{Input: 125, CachedInput: 100, CacheWrite: 20, Output: 9, Reasoning: 4}
	if diff := cmp.Diff(want, resp.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}
