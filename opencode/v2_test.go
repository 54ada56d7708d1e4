package opencode_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/contract"
	"github.com/bouldermgr/manager/testkit/fakeopencode"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// standIn is a scene with an OpenCode 2 stand-in and a model of its own.
type standIn struct {
	*scene
	model   *scriptmodel.Server
	session opencode.Session
	sub     *opencode.Subscription
	base    string // URL with the password
}

func newStandIn(t *testing.T, b fakeopencode.Behaviour, handler scriptmodel.Handler, rules ...opencode.Rule) *standIn {
	t.Helper()
	model, dir := octest.Model(t, handler), octest.Repo(t, nil)
	base := octest.ServeStandIn(t, b, dir, octest.Env(t, model.URL()))
	client := attach(t, base, opencode.AttachConfig{})
	s := &standIn{
		scene: &scene{t: t, mark: "[" + t.Name() + "]", ctx: waiting(t), dir: client.In(dir)}, model: model, base: base,
	}
	s.session, s.sub = s.scene.session(rules...), s.follow(client)
	return s
}

// wantQuiet sends a prompt, and fails the test unless its turn is all that happens.
func (s *standIn) wantQuiet(after string) {
	s.t.Helper()
	marker := s.send(s.session.ID, "marker")
	events := await(s.ctx, s.t, s.sub, contract.Status(opencode.Idle))
	busy := slices.IndexFunc(events, contract.Status(opencode.Busy))
	early := slices.ContainsFunc(events[:max(busy, 0)], contract.Is[opencode.MessageUpdated])
	if early || slices.ContainsFunc(events, contract.Is[opencode.Resync]) || !slices.ContainsFunc(events, contract.Answered(marker)) {
		s.t.Errorf("after %s came: %s", after, kinds(events))
	}
}

// An aborted prompt runs again under its id, each time it is sent; an answered one does not. It is listed once.
func TestPromptRunsAgain(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, fakeopencode.Behaviour{}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.AssistantTurns() < 2 {
			return bash("sleep 600")
		}
		return scriptmodel.Reply{Text: "done"}
	})
	id := s.send(s.session.ID, "go")
	for range 2 {
		await(s.ctx, t, s.sub, contract.Tool(opencode.ToolRunning))
		if err := s.dir.Abort(s.ctx, s.session.ID); err != nil {
			t.Fatal(err)
		}
		await(s.ctx, t, s.sub, contract.Status(opencode.Idle))
		s.sendAs(id, s.session.ID, "go")
	}
	await(s.ctx, t, s.sub, contract.Answered(id))
	await(s.ctx, t, s.sub, contract.Status(opencode.Idle))
	s.sendAs(id, s.session.ID, "go")
	s.wantQuiet("an answered prompt that was sent again")
	all, err := s.dir.Messages(s.ctx, s.session.ID, 9)
	if err != nil || len(all) != 6 || all[0].Info.ID != id {
		t.Fatalf("%d messages, want two prompts, two cut off answers and two whole ones: %v", len(all), err)
	}
	for _, m := range all[1:4] {
		if m.Info.ParentID != id {
			t.Errorf("%s has the parent %s", m.Info.ID, m.Info.ParentID)
		}
	}
	if e := all[1].Info.Error; e == nil || e.Name != opencode.MessageAborted {
		t.Errorf("the first answer ended with %v", e)
	}
}

// An abort ends commands that the server leaves running, a sub-agent's too, and no others.
func TestAbortEndsCommands(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, fakeopencode.Behaviour{LeavesCommands: true}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		switch {
		case strings.Contains(r.FirstUser(), "the child's work"):
			return bash("echo $$ > child; exec sleep 600")
		case strings.Contains(r.FirstUser(), "delegate"):
			return call("task", map[string]any{"description": "help", "prompt": "the child's work", "subagent_type": "general"})
		}
		return bash("echo $$ > other; exec sleep 600")
	})
	s.send(s.session.ID, "delegate")
	child := awaitPID(t, filepath.Join(s.dir.Path(), "child"))
	s.send(s.scene.session().ID, "work")
	other := awaitPID(t, filepath.Join(s.dir.Path(), "other"))
	if err := s.dir.Abort(s.ctx, s.session.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command is gone", func() bool { return !orphan.Running(child) })
	if !orphan.Running(other) {
		t.Error("another session's command was ended")
	}
}

// An execution without work gives no events: they would pass for the end of a turn.
func TestEmptyExecution(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, fakeopencode.Behaviour{}, steps())
	id := s.send(s.session.ID, "go")
	await(s.ctx, t, s.sub, contract.Status(opencode.Idle))
	body := fmt.Sprintf(`{"id":%q,"text":%q}`, id, s.mark+" go")
	resp, err := http.Post(s.base+"/api/session/"+s.session.ID+"/prompt", "application/json", strings.NewReader(body))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	resp.Body.Close()
	s.wantQuiet("an empty execution")
}

// The agent reads a refusal's reason, which the tool's result lacks. A turn ended by it and the next appear as one.
func TestRefusalIsExplained(t *testing.T) {
	t.Parallel()
	for _, calls := range []int{1, 2} {
		var ask scriptmodel.Reply
		for i := range calls {
			ask.ToolCalls = append(ask.ToolCalls, bash(fmt.Sprint("touch ", i)).ToolCalls...)
		}
		s := newStandIn(t, fakeopencode.Behaviour{}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
			if r.AssistantTurns() == 0 {
				return ask
			}
			return scriptmodel.Reply{Text: "done"}
		}, opencode.Rule{Permission: "bash", Pattern: "*", Action: opencode.Ask})
		id := s.send(s.session.ID, "go")
		var asked opencode.Request
		for range calls {
			asked = next[opencode.Asked](s.scene, s.sub).Request
		}
		if asked.Permission != "bash" || asked.Tool == nil {
			t.Errorf("asked for %+v", asked)
		}
		if err := s.dir.ReplyPermission(s.ctx, asked.ID, opencode.ReplyReject, "not on a Sunday"); err != nil {
			t.Fatal(err)
		}
		events := await(s.ctx, t, s.sub, contract.Status(opencode.Idle))
		if slices.ContainsFunc(events, contract.Is[opencode.SessionFailed]) {
			t.Errorf("%d calls: the turn was ended: %s", calls, kinds(events))
		}
		read := s.model.Requests()
		if last := read[len(read)-1]; !strings.Contains(last.LastUser(), "not on a Sunday") {
			t.Errorf("%d calls: the model read %q last", calls, last.LastUser())
		}
		all, err := s.dir.Messages(s.ctx, s.session.ID, 9)
		if err != nil || len(all) != 4 || all[0].Info.ID != id || all[3].Text() != "done" {
			t.Fatalf("%d calls: %d messages, %v", calls, len(all), err)
		}
		if p := all[2].Parts[0]; !p.Synthetic {
			t.Errorf("%d calls: the user seems to have written %+v", calls, p)
		}
	}
}

// A session continues when its background sub-agent ends. Until then neither events nor statuses report it as idle.
func TestBackgroundSubAgent(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := newStandIn(t, fakeopencode.Behaviour{}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		switch {
		case strings.Contains(r.FirstUser(), "the child's work"):
			return scriptmodel.Reply{Text: "the child's result", Wait: release}
		case strings.Contains(r.LastUser(), "the child's result"):
			return scriptmodel.Reply{Text: "done"}
		case r.AssistantTurns() == 0:
			return call("task", map[string]any{
				"description": "help", "prompt": "the child's work", "subagent_type": "general", "background": true,
			})
		}
		return scriptmodel.Reply{Text: "waiting"}
	})
	s.send(s.session.ID, "go")
	own := func(match func(opencode.Event) bool) func(opencode.Event) bool {
		return func(e opencode.Event) bool { return e.SessionID == s.session.ID && match(e) }
	}
	stopped := func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.MessageUpdated)
		return ok && p.Message.Finish == opencode.FinishStop
	}
	await(s.ctx, t, s.sub, own(stopped))
	statuses, err := s.dir.Statuses(s.ctx)
	if err != nil || statuses[s.session.ID].Type != opencode.Busy {
		t.Errorf("while the child works: %v, %v", statuses, err)
	}
	close(release)
	events := await(s.ctx, t, s.sub, own(contract.Status(opencode.Idle)))
	if !slices.ContainsFunc(events, own(stopped)) {
		t.Errorf("idle before the child's result was read: %s", kinds(events))
	}
}

// What a sub-agent inherits from its session is left as it is, exceptions from denials included.
func TestInheritedRules(t *testing.T) {
	t.Parallel()
	deny := opencode.Rule{Permission: "webfetch", Pattern: "*", Action: opencode.Deny}
	except := opencode.Rule{Permission: "webfetch", Pattern: "https://example.com/*", Action: opencode.Allow}
	s := newStandIn(t, fakeopencode.Behaviour{}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.AssistantTurns() > 0 || strings.Contains(r.FirstUser(), "the child's work") {
			return scriptmodel.Reply{Text: "done"}
		}
		return call("task", map[string]any{"description": "help", "prompt": "the child's work", "subagent_type": "general"})
	}, deny, except)
	s.send(s.session.ID, "go")
	events := await(s.ctx, t, s.sub, func(e opencode.Event) bool {
		return e.SessionID == s.session.ID && contract.Status(opencode.Idle)(e)
	})
	for _, e := range events {
		if p, ok := e.Payload.(opencode.Unknown); ok && p.Type == "session.permissions" {
			t.Errorf("rules were set: %s", p.Properties)
		}
	}
	children, err := s.dir.Children(s.ctx, s.session.ID)
	if err != nil || len(children) != 1 || !slices.Equal(children[0].Rules, []opencode.Rule{deny, except}) {
		t.Errorf("%+v, %v", children, err)
	}
}

// A sub-agent gets its session's denials from a server that does not pass them on, even if the program restarted and no
// event announced the sub-agent.
func TestDenialsOutliveTheProgram(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := newStandIn(t, fakeopencode.Behaviour{BareChildren: true}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		switch {
		case r.AssistantTurns() > 0:
			return scriptmodel.Reply{Text: "done"}
		case strings.Contains(r.FirstUser(), "the child's work"):
			return scriptmodel.Reply{Text: "done", Wait: release}
		}
		return call("task", map[string]any{"description": "help", "prompt": "the child's work", "subagent_type": "general"})
	})
	deny := opencode.Rule{Permission: "webfetch", Pattern: "*", Action: opencode.Deny}
	former := attach(t, s.base, opencode.AttachConfig{}).In(s.dir.Path()) // never follows events
	root, err := former.CreateSession(s.ctx, opencode.NewSession{Title: "denied", Rules: []opencode.Rule{
		deny, {Permission: "bash", Pattern: "*", Action: opencode.Ask},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s.sub.Close()
	s.dir.Client().Close()
	if err := former.Prompt(s.ctx, root.ID, opencode.Prompt{Model: agentModel, Text: s.mark}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the sub-agent works", func() bool { return len(s.model.Requests()) == 2 })

	successor := attach(t, s.base, opencode.AttachConfig{})
	s.dir = successor.In(s.dir.Path())
	sub := s.follow(successor, root.ID)
	close(release)
	await(s.ctx, t, sub, func(e opencode.Event) bool { return e.SessionID == root.ID && contract.Status(opencode.Idle)(e) })
	children, err := s.dir.Children(s.ctx, root.ID)
	if err != nil || len(children) != 1 || !slices.Equal(children[0].Rules, []opencode.Rule{deny}) {
		t.Errorf("%+v, %v", children, err)
	}
}

// Lists come in pages of at most 200, whether or not the last one has a cursor.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, marked := range []bool{false, true} {
		s := newStandIn(t, fakeopencode.Behaviour{LastPage: marked}, steps())
		const n = 105
		for range n {
			s.send(s.session.ID, "go")
			await(s.ctx, t, s.sub, contract.Status(opencode.Idle))
		}
		seen := 0
		for m, err := range s.dir.EachMessage(s.ctx, s.session.ID) {
			if err != nil || (m.Info.Role == opencode.RoleUser) != (seen%2 == 0) {
				t.Fatalf("message %d is %+v, %v", seen, m.Info, err)
			}
			seen++
		}
		all, err := s.dir.Messages(s.ctx, s.session.ID, 3*n)
		if err != nil || len(all) != 2*n || seen != 2*n {
			t.Errorf("%d and %d messages of %d, %v", len(all), seen, 2*n, err)
		}
		newest, err := s.dir.Messages(s.ctx, s.session.ID, 3)
		if err != nil || len(newest) != 3 || newest[2].Info.ID != all[2*n-1].Info.ID ||
			newest[0].Info.ParentID != all[2*n-4].Info.ID {
			t.Errorf("the newest are %+v, %v", newest, err)
		}
	}
}

// Messages with many images are read in smaller pages, from the one on that was too long.
func TestLongPages(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/info", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, `{"version":"2.0.21"}`) })
	mux.HandleFunc("GET /api/session/{id}/message", func(w http.ResponseWriter, r *http.Request) {
		first, _ := strconv.Atoi(r.FormValue("cursor"))
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		if limit > 100 && first > 0 {
			endless(w, r)
			return
		}
		var page []string
		for i := first; i < min(first+limit, 450); i++ {
			page = append(page, fmt.Sprintf(`{"id":"msg_%d","type":"user"}`, i))
		}
		writeJSON(w, fmt.Sprintf(`{"data":[%s],"cursor":{"next":"%d"}}`, strings.Join(page, ","), first+len(page)))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	seen := 0
	for m, err := range attach(t, server.URL, opencode.AttachConfig{}).In("/p").EachMessage(t.Context(), "ses_1") {
		if err != nil || m.Info.ID != fmt.Sprintf("msg_%d", seen) {
			t.Fatalf("message %d is %q, %v", seen, m.Info.ID, err)
		}
		seen++
	}
	if seen != 450 {
		t.Errorf("%d messages of 450", seen)
	}
}

// Statuses report a retry too, not only events.
func TestRetryIsAState(t *testing.T) {
	t.Parallel()
	s := newStandIn(t, fakeopencode.Behaviour{}, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		return scriptmodel.Reply{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "600"}}
	})
	s.send(s.session.ID, "go")
	await(s.ctx, t, s.sub, contract.Status(opencode.Retry))
	statuses, err := s.dir.Statuses(s.ctx)
	if got := statuses[s.session.ID]; err != nil || got.Type != opencode.Retry || got.Attempt != 1 || got.Next.IsZero() {
		t.Errorf("the statuses are %+v, %v", statuses, err)
	}
	if err := s.dir.Abort(s.ctx, s.session.ID); err != nil {
		t.Fatal(err)
	}
	await(s.ctx, t, s.sub, contract.Status(opencode.Idle))
	if statuses, err := s.dir.Statuses(s.ctx); err != nil || len(statuses) != 0 {
		t.Errorf("after the abort: %+v, %v", statuses, err)
	}
}

// A client that connects in the middle of a turn learns its prompt and its running tool.
func TestConnectedInMidTurn(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := newStandIn(t, fakeopencode.Behaviour{}, steps(
		bash("until [ -e go ]; do sleep 0.02; done"), scriptmodel.Reply{Text: "done", Wait: release},
	))
	id := s.send(s.session.ID, "go")
	await(s.ctx, t, s.sub, contract.Tool(opencode.ToolRunning))
	late := attach(t, s.base, opencode.AttachConfig{}).Subscribe(opencode.Filter{})
	defer late.Close()
	await(s.ctx, t, late, contract.Is[opencode.Resync])
	if err := os.WriteFile(filepath.Join(s.dir.Path(), "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := toolIn(s.scene, late, opencode.ToolCompleted)
	if got.Tool != "bash" || !strings.Contains(string(got.Input), "until") {
		t.Errorf("what ended is %+v", got)
	}
	close(release)
	await(s.ctx, t, late, contract.Answered(id))
}

// A session that OpenCode's background service resumed after a crash gets no prompt before that work has ended.
func TestSessionOfABackgroundService(t *testing.T) {
	t.Parallel()
	const (
		user   = `{"id":"msg_1","type":"user","time":{"created":1}}`
		taken  = `{"id":"msg_2","type":"synthetic","description":"Continuing after restart","time":{"created":2}}`
		answer = `{"id":"msg_3","type":"assistant","time":{"created":3}}`
		ended  = `{"id":"msg_4","type":"idle","outcome":"succeeded"}`
	)
	recent := fmt.Sprintf(`{"id":"msg_5","type":"assistant","time":{"created":3,"completed":%d}}`, time.Now().UnixMilli())
	for name, test := range map[string]struct {
		newestFirst []string
		refused     bool
	}{
		"not taken up":             {[]string{recent, user}, false},
		"at work":                  {[]string{recent, taken, user}, true},
		"at work for a long while": {[]string{recent, answer, taken, user}, true},
		"has ended":                {[]string{ended, recent, taken}, false},
		"is gone itself":           {[]string{answer, taken, user}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sent := false
			mux := http.NewServeMux()
			reply := func(pattern, body string) {
				mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, body) })
			}
			reply("GET /api/info", `{"version":"2.0.21"}`)
			reply("GET /api/session/active", `{"data":{}}`)
			reply("GET /api/session/s", `{"data":{"id":"s","time":{"updated":2}}}`) // its last prompt
			reply("GET /api/session/s/message", `{"data":[`+strings.Join(test.newestFirst, ",")+`],"cursor":{}}`)
			mux.HandleFunc("POST /api/session/s/prompt", func(w http.ResponseWriter, _ *http.Request) {
				sent = true
				writeJSON(w, `{}`)
			})
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			dir := attach(t, server.URL, opencode.AttachConfig{}).In("/repo")
			for range 2 {
				err := dir.Prompt(t.Context(), "s", opencode.Prompt{MessageID: "msg_new", Text: "go on"})
				if errors.Is(err, opencode.ErrUnavailable) != test.refused || sent == test.refused {
					t.Errorf("%v, sent: %t", err, sent)
				}
			}
		})
	}
}

// A server with only the API before 2.0.4 is refused, whatever version it claims, started or attached.
func TestOlderAPI(t *testing.T) {
	t.Parallel()
	older := fakeopencode.Behaviour{Older: true, Version: "2.0.18"}
	refused := func(err error) {
		t.Helper()
		if _, ok := errors.AsType[*opencode.VersionError](err); !ok || !strings.Contains(err.Error(), "update it to 2.0.4 or later") {
			t.Errorf("it is used: %v", err)
		}
	}
	_, err := opencode.Attach(t.Context(), octest.ServeStandIn(t, older, t.TempDir(), octest.Env(t, "")), opencode.AttachConfig{})
	refused(err)
	binary, err := octest.StandIn(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, err = opencode.Start(t.Context(), opencode.ServerConfig{
		Binary: binary, Dir: t.TempDir(), Env: append(octest.Env(t, ""), older.Env()), StartTimeout: patience,
	})
	refused(err)
}
