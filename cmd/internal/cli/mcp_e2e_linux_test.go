package cli

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// handedOver is the plan that the agent hands over; gatedPlan has a gate.
const (
	handedOver = "task: Write two files\nmodel: scripted/agent\nisolation: always\nsub_tasks:\n" +
		"  - {id: left, description: Write left.txt}\n  - {id: right, description: Write right.txt}\n"
	gatedPlan = "task: Write one file\nmodel: scripted/agent\nsub_tasks:\n" +
		"  - {id: alone, description: Write alone.txt, gates: [touch gate-ran]}\n"
)

var boulderIn = regexp.MustCompile(`"boulder_id":"([0-9a-z]+)"`)

// client is an agent with manager's tools. Its next call depends on the last result.
func client(req scriptmodel.Request) scriptmodel.Reply {
	use := func(tool string, arguments map[string]any) scriptmodel.Reply {
		return scriptmodel.Call("boulders_"+tool, arguments)
	}
	said, task := req.Messages[len(req.Messages)-1].Text, req.LastUser()
	has := func(text string) bool { return strings.Contains(said, text) }
	on := map[string]any{"boulder": strings.Trim(task[strings.LastIndex(task, " ")+1:], "\"\n")} // in quotes, as OpenCode sends it
	if found := boulderIn.FindStringSubmatch(said); found != nil {
		on["boulder"] = found[1]
	}
	switch n := req.TurnsSinceUser(); {
	case n == 0 && strings.Contains(task, "Hand them over"):
		return use("run", map[string]any{"plan": handedOver})
	case n == 1 && has(`"type":"detached"`):
		return use("run", map[string]any{"plan": gatedPlan})
	case n == 0, has(`"type":"detached"`):
		return use("wait", on)
	case has(`"type":"wait"`) && has(`"status":"paused"`):
		return use("resume", on)
	case has(`"type":"wait"`) && has(`"status":"completed"`):
		return use("report", on)
	case has(`"type":"wait"`) && has(`"resumable":false`):
		return use("wait", on)
	case has(`"type":"report"`):
		return use("land", on)
	case has("merge writes what does not conflict"):
		on["merge"] = true
		return use("land", on)
	case has(`"conflict_details":[{`):
		on["undo"] = true
		return use("land", on)
	}
	all := ""
	for _, m := range req.Messages {
		if m.Role == "tool" {
			all += m.Text + "\n"
		}
	}
	return scriptmodel.Reply{Text: "It was said: " + all}
}

// The real OpenCode is the client. Its agent hands over a plan, then one with a gate, for which it is told to ask the
// user. OpenCode exits and ends its children. The gate runs only after the user approved in a terminal. Another session
// collects and lands the result of the first plan. Agents of sub-tasks have none of these tools.
func TestHandOverFromOpenCode(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := directWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		id := subTaskOf(req.FirstUser())
		switch {
		case req.Kind() == scriptmodel.KindStructured:
			return acceptAll
		case req.Kind() == scriptmodel.KindTitle:
			return scriptmodel.Reply{Text: "A title"}
		case id == "":
			return client(req)
		case req.AssistantTurns() > 0:
			return scriptmodel.Reply{Text: "All of it is done now."}
		}
		reply := scriptmodel.Bash("echo " + id + " > " + id + ".txt")
		if id != "alone" {
			reply.Wait = release
		}
		return reply
	}, map[string]string{".manager/config.yaml": "rules: {silence: 1h}\n"}) // a slow machine is no failure
	program, err := exec.LookPath("manager")
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal([]byte(scriptmodel.OpenCodeConfig(w.model.URL())), &config); err != nil {
		t.Fatal(err)
	}
	config["mcp"] = map[string]any{"boulders": map[string]any{"type": "local", "command": []string{program, "mcp"}}}
	withTools, _ := json.Marshal(config) // cannot fail: it came from JSON
	w.env = octest.Lean(append(w.env, "OPENCODE_CONFIG_CONTENT="+string(withTools)))
	says := func(prompt string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), octest.Binary(t), "run", prompt)
		cmd.Dir, cmd.Env = w.dir, w.env
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("opencode run: %v\n%s", err, said)
		}
		return string(said)
	}
	defer func() { _, _, _ = run(t, w.dir, w.env, "serve", "--stop") }()
	let := sync.OnceFunc(func() { close(release) })
	defer let()

	asked := says("Hand them over")
	found := boulderIn.FindStringSubmatch(asked)
	if found == nil {
		t.Fatalf("there is no boulder in:\n%s", asked)
	}
	first := found[1]
	w.run(exitOK, "status", first)
	_, second, _ := strings.Cut(asked, "to the plan of boulder ")
	second, _, _ = strings.Cut(second, ",")
	if !strings.Contains(asked, "ask them to type `manager resume "+second+"` in a terminal") || second == "" {
		t.Fatalf("the agent was told:\n%s", asked)
	}
	w.run(exitWaiting, "wait", second)
	w.run(exitUsage, "resume", second) // no terminal
	if exists(filepath.Join(w.dir, "gate-ran")) {
		t.Error("the gate ran before the user agreed")
	}

	p := openPTY(t)
	user := manager(t, w.dir, w.env, "resume", second)
	user.Stdin, user.Stdout, user.Stderr = p.slave, p.slave, p.slave
	if err := user.Start(); err != nil {
		t.Fatal(err)
	}
	p.shows("Run this plan? [yes / details / edit / revise / no]")
	if _, err := p.master.WriteString("yes\n"); err != nil {
		t.Fatal(err)
	}
	if err := user.Wait(); err != nil || !strings.Contains(p.text(), "gates: touch gate-ran") || !strings.Contains(p.text(), "1 of 1 sub-tasks completed") {
		t.Errorf("%v\n%s", err, p.text())
	}
	w.run(exitOK, "wait", second)
	if !exists(filepath.Join(w.dir, "gate-ran")) {
		t.Error("the gate did not run")
	}

	let()
	mine := filepath.Join(w.dir, "left.txt")
	if err := os.WriteFile(mine, []byte("mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := says("Collect the result of " + first)
	for _, want := range []string{
		`"conflict_details":[{"by":["left"],"hunks":[{"line":1,"lines":["<<<<<<< your files","mine"`, `"path":"left.txt"}]`,
		`"files":[{"path":"left.txt"},{"deleted":true,"path":"right.txt"}],"how":"undone"`,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the agent was not told %s:\n%s", want, said)
		}
	}
	wantFile(t, w.dir, "left.txt", "mine\n")
	if err := os.Remove(mine); err != nil || exists(filepath.Join(w.dir, "right.txt")) {
		t.Fatalf("%v; right.txt: %v", err, exists(filepath.Join(w.dir, "right.txt")))
	}
	if said := says("Collect the result of " + first); !strings.Contains(said, `"type":"land"`) {
		t.Errorf("the agent was told:\n%s", said)
	}
	wantFile(t, w.dir, "left.txt", "left\n")
	wantFile(t, w.dir, "right.txt", "right\n")
	for _, r := range w.model.Requests() {
		if tools := strings.Join(r.Tools, " "); r.Kind() == scriptmodel.KindAgent &&
			strings.Contains(tools, "boulders_") == (subTaskOf(r.FirstUser()) != "") {
			t.Errorf("%.40q has the tools %s", r.FirstUser(), tools)
		}
	}
}
