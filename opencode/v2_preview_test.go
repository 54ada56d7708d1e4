package opencode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/contract"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// preview is a client of the early OpenCode 2 API that 1.18 serves below /api, the only one that can be installed here.
// A proxy translates what differs and answers what is missing.
func preview(t *testing.T) *opencode.Client {
	t.Helper()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(shared.server.Client().Address())
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	mux := http.NewServeMux()
	mux.Handle("/", proxy)
	translate := func(pattern string, change func(in map[string]any)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			var in map[string]any
			_ = json.NewDecoder(r.Body).Decode(&in) // the client sends JSON
			change(in)
			body, _ := json.Marshal(in)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			proxy.ServeHTTP(w, r)
		})
	}
	translate("POST /api/session/{id}/prompt", func(in map[string]any) { in["prompt"] = map[string]any{"text": in["text"]} })
	translate("POST /api/session/{id}/permission/{request}/reply", func(in map[string]any) { in["reply"] = in["decision"] })
	for missing, answer := range map[string]string{"GET /api/info": `{"version":"2.0.21"}`, "GET /api/form": `{"data":[]}`} {
		mux.HandleFunc(missing, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, answer) })
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return attach(t, server.URL, shared.server.Config())
}

// OpenCode 2's client on a real server: initially empty lists, sessions, a prompt that runs once per id and again after
// an abort, permissions, paged messages, gapless events. Not parallel: booting a directory slows the shared server.
func TestPreviewOfOpenCode2(t *testing.T) {
	model := octest.Model(t, steps(bash("echo hi")))
	config := strings.Replace(scriptmodel.OpenCodeConfig(model.URL()), `"permission":"allow"`, `"permission":{"bash":"ask"}`, 1)
	dir := octest.Repo(t, map[string]string{"opencode.json": config})
	client := preview(t)
	s := &scene{t: t, mark: "[preview]", ctx: waiting(t), dir: client.In(dir)}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}

	models, err := s.dir.Catalogue(s.ctx)
	must(err)
	agents, err := s.dir.Agents(s.ctx)
	must(err)
	if !models.Has(agentModel) || !slices.Contains(agents, "build") {
		t.Errorf("models %v, agents %q", models, agents)
	}
	made, err := s.dir.CreateSession(s.ctx, opencode.NewSession{Agent: "build", Model: agentModel})
	must(err)
	got, err := s.dir.Session(s.ctx, made.ID)
	must(err)
	listed, err := s.dir.Sessions(s.ctx, opencode.SessionFilter{})
	must(err)
	if got.Directory != dir || got.Agent != "build" || got.Created.IsZero() || len(listed) != 1 || listed[0].ID != made.ID {
		t.Errorf("made %+v, listed %+v", got, listed)
	}
	if _, err := s.dir.Session(s.ctx, "ses_none"); !errors.Is(err, opencode.ErrNotFound) {
		t.Errorf("a session that never was: %v", err)
	}

	sub := s.follow(client, made.ID)
	id := opencode.NewMessageID(made.Created)
	send := func() {
		must(s.dir.Prompt(s.ctx, made.ID, opencode.Prompt{MessageID: id, Agent: "build", Model: agentModel, Text: "go"}))
	}
	asked := func() (r opencode.Request) {
		eventually(t, "a permission is asked for", func() bool {
			all, err := s.dir.Requests(s.ctx)
			must(err)
			if len(all) > 0 {
				r = all[0]
			}
			return len(all) > 0
		})
		return r
	}
	over := func() {
		eventually(t, "the session is idle", func() bool {
			all, err := s.dir.Statuses(s.ctx)
			must(err)
			return len(all) == 0
		})
	}
	send()
	pending := asked()
	if pending.SessionID != made.ID || pending.Permission != "bash" || !slices.Contains(pending.Patterns, "echo hi") {
		t.Errorf("asked for %+v", pending)
	}
	if all, err := s.dir.Statuses(s.ctx); err != nil || all[made.ID].Type != opencode.Busy {
		t.Errorf("meanwhile it is %v, %v", all, err)
	}
	send() // no effect: it is running
	must(s.dir.Abort(s.ctx, made.ID))
	over()
	send() // runs again after the abort
	must(s.dir.ReplyPermission(s.ctx, asked().ID, opencode.ReplyOnce, ""))
	over()
	send() // no effect: it is answered
	over()
	if n := len(model.Requests()); n != 3 {
		t.Errorf("the model was asked %d times, not for the aborted call, that call once more, and the answer", n)
	}
	all, err := s.dir.Messages(s.ctx, made.ID, 9)
	must(err)
	if len(all) != 4 || all[0].Info.ID != id || all[3].Text() != "done" || all[3].Info.Finish != opencode.FinishStop {
		t.Fatalf("the messages are %+v", all)
	}
	for i, m := range all[1:] {
		if m.Info.ParentID != id || m.Info.Completed.IsZero() {
			t.Errorf("message %d is %+v", i+1, m.Info)
		}
	}
	call := all[2].Parts[slices.IndexFunc(all[2].Parts, func(p opencode.Part) bool { return p.Tool != nil })].Tool
	if call.Tool != "bash" || call.State != opencode.ToolCompleted || !strings.HasPrefix(call.Output, "hi\n") {
		t.Errorf("the call is %+v", call)
	}
	n := 0
	for m, err := range s.dir.EachMessage(s.ctx, made.ID) {
		must(err)
		if m.Info.ID != all[n].Info.ID {
			t.Errorf("message %d is %s", n, m.Info.ID)
		}
		n++
	}
	events := await(s.ctx, t, sub, func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.Unknown) // named differently in OpenCode 2
		return ok && p.Type == "session.next.step.ended" && strings.Contains(string(p.Properties), `"finish":"stop"`)
	})
	if slices.ContainsFunc(events, contract.Is[opencode.Resync]) {
		t.Errorf("events are said to be missing: %s", kinds(events))
	}
}
