package fakeopencode

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// Every route needs the password; an unknown path is the web page.
func TestHTTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, steps())
	for _, test := range []struct {
		path, user, password string
		want                 int
	}{
		{"/api/info", "", "", 401},
		{"/api/info", "opencode", "wrong", 401},
		{"/api/info", "other", "secret", 401},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.http.URL+test.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if test.user != "" {
			req.SetBasicAuth(test.user, test.password)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != test.want {
			t.Errorf("%s as %q: %d, want %d", test.path, test.user, resp.StatusCode, test.want)
		}
	}
	w.call("server.info", 200, nil, nil)
	for path, want := range map[string]string{"/api/health": "text/html", "/global/health": "text/html"} {
		resp := w.send(http.MethodGet, path, nil)
		_ = resp.Body.Close()
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s: %d %s", path, resp.StatusCode, got)
		}
	}
}

// A directory's lists fill in stages, one for each look at its plugins, which are listed when it has booted.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		behaviour Behaviour
		want      string // plugins, models and agents after each look
	}{
		"in stages": {Behaviour{}, "0 1 3, 0 1 4, 1 3 4, 1 3 4, "},
		"at once":   {Behaviour{FullCatalogue: true}, "1 3 4, 1 3 4, 1 3 4, 1 3 4, "},
		"never":     {Behaviour{NeverBoots: true}, "0 1 3, 0 1 4, 0 1 4, 0 1 4, "},
	} {
		w := newWorld(t, test.behaviour, steps())
		err := os.WriteFile(filepath.Join(w.dir, "opencode.json"), []byte(`{"agent":{"mine":{}}}`), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		got, here := "", "location[directory]="+w.dir
		count := func(list string) int {
			var all []any
			w.call(list, 200, nil, &all, here)
			return len(all)
		}
		if n := count("model.list"); !test.behaviour.FullCatalogue && n != 0 {
			t.Errorf("%s: %d models at first", name, n)
		}
		for range 4 {
			got += fmt.Sprintf("%d %d %d, ", count("plugin.list"), count("model.list"), count("agent.list"))
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// Pages have at most 200 elements. The last one has a cursor, to an empty page, unless LastPage is set.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, lastPage := range []bool{false, true} {
		w := newWorld(t, Behaviour{LastPage: lastPage}, steps())
		id := w.session(nil)
		for i := range 3 {
			w.prompt(id, fmt.Sprint("msg_", i), "go")
			w.await("session.execution.succeeded")
		}
		type page struct {
			Data   []*message
			Cursor struct{ Next string }
		}
		read := func(query string) (p page) {
			t.Helper()
			var whole page
			w.call("session.message.list", 200, nil, &whole.Data, id, query)
			resp := w.send(http.MethodGet, "/api/session/"+id+"/message?"+query, nil)
			defer resp.Body.Close()
			return decode[page](t, resp.Body)
		}
		first := read("limit=5")
		second := read("limit=5&cursor=" + first.Cursor.Next)
		if len(first.Data) != 5 || len(second.Data) != 4 || second.Data[3].ID != "msg_0" {
			t.Errorf("newest first: %d and %d messages", len(first.Data), len(second.Data))
		}
		if end := second.Cursor.Next == ""; end != lastPage {
			t.Errorf("the last page's cursor: %q", second.Cursor.Next)
		}
		if !lastPage {
			if third := read("cursor=" + second.Cursor.Next); len(third.Data) != 0 || third.Cursor.Next != "" {
				t.Errorf("after the last page: %+v", third)
			}
		}
		w.call("session.message.list", 400, nil, nil, id, "limit=201")
		w.call("session.message.get", 200, nil, nil, id, "msg_0")
		w.call("session.message.get", 404, nil, nil, id, "msg_none")
	}
}

func decode[T any](t *testing.T, from io.Reader) (out T) {
	t.Helper()
	if err := json.NewDecoder(from).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Rules, agent, model and instructions of a session can be changed.
func TestChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, steps())
	id := w.session(nil)
	w.call("session.update", 204, fields{"permissions": []rule{{"question", "*", "deny"}}}, nil, id)
	w.call("session.switchAgent", 204, fields{"agent": "plan"}, nil, id)
	w.call("session.switchModel", 204, fields{"model": fields{"providerID": "scripted", "id": "agent-2"}}, nil, id)
	w.call("session.instructions.entry.put", 204, fields{"value": "Be brief."}, nil, id, "tone")
	w.prompt(id, "msg_1", "go")
	w.await("session.execution.succeeded")
	first := w.model.Requests()[0]
	if first.Model != "agent-2" || slices.Contains(first.Tools, "question") || slices.Contains(first.Tools, "write") ||
		!strings.Contains(first.System, "Be brief.") {
		t.Errorf("the model got %+v", first)
	}
	const want = "agent-switched model-switched user assistant:stop idle:succeeded"
	if got := w.kinds(id); got != want {
		t.Error(got)
	}
}

// A killed server leaves a running tool in an inactive session. The next prompt turns the tool into an error.
func TestCrash(t *testing.T) {
	t.Parallel()
	killed := newWorld(t, Behaviour{}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.AssistantTurns() == 0 {
			return calls(use("bash", fields{"command": "sleep 600"}))
		}
		return scriptmodel.Reply{Text: "on"}
	})
	id := killed.session(nil)
	killed.prompt(id, "msg_1", "go")
	killed.await("session.tool.progress")
	w := &world{
		T: t, dir: killed.dir, model: killed.model, schemas: killed.schemas, environ: killed.environ,
		events: make(chan received, 1000),
	}
	w.start(Behaviour{})
	tool := w.messages(id)[1]
	var active map[string]any
	w.call("session.active", 200, nil, &active)
	if tool.Content[0].State.Status != "running" || tool.Time.Completed != 0 || len(active) != 0 {
		t.Errorf("after the crash: %+v, active %v", tool.Content[0].State, active)
	}
	w.prompt(id, "msg_2", "again")
	w.call("session.wait", 204, nil, nil, id)
	if state := w.messages(id)[1].Content[0].State; state.Status != "error" {
		t.Errorf("the tool is %+v", state)
	}
	if got := w.kinds(id); got != "user assistant user assistant:stop idle:succeeded" {
		t.Error(got)
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, steps(calls(use("bash", fields{"command": "sleep 600"}))))
	id := w.session(nil)
	w.prompt(id, "msg_1", "go")
	w.await("session.tool.progress")
	w.stop()
	w.start(Behaviour{})
	if got := w.kinds(id); got != "user assistant!aborted idle:interrupted" {
		t.Error(got)
	}
}

func TestSlowReader(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, steps())
	slow := make(listener, 1)
	w.server.mu.Lock()
	w.server.listeners[slow] = struct{}{}
	w.server.mu.Unlock()
	w.session(nil)
	w.session(nil)
	<-slow
	if _, open := <-slow; open {
		t.Error("it is served on")
	}
}

// A prompt that asks for JSON gets JSON, without tools if all are denied.
func TestStructured(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.Kind() != scriptmodel.KindStructured || string(r.Schema) != `{"type":"object"}` || len(r.Tools) > 0 {
			return scriptmodel.Errorf("%+v", r)
		}
		return scriptmodel.Reply{JSON: fields{"ok": true}}
	})
	id := w.session(fields{"permissions": []rule{{"*", "*", "deny"}}})
	w.prompt(id, "msg_1", "Is it?\nAnswer with JSON alone, of this schema:\n{\"type\":\"object\"}\n")
	w.await("session.execution.succeeded")
	if got := w.messages(id)[1].said(); got != `{"ok":true}` {
		t.Errorf("the answer is %q", got)
	}
}
