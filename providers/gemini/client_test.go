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

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adaptertest"
)

// says is an answer with the given parts.
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

// refusing refuses a parameter of generationConfig.
func refusing(text, name string) []adaptertest.Rule {
	return []adaptertest.Rule{adaptertest.Refusing(text, "generationConfig", name)}
}

func TestStepsDownAndRemembers(t *testing.T) {
	t.Parallel()
	const everything = "responseJsonSchema responseMimeType thinkingConfig"
	req := *adaptertest.Ask()
	req.Schema, req.Effort = json.RawMessage(`{"type":"object"}`), "low"
	adaptertest.StepsDown(t, open, api, req, map[string]adaptertest.StepDown{
		"takes all": {Sent: []string{everything, everything}},
		"no level of thinking": {
			Rules: refusing("Thinking level is not supported for this model.", "thinkingConfig"),
			Sent:  []string{everything, "responseJsonSchema responseMimeType", "responseJsonSchema responseMimeType"},
		},
		"no schema": {
			Rules: refusing(`Unknown name "responseJsonSchema" at 'generation_config'`, "responseJsonSchema"),
			Sent:  []string{everything, "responseMimeType thinkingConfig prompted", "responseMimeType thinkingConfig prompted"},
		},
		"Gemma": {
			Rules: refusing("JSON mode is not enabled for models/gemma-3-27b-it", "responseMimeType"),
			Sent:  []string{everything, "thinkingConfig prompted", "thinkingConfig prompted"},
		},
	})
}

func TestOther400sDoNotStepDown(t *testing.T) {
	t.Parallel()
	adaptertest.DoesNotStepDown(t, open,
		api.Picky(t, refusing("Request contains an invalid argument.", "responseMimeType")...))
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
			c := adaptertest.At(t, open, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ = io.ReadAll(r.Body)
				adaptertest.JSON(says("STOP", `{"text":"{}"}`))(w, r)
			}))
			req := adaptertest.Ask()
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

func TestUsageIncludesThoughts(t *testing.T) {
	t.Parallel()
	c := adaptertest.At(t, open, adaptertest.JSON(`{
		"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}],
		"usageMetadata":{"promptTokenCount":100,"cachedContentTokenCount":40,"toolUsePromptTokenCount":5,
		"candidatesTokenCount":32,"thoughtsTokenCount":50,"totalTokenCount":187}}`))
	resp, err := c.Complete(t.Context(), adaptertest.Ask())
	if err != nil {
		t.Fatal(err)
	}
	want := boulder.Usage{Input: 105, CacheRead: 40, Output: 82, Reasoning: 50, Unpriced: 1}
	if diff := cmp.Diff(want, resp.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}
