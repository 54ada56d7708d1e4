package worker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
)

// TestFit: evidence of any size fits, keeps what the core decides by, and marks cuts. Small evidence is unchanged.
func TestFit(t *testing.T) {
	t.Parallel()
	small := boulder.Evidence{FinalMessage: strings.Repeat("x", 8_000), Diff: boulder.Diff{Patch: strings.Repeat("y", 12_000)}}
	if d := cmp.Diff(small, fit(small)); d != "" {
		t.Errorf("cut although it fits:\n%s", d)
	}
	e := boulder.Evidence{FinalMessage: strings.Repeat("<", 8_000), Said: strings.Repeat("<", 8_000), Diff: boulder.Diff{Patch: strings.Repeat("<", 12_000), Hash: "h"}}
	for i := range 5_000 {
		name := fmt.Sprintf("dir/file%d.go", i)
		e.Diff.Files = append(e.Diff.Files, boulder.FileChange{Path: name, Own: i == 4_999})
		e.Diagnostics = append(e.Diagnostics, boulder.Diagnostic{File: name, Message: strings.Repeat("m", 300)})
		e.ToolCalls = append(e.ToolCalls, boulder.ToolCall{ID: name, Output: strings.Repeat("o", 500)})
	}
	for name := range strings.FieldsSeq(strings.Repeat("far/away.go ", 20_000)) {
		e.Outside, e.Escaped, e.Strayed = append(e.Outside, name), append(e.Escaped, name), append(e.Strayed, name)
		e.Todos = append(e.Todos, boulder.Todo{Content: strings.Repeat("t", 500), Status: "pending"})
	}
	for i := range 40 {
		e.Gates = append(e.Gates, boulder.Gate{Command: fmt.Sprintf("gate %d", i), ExitCode: 1, Output: strings.Repeat("<", 2_000)})
	}
	gates := e.Gates[0].Output
	f := fit(e)
	if n := size(f); n > largest {
		t.Errorf("%d bytes", n)
	}
	if len(f.Outside) == 0 || len(f.Escaped) == 0 || len(f.Strayed) == 0 || len(f.Todos) == 0 {
		t.Error("something is missing as a whole")
	}
	if len(f.Gates) != 40 || f.Gates[3].ExitCode != 1 || f.Diff.Hash != "h" || !f.Diff.Files[0].Own || f.ToolCalls[len(f.ToolCalls)-1].ID != "dir/file4999.go" {
		t.Errorf("%d gates, %+v, first file %+v", len(f.Gates), f.Diff.Hash, f.Diff.Files[0])
	}
	if !strings.Contains(f.Diff.Patch, "cut") || e.Gates[0].Output != gates || len(e.Diff.Files) != 5_000 {
		t.Error("the cut is not visible, or the original was changed")
	}
}
