package gemini_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/gemini"
)

// at gives a client for a server that runs handler.
func at(t *testing.T, handler http.HandlerFunc) *gemini.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := gemini.New(providers.NewKey("not-a-real-key"),
		gemini.Options{BaseURL: server.URL + "/", HTTPClient: httpClient(t)})
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

// says is an answer with the given parts.
func says(finish, parts string) string {
	return fmt.Sprintf(`{"candidates":[{"content":{"role":"model","parts":[%s]},"finishReason":%q}],"modelVersion":"m-1",
		"usageMetadata":{"promptTokenCount":7,"candidatesTokenCount":3,"totalTokenCount":10}}`, parts, finish)
}

// fixed gives a client for a server that always answers with body.
func fixed(t *testing.T, body string) *gemini.Client {
	t.Helper()
	return at(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	})
}

// a picky server refuses parameters of generationConfig with the text given for them, and keeps what it was asked.
type picky struct {
	mu     sync.Mutex
	bodies []map[string]any
	texts  map[string]string
}

func (p *picky) handle(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	p.mu.Lock()
	p.bodies = append(p.bodies, body)
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	generation, _ := body["generationConfig"].(map[string]any)
	for name, text := range p.texts {
		if generation[name] != nil {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":{"code":400,"message":%q,"status":"INVALID_ARGUMENT"}}`, text)
			return
		}
	}
	_, _ = w.Write([]byte(says("STOP", `{"text":"{}"}`)))
}

func (p *picky) sent() []string {
	var out []string
	for _, body := range p.bodies {
		generation, _ := body["generationConfig"].(map[string]any)
		var names []string
		for _, name := range []string{"responseJsonSchema", "responseMimeType", "thinkingConfig"} {
			if generation[name] != nil {
				names = append(names, name)
			}
		}
		if strings.Contains(fmt.Sprint(body["systemInstruction"]), "JSON Schema") {
			names = append(names, "prompted")
		}
		out = append(out, strings.Join(names, " "))
	}
	return out
}

// What a model refuses is left out at once and never sent to it again; each model learns by itself.
func TestStepsDownAndRemembers(t *testing.T) {
	t.Parallel()
	const everything = "responseJsonSchema responseMimeType thinkingConfig"
	for name, tt := range map[string]struct {
		texts map[string]string
		sent  []string // by the first two requests
	}{
		"takes all": {nil, []string{everything, everything}},
		"no level of thinking": {
			map[string]string{"thinkingConfig": "Thinking level is not supported for this model."},
			[]string{everything, "responseJsonSchema responseMimeType", "responseJsonSchema responseMimeType"},
		},
		"no schema": {
			map[string]string{"responseJsonSchema": `Unknown name "responseJsonSchema" at 'generation_config'`},
			[]string{everything, "responseMimeType thinkingConfig prompted", "responseMimeType thinkingConfig prompted"},
		},
		"Gemma": {
			map[string]string{"responseMimeType": "JSON mode is not enabled for models/gemma-3-27b-it"},
			[]string{everything, "thinkingConfig prompted", "thinkingConfig prompted"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &picky{texts: tt.texts}
			c := at(t, server.handle)
			req := ask()
			req.Schema, req.Effort = json.RawMessage(`{"type":"object"}`), "low"
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
	server := &picky{texts: map[string]string{"responseMimeType": "Request contains an invalid argument."}}
	req := ask()
	req.Schema = json.RawMessage(`{}`)
	failure := failing(t, at(t, server.handle), req)
	if failure.Kind != providers.KindBadRequest || len(server.bodies) != 1 {
		t.Errorf("%d requests: %v", len(server.bodies), failure)
	}
}

// The SDK would sort the properties of the schema; their order is the one in which the model answers.
func TestParametersOnTheWire(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"reason":{"type":"string"},"done":{"type":"boolean"}},` +
		`"required":["reason","done"],"additionalProperties":false}`
	for name, tt := range map[string]struct {
		change func(*providers.Request)
		want   string
	}{
		"schema": {
			func(r *providers.Request) { r.Schema = json.RawMessage(schema) }, `"responseJsonSchema":` + schema,
		},
		"JSON": {
			func(r *providers.Request) { r.Schema = json.RawMessage(schema) }, `"responseMimeType":"application/json"`,
		},
		"level":            {func(r *providers.Request) { r.Effort = "low" }, `"thinkingLevel":"LOW"`},
		"budget":           {func(r *providers.Request) { r.Effort = "512" }, `"thinkingBudget":512`},
		"no budget":        {func(r *providers.Request) { r.Effort = "0" }, `"thinkingBudget":0`},
		"temperature zero": {func(r *providers.Request) { r.Temperature = new(0.0) }, `"temperature":0`},
		"limit":            {func(r *providers.Request) { r.MaxOutputTokens = 1 << 40 }, `"maxOutputTokens":2147483647`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body []byte
			c := at(t, func(w http.ResponseWriter, r *http.Request) {
				body, _ = io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(says("STOP", `{"text":"{}"}`)))
			})
			req := ask()
			tt.change(req)
			if _, err := c.Complete(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if !bytes.Contains(body, []byte(tt.want)) {
				t.Errorf("%s is not in %s", tt.want, body)
			}
		})
	}
}

// Thoughts and parts of unknown kinds are no part of the answer, and nothing is printed about them. Not parallel,
// because it catches what the SDK prints.
func TestTextWithoutThoughts(t *testing.T) {
	var printed bytes.Buffer
	log.SetOutput(&printed)
	t.Cleanup(func() { log.SetOutput(io.Discard) })
	c := fixed(t, says("STOP", `{"text":"I wonder","thought":true},{"text":"{\"a\":"},
		{"functionCall":{"name":"f","args":{}}},{"text":"1}","thoughtSignature":"c2ln"},{"thoughtSignature":"c2ln"},
		{"fromTomorrow":{"x":1}}`))
	resp, err := c.Complete(t.Context(), ask())
	if err != nil || resp.Text != `{"a":1}` {
		t.Errorf("got %+v, %v", resp, err)
	}
	if printed.Len() > 0 {
		t.Errorf("printed: %s", &printed)
	}
}

func TestUsageIncludesThoughts(t *testing.T) {
	t.Parallel()
	c := fixed(t, `{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],"usageMetadata":
		{"promptTokenCount":100,"cachedContentTokenCount":40,"toolUsePromptTokenCount":5,"candidatesTokenCount":32,
		"thoughtsTokenCount":50,"totalTokenCount":187}}`)
	resp, err := c.Complete(t.Context(), ask())
	if err != nil {
		t.Fatal(err)
	}
	want := providers.Usage{Input: 105, CachedInput: 40, Output: 82, Reasoning: 50}
	if diff := cmp.Diff(want, resp.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}
