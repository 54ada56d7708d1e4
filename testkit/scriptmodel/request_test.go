package scriptmodel

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The requests below have the shape of those of OpenCode 1.18.33 (seen).

const continuedRequest = `{"model":"agent","tool_choice":"auto","stream":true,"tools":[
	{"type":"function","function":{"name":"bash","parameters":{}}},
	{"type":"function","function":{"name":"write","parameters":{}}}],"messages":[
	{"role":"system","content":"You are opencode."},
	{"role":"user","content":[{"type":"text","text":"first part"},{"type":"text","text":"second part"}]},
	{"role":"assistant","content":null,"tool_calls":[
		{"id":"call_2","type":"function","function":{"name":"write","arguments":"{\"filePath\":\"a\"}"}}]},
	{"role":"tool","tool_call_id":"call_2","content":"Wrote file successfully."},
	{"role":"assistant","content":"Done"},
	{"role":"user","content":"go on"},
	{"role":"assistant","content":"Going"}]}`

const structuredByTool = `{"model":"ledger","tool_choice":"required","stream":true,"tools":[
	{"type":"function","function":{"name":"StructuredOutput","parameters":{"type":"object"}}}],
	"messages":[{"role":"user","content":"plan it"}]}`

const structuredByFormat = `{"model":"ledger","messages":[{"role":"user","content":"plan it"}],
	"response_format":{"type":"json_schema","json_schema":{"name":"plan","schema":{"type":"object"}}}}`

func TestParseRequest(t *testing.T) {
	t.Parallel()
	type view struct {
		Kind                Kind
		FirstUser, LastUser string
		Turns, SinceUser    int
		Schema              string
		Tools               []string
		Stream              bool
	}
	for name, test := range map[string]struct {
		body string
		want view
	}{
		"continued session": {continuedRequest, view{
			Kind: KindAgent, FirstUser: "first part\nsecond part", LastUser: "go on", Turns: 3, SinceUser: 1,
			Tools: []string{"bash", "write"}, Stream: true,
		}},
		"structured by OpenCode's tool": {structuredByTool, view{
			Kind: KindStructured, FirstUser: "plan it", LastUser: "plan it",
			Schema: `{"type":"object"}`, Tools: []string{"StructuredOutput"}, Stream: true,
		}},
		"structured by response_format": {structuredByFormat, view{
			Kind: KindStructured, FirstUser: "plan it", LastUser: "plan it", Schema: `{"type":"object"}`,
		}},
		"any JSON": {`{"messages":[{"role":"developer","content":"d"}],"response_format":{"type":"json_object"}}`, view{
			Kind: KindStructured,
		}},
	} {
		r, err := parseRequest(strings.NewReader(test.body))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := view{
			r.Kind(), r.FirstUser(), r.LastUser(), r.AssistantTurns(), r.TurnsSinceUser(),
			string(r.Schema), r.Tools, r.stream,
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
}
