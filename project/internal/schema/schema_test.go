package schema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/bouldermgr/manager/project/internal/schema"
)

func resolved(t *testing.T, name string) *jsonschema.Resolved {
	t.Helper()
	s, err := schema.Of(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	config := read(t, "../config/example.yaml")
	const task = "sub_tasks: [{description: x}]\n"
	for name, test := range map[string]struct {
		schema, text string
		valid        bool
	}{
		"a written plan":     {"plan", read(t, "../../../taskledger/testdata/plan.golden.yaml"), true},
		"a short plan":       {"plan", task, true},
		"one gate, a budget": {"plan", "sub_tasks: [{description: x, gates: go vet, budget: {tokens: 200k, cost: $5, time: 1h30m}}]", true},
		"no sub-tasks":       {"plan", "task: x", false},
		"an unknown key":     {"plan", "sub_tasks: [{description: x, gate: go vet}]", false},
		"a wrong word":       {"plan", "isolation: sometimes\n" + task, false},
		"a wrong version":    {"plan", "version: 7\n" + task, false},
		"a wrong budget":     {"plan", "sub_tasks: [{description: x, budget: {time: -1h}}]", false},
		"the documented one": {"config", config, true},
		"switched off":       {"config", "rules: {silence: off}\nnotify: {command: [notify-send, done]}", true},
		"no such rule":       {"config", "rules: {silences: 5m}", false},
		"a list for a text":  {"config", "agent: [a, b]", false},
		"models in a row":    {"config", "model: [a/b, c/d]\nledger_model: a/b\nmodels: {fallback: [e/f]}", true},
		"a wrong place":      {"config", "land: somewhere", false},
	} {
		var value any
		if err := yaml.Unmarshal([]byte(test.text), &value); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := resolved(t, test.schema).Validate(value); (err == nil) != test.valid {
			t.Errorf("%s: valid: %v, want %v (%v)", name, err == nil, test.valid, err)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	r := resolved(t, "events")
	lines := strings.Split(strings.TrimSpace(read(t, "../../../boulder/testdata/public_events.jsonl")), "\n")
	for _, line := range append(lines, `{"type":"note","time":"2026-01-02T03:04:05Z","boulder_id":"b","seq":1,"text":"x","later":true}`) {
		var value any
		if err := json.Unmarshal([]byte(line), &value); err != nil {
			t.Fatal(err)
		}
		if err := r.Validate(value); err != nil {
			t.Errorf("%v\n%s", err, line)
		}
		for _, key := range []string{"type", "boulder_id"} {
			changed := map[string]any{}
			_ = json.NewDecoder(bytes.NewReader([]byte(line))).Decode(&changed)
			delete(changed, key)
			if r.Validate(changed) == nil {
				t.Errorf("valid without %s: %s", key, line)
			}
		}
	}
}
