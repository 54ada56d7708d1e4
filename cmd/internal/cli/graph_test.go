package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/orchestrator"
)

func TestGraph(t *testing.T) {
	t.Parallel()
	project := interrupted(t)
	checkLooks(t, project, map[string][]string{
		"graph.txt": {"graph"}, "graph.mmd": {"graph", "01k3", "-f", "mermaid"}, "graph.dot": {"graph", "--format=dot"},
		"graph.json": {"graph", "--json", sampleID},
	})
	stdout, stderr := expect(t, project, exitOK, []string{"graph", "-o", "out.svg"})
	picture, err := os.ReadFile(filepath.Join(project, "out.svg"))
	if stdout != "" || err != nil || !strings.HasPrefix(string(picture), "<svg ") {
		t.Errorf("stdout %q, stderr %q, %v: %.100s", stdout, stderr, err, picture)
	}
	checkHarmless(t, string(picture))
	if stdout, _, _ := command(project, "graph", "--format", "svg"); stdout != string(picture) {
		t.Error("stdout gets another picture than the file")
	}
}

// While a process holds the database, the graph has the limits of that process and is otherwise the same.
func TestGraphWhileItRuns(t *testing.T) {
	t.Parallel()
	project := interrupted(t)
	before, _, _ := command(project, "graph")
	limits := orchestrator.DefaultLimits()
	limits.Attempts = 7
	holdAs(t, project, processAt{PID: 42, Running: []string{sampleID}, Limits: &limits})
	during, _, code := command(project, "graph")
	want := strings.Replace(before, "attempt 2 of 3", "attempt 2 of 7", 1)
	if diff := cmp.Diff(want, during); diff != "" || code != exitOK || want == before {
		t.Errorf("exit code %d, the picture differs (-alone +held):\n%s", code, diff)
	}
}

func TestGraphReport(t *testing.T) {
	t.Parallel()
	d := boulder.Snapshot{Boulder: boulder.Boulder{ID: "b", Task: "T", Status: boulder.Running}, SubTasks: []*boulder.SubTask{
		{ID: "a", Status: boulder.SubTaskCompleted, Attempts: 2},
		{ID: "old", Status: boulder.SubTaskSuperseded, DependsOn: []string{"a"}, Attempts: 3},
		{ID: "gone", Status: boulder.SubTaskSuperseded, DependsOn: []string{"old"}},
		{ID: "new", Status: boulder.SubTaskInProgress, DependsOn: []string{"a"}, Replaces: "old", Attempts: 2, Lost: 1},
		{ID: "more", Status: boulder.SubTaskPending, DependsOn: []string{"new"}, Attempts: 2,
			Budget: &boulder.Budget{Attempts: 5}},
	}}
	for i, t := range d.SubTasks {
		t.Position = i + 1
	}
	for all, want := range map[bool]string{
		false: "1 a: attempt 2 of 3, 4 new: attempt 2, 5 more: attempt 2 of 5, a>new new>more ",
		true: "1 a: attempt 2 of 3, 2 old: replaced by new, 3 gone: , 4 new: attempt 2, 5 more: attempt 2 of 5, " +
			"a>old old>gone a>new new>more ",
	} {
		got, r := "", view.GraphOf(d, orchestrator.DefaultLimits(), all)
		for _, s := range r.SubTasks {
			got += fmt.Sprintf("%d %s: %s, ", s.Number, s.ID, s.Note)
		}
		for _, e := range r.Edges {
			got += e.From + ">" + e.To + " "
		}
		if got != want {
			t.Errorf("all %v: %q, want %q", all, got, want)
		}
	}
}

// A boulder without a plan has an empty graph, not an error.
func TestGraphOfNoPlan(t *testing.T) {
	t.Parallel()
	project := newSample(t).store()
	for _, format := range []string{"text", "mermaid", "dot", "svg"} {
		if stdout, _ := expect(t, project, exitOK, []string{"graph", "-f", format}, "no sub-tasks yet"); stdout == "" {
			t.Errorf("%s: nothing is printed", format)
		}
	}
	expect(t, project, exitOK, []string{"graph", "--json"}, `"sub_tasks":[]`, `"edges":[]`)
}
