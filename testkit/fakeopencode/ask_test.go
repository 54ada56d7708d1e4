package fakeopencode

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

var askShell = fields{"permissions": []rule{{"shell", "*", "ask"}}}

type asked struct {
	ID, SessionID, Action string
	Resources             []string
	Source                struct{ ID string }
	Metadata              fields
}

// asks waits for n permissions, and returns what is pending.
func (w *world) asks(n int) (all []asked) {
	w.Helper()
	for range n {
		w.await("permission.asked")
	}
	w.call("permission.request.list", 200, nil, &all, "location[directory]="+w.dir)
	if len(all) != n {
		w.Fatalf("%d requests are pending, want %d", len(all), n)
	}
	return all
}

// After a rejection with a text the turn continues, but built-in tools drop the text. One without a text ends the turn.
func TestPermission(t *testing.T) {
	t.Parallel()
	const lost = "Unable to execute command: echo a | wc"
	for name, test := range map[string]struct {
		b        Behaviour
		decision fields
		want     string
		reads    string // by the model, as the tool's result
	}{
		"once": {decision: fields{"decision": "once"}, want: "user assistant:tool-calls assistant:stop idle:succeeded", reads: "1"},
		"rejected with a text": {
			decision: fields{"decision": "reject", "message": "use the other one"},
			want:     "user assistant:tool-calls assistant:stop idle:succeeded", reads: lost,
		},
		"the text is kept": {
			b: Behaviour{KeepRejectText: true}, decision: fields{"decision": "reject", "message": "use the other one"},
			want: "user assistant:tool-calls assistant:stop idle:succeeded", reads: "use the other one",
		},
		"rejected": {decision: fields{"decision": "reject"}, want: "user assistant!aborted idle:interrupted", reads: "-"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.b, steps(calls(use("bash", fields{"command": "echo a | wc"}))))
			id := w.session(askShell)
			w.prompt(id, "msg_1", "go")
			p := w.asks(1)[0]
			if p.Action != "shell" || !slices.Equal(p.Resources, []string{"echo a", "wc"}) || p.Source.ID == "" {
				t.Errorf("asked for %+v", p)
			}
			w.call("session.permission.reply", 204, test.decision, nil, id, p.ID)
			w.call("session.permission.reply", 404, test.decision, nil, id, p.ID)
			w.call("session.wait", 204, nil, nil, id)
			if got := w.kinds(id); got != test.want {
				t.Error(got)
			}
			requests := w.model.Requests()
			read := "-"
			if last := requests[len(requests)-1].Messages; last[len(last)-1].Role == "tool" {
				read = last[len(last)-1].Text
			}
			if !strings.HasPrefix(strings.TrimSpace(read), test.reads) {
				t.Errorf("the model read %q", read)
			}
		})
	}
}

// A rejection declines the session's other requests and ends the turn. A waiting prompt then starts the next.
func TestSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.LastUser() == "why" {
			return scriptmodel.Reply{Text: "I see"}
		}
		return calls(use("bash", fields{"command": "one"}), use("bash", fields{"command": "two"}))
	})
	id := w.session(askShell)
	w.prompt(id, "msg_1", "go")
	pending := w.asks(2)
	w.prompt(id, "msg_2", "why")
	w.call("session.permission.reply", 204, fields{"decision": "reject", "message": "no"}, nil, id, pending[0].ID)
	ended := w.await("session.execution.interrupted")
	if reason := ended[len(ended)-1].Data["reason"]; reason != "shutdown" {
		t.Errorf("ended because of %v", reason)
	}
	w.await("session.execution.succeeded")
	if got := w.kinds(id); got != "user assistant!aborted idle:interrupted user assistant:stop idle:succeeded" {
		t.Error(got)
	}
}

// After an interrupt nothing is pending, and the inbox keeps its prompts.
func TestInterruptedAsk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, steps(calls(use("bash", fields{"command": "true"}))))
	id := w.session(askShell)
	w.prompt(id, "msg_1", "go")
	w.asks(1)
	w.prompt(id, "msg_2", "more")
	w.call("session.interrupt", 200, nil, nil, id)
	w.await("session.execution.interrupted")
	var pending []asked
	w.call("permission.request.list", 200, nil, &pending, "location[directory]="+w.dir)
	var active map[string]any
	w.call("session.active", 200, nil, &active)
	if len(pending) != 0 || w.waiting(id) != 1 || len(active) != 0 {
		t.Errorf("pending %v, waiting %d, active %v", pending, w.waiting(id), active)
	}
}

// A tool that is denied for everything is not offered, and unknown if the model calls it.
func TestDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, steps(calls(use("write", fields{"filePath": "x", "content": ""}))))
	id := w.session(fields{"permissions": []rule{{"edit", "*", "deny"}}})
	w.prompt(id, "msg_1", "go")
	w.await("session.execution.succeeded")
	if tools := w.model.Requests()[0].Tools; slices.Contains(tools, "write") || !slices.Contains(tools, "shell") {
		t.Errorf("offered: %v", tools)
	}
	if got := w.messages(id)[1].Content[0].State.Error; got == nil || got.Type != "tool.unknown" {
		t.Errorf("the call came to %+v", got)
	}
}

// A question is a form. An answer continues the turn, a cancellation ends it.
func TestQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, steps(calls(use("question", fields{"questions": []any{fields{
		"question": "Which?", "header": "Choice", "options": []any{fields{"label": "A", "description": "the first"}},
	}}}))))
	id := w.session(nil)
	ask := func() asked {
		w.await("form.created")
		var all []asked
		w.call("form.list", 200, nil, &all, "location[directory]="+w.dir)
		if len(all) != 1 || all[0].SessionID != id || all[0].Metadata["kind"] != "question" {
			t.Fatalf("forms: %+v", all)
		}
		return all[0]
	}
	w.prompt(id, "msg_1", "go")
	f := ask()
	w.call("session.form.reply", 204, fields{"answer": fields{"q0": "mine"}}, nil, id, f.ID)
	w.call("session.form.reply", 409, fields{"answer": fields{"q0": "mine"}}, nil, id, f.ID)
	w.await("session.execution.succeeded")
	if said := w.messages(id)[1].Content[0].State.Content[0].Text; !strings.Contains(said, `"Which?"="mine"`) {
		t.Errorf("the model read %q", said)
	}
	w.prompt(id, "msg_2", "again")
	f = ask()
	w.call("session.form.cancel", 204, nil, nil, id, f.ID)
	w.await("session.execution.interrupted")
	w.call("session.form.cancel", 409, nil, nil, id, f.ID)
}

// A sub-agent works in a child with its parent's rules and metadata, or without. In the background it wakes its idle
// parent when done.
func TestSubagent(t *testing.T) {
	t.Parallel()
	for _, bare := range []bool{false, true} {
		testSubagent(t, bare)
	}
}

func testSubagent(t *testing.T, bare bool) {
	release := make(chan struct{})
	w := newWorld(t, Behaviour{BareChildren: bare}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		switch {
		case strings.Contains(r.FirstUser(), "You are a subagent"):
			return scriptmodel.Reply{Text: "found it", Wait: release}
		case r.TurnsSinceUser() == 0 && !strings.Contains(r.LastUser(), "<subagent"):
			background := strings.Contains(r.LastUser(), "background")
			return calls(use("task", fields{
				"subagent_type": "general", "description": "look", "prompt": "look for it", "background": background,
			}))
		}
		return scriptmodel.Reply{Text: "well"}
	})
	id := w.session(fields{"permissions": []rule{{"shell", "*", "deny"}}, "metadata": fields{"tag": "x"}})
	w.prompt(id, "msg_1", "in the background")
	w.awaitIn(id, "session.execution.succeeded")
	if got := w.kinds(id); got != "user assistant:tool-calls assistant:stop idle:succeeded" {
		t.Errorf("before the child's end: %s", got)
	}
	close(release)
	w.awaitIn(id, "session.execution.succeeded")
	all := w.messages(id)
	woken := all[4]
	if woken.Type != "synthetic" || woken.Metadata["source"] != "subagent" || woken.Metadata["state"] != "completed" {
		t.Errorf("woken by %+v", woken)
	}
	var children []sessionInfo
	w.call("session.list", 200, nil, &children, "parentID="+id)
	if len(children) != 1 || children[0].Agent != "general" ||
		(len(children[0].Permissions) == 0) != bare || (children[0].Metadata["tag"] == nil) != bare {
		t.Fatalf("children: %+v", children)
	}
	w.prompt(id, "msg_2", "at once")
	w.awaitIn(id, "session.execution.succeeded")
	all = w.messages(id)
	if said := all[len(all)-3].Content[0].State.Content[0].Text; !strings.Contains(said, "found it") {
		t.Errorf("the parent read %q", said)
	}
	w.call("session.remove", 204, nil, nil, id)
	w.call("session.get", 404, nil, nil, children[0].ID)
}

func TestInterruptedChild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if strings.Contains(r.FirstUser(), "You are a subagent") {
			return scriptmodel.Reply{Wait: make(chan struct{})}
		}
		return calls(use("task", fields{"subagent_type": "general", "description": "look", "prompt": "look"}))
	})
	id := w.session(nil)
	w.prompt(id, "msg_1", "go")
	w.await("session.tool.progress")
	w.call("session.interrupt", 200, nil, nil, id)
	w.await("session.execution.interrupted")
	w.await("session.execution.interrupted")
}

func toolServer(t *testing.T) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo"},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct {
			Text string `json:"text"`
		}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "echo of " + in.Text}}}, nil, nil
		})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	served := httptest.NewServer(handler)
	t.Cleanup(served.Close)
	return served.URL
}

// An MCP server's tools are hidden unless its configuration says otherwise. They go with the server.
func TestMCP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		switch {
		case r.TurnsSinceUser() > 0:
			return scriptmodel.Reply{Text: "done"}
		case slices.Contains(r.Tools, "test_echo"):
			return calls(use("test_echo", fields{"text": "open"}))
		}
		return scriptmodel.Reply{Text: "no tools"}
	})
	id, here := w.session(nil), "location[directory]="+w.dir
	config := fields{"type": "remote", "url": toolServer(t), "oauth": false}
	turn := func(message, want string) {
		t.Helper()
		w.prompt(id, message, message)
		w.await("session.execution.succeeded")
		all := w.messages(id)
		got := all[len(all)-2].said()
		if len(all[len(all)-3].Content) > 0 {
			got = all[len(all)-3].Content[0].State.Content[0].Text
		}
		if got != want {
			t.Errorf("%s: %q", message, got)
		}
	}
	w.call("mcp.add", 204, fields{"config": config}, nil, "test", here)
	turn("msg_hidden", "no tools")
	config["codemode"] = false
	w.call("mcp.add", 204, fields{"config": config}, nil, "test", here)
	turn("msg_open", "echo of open")
	w.call("mcp.remove", 204, nil, nil, "test", here)
	turn("msg_gone", "no tools")

	w.call("mcp.add", 204, fields{"config": fields{"type": "remote", "url": "http://127.0.0.1:1"}}, nil, "test", here)
	var known []struct {
		Status struct{ Status, Error string }
	}
	w.call("mcp.list", 200, nil, &known, here)
	if len(known) != 1 || known[0].Status.Status != "failed" || known[0].Status.Error == "" {
		t.Errorf("known: %+v", known)
	}
}
