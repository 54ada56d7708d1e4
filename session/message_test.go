package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

// Errors in files that the session did not edit do not count: it could never finish because of them.
func TestFindingsAreOfEditedFiles(t *testing.T) {
	t.Parallel()
	call := func(file, diagnostics string) *opencode.ToolCall {
		return &opencode.ToolCall{
			Tool: "edit", State: opencode.ToolCompleted, Input: json.RawMessage(`{"filePath":"` + file + `"}`),
			Metadata: json.RawMessage(`{"diagnostics":` + diagnostics + `}`),
		}
	}
	const (
		ours   = `"/p/a.go":[{"severity":1,"message":"undefined: x","range":{"start":{"line":4}}},{"severity":2,"message":"unused"}]`
		theirs = `"/p/old.go":[{"severity":1,"message":"broken for years","range":{"start":{"line":0}}}]`
	)
	var f Findings
	for _, step := range []struct {
		call *opencode.ToolCall
		want []string
	}{
		{call("a.go", "{"+ours+","+theirs+"}"), []string{"/p/a.go:5: undefined: x"}},
		{&opencode.ToolCall{Tool: "read", State: opencode.ToolCompleted}, []string{"/p/a.go:5: undefined: x"}},
		{call("/p/b.go", "{"+ours+"}"), []string{"/p/a.go:5: undefined: x"}},
		{call("/p/a.go", "{"+theirs+"}"), nil},
	} {
		f.Take(step.call, "/p")
		var got []string
		for _, e := range f.Errors {
			got = append(got, fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message))
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("after %s %s: %q, want %q", step.call.Tool, step.call.Input, got, step.want)
		}
	}
}
