package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
)

const plantedKey = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"

func TestGuardedStream(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	g := guarded{stream: &out, secrets: secret.New([]string{`MY_TOKEN=with "quotes" & 12`, "N_TOKEN=123456789012"})}
	if n, err := fmt.Fprintf(g, "error: %s\n", plantedKey); n != len("error: \n")+len(plantedKey) || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	enc := json.NewEncoder(g)
	if err := enc.Encode(map[string]any{"a": `with "quotes" & 12`, "n": 123456789012}); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(g, "nothing secret\n")
	want := "error: [redacted]\n{\"a\":\"[redacted]\",\"n\":123456789012}\nnothing secret\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The guard does not hide a terminal.
	terminal := guarded{stream: os.Stderr}
	if f, ok := fileOf(terminal); !ok || f != os.Stderr || unguarded(terminal) != os.Stderr {
		t.Error("the file behind the guard is not found")
	}
}

// A key in a task or a plan is removed before use, and the user is told what to do.
func TestSecretInRequest(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	a, _, stderr := testApp(t, project, "MY_API_KEY=planted.value.9")
	clean := a.project.Clean("The task", "deploy with "+plantedKey, "use planted.value.9", "be nice")
	if strings.Join(clean, "|") != "deploy with [redacted]|use [redacted]|be nice" {
		t.Errorf("%q", clean)
	}
	for _, want := range []string{"a GitHub token and the value of MY_API_KEY", "environment variable"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in the warning: %s", want, stderr)
		}
	}
	stderr.Reset()
	if clean := a.project.Clean("The task", "nothing"); clean[0] != "nothing" || stderr.Len() > 0 {
		t.Errorf("%q, %s", clean, stderr)
	}

	path := filepath.Join(project, "plan.yaml")
	text := "task: use " + plantedKey + "\n" +
		"sub_tasks: [{id: a, description: 'it is planted.value.9', gates: ['test -e x']}]\n"
	writeFile(t, path, text)
	plan, err := a.project.ReadPlan(path)
	if err != nil || plan.Task != "use [redacted]" || plan.SubTasks[0].Description != "it is [redacted]" ||
		!strings.Contains(stderr.String(), "holds a GitHub token and the value of MY_API_KEY. It reads [redacted]") {
		t.Errorf("%+v, %v, %s", plan, err, stderr)
	}
}

// A command or name with a secret is useless without it, so it is refused. The refusal does not repeat the secret.
func TestSecretInCommandIsRefused(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	a, _, _ := testApp(t, project)
	path := filepath.Join(project, "plan.yaml")
	for _, field := range []string{
		"gates: ['curl -H \"PRIVATE-TOKEN: KEY\" example.org']",
		"no_worse: ['deploy KEY']", "agent: KEY", "model: x/KEY", "id: KEY",
	} {
		text := "task: t\nsub_tasks:\n  - {description: d, " + strings.ReplaceAll(field, "KEY", plantedKey) + "}\n"
		writeFile(t, path, text)
		_, err := a.project.ReadPlan(path)
		if err == nil || exitCode(err) != 2 || !strings.Contains(err.Error(), "a GitHub token") ||
			strings.Contains(err.Error(), plantedKey) {
			t.Errorf("%s: %v", field, err)
		}
	}
	writeFile(t, filepath.Join(project, ".manager", "config.yaml"), "no_worse: ['true', deploy "+plantedKey+"]\n")
	a.project = nil
	err := a.open()
	if err == nil || !strings.Contains(err.Error(), "no_worse[1] holds a GitHub token") {
		t.Errorf("%v", err)
	}
}

// Both last defences are in place: the guarded streams of a command line, and the guarded database of a run.
func TestNetsAreHungUp(t *testing.T) {
	t.Parallel()
	checkRefusals(t, t.TempDir(), []refusedLine{{[]string{"no-such-" + plantedKey}, `"no-such-[redacted]"`}})
	project := t.TempDir()
	a, _, _ := testApp(t, project)
	a.Args, a.project = []string{"run", plantedKey}, nil
	err := a.open()
	if err == nil {
		err = a.project.Connect(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	st, err := a.project.Hold(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	state := boulder.NewState()
	if _, err := state.Apply(boulder.Event{Time: sampleStart, BoulderID: "b", Body: boulder.Created{
		Boulder: boulder.Boulder{ID: "b", Task: "use " + plantedKey, Project: project, CreatedAt: sampleStart},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := st.DB.Commit(t.Context(), state, state.TakeEvents()); err != nil {
		t.Fatal(err)
	}
	client, err := a.project.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if h := client.Holder; h.Command != "manager run [redacted]" {
		t.Errorf("the socket tells %+v", h)
	}
	if all, err := client.Listing(t.Context()); err != nil || len(all) != 1 || all[0].Task != "use [redacted]" {
		t.Errorf("the socket tells %+v, %v", all, err)
	}
	st.Release()
	data, err := os.ReadFile(filepath.Join(project, ".manager", "manager.db"))
	if err != nil || bytes.Contains(data, []byte(plantedKey)) || !bytes.Contains(data, []byte("use [redacted]")) {
		t.Errorf("the database holds the key, or not the task: %v", err)
	}
}
