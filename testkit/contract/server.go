package contract

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

func handshake(s *scene) {
	client := s.dir.Client()
	s.want(client.Caps().Version != "", "the server says no version")
	_, err := opencode.Attach(s.ctx, client.Address(), opencode.AttachConfig{Password: "wrong"})
	s.skipUnless(err != nil || s.suite.server != nil, "the server has no password")
	s.want(errors.Is(err, opencode.ErrUnauthorized), "with a wrong password: %v", err)
}

func catalogue(s *scene) {
	all := must(s.dir.Catalogue(s.ctx))
	s.want(all.Has(agentModel) && !all.Has(noModel), "the models are %v", all.Providers())
	s.want(s.suite.server == nil || s.suite.Caps().Generation == 2 || !all.Has(hiddenModel), "a project has a provider that the environment does not enable")
	efforts := all.Efforts[agentModel]
	s.want(slices.Equal(efforts, []string{"high", "low"}), "the efforts of %s are %q", agentModel, efforts)
	fallback := must(s.dir.DefaultModel(s.ctx))
	s.want(fallback == agentModel.String(), "the default model is %q", fallback)
	agents := must(s.dir.Agents(s.ctx))
	s.want(slices.Contains(agents, "build") && slices.Contains(agents, nester), "the agents are %q", agents)
	rules := must(s.dir.AgentRules(s.ctx, ""))
	s.want(slices.Contains(rules, opencode.Rule{Permission: "*", Pattern: "*", Action: opencode.Allow}), "the default agent's rules are %v", rules)
}

func toast(s *scene) {
	s.skipUnless(s.suite.Caps().Toasts, "no call of its API shows one")
	s.must(s.dir.ShowToast(s.ctx, opencode.Toast{Message: "hello", Variant: "info"}))
}

func storedSession(s *scene) {
	rules := []opencode.Rule{{Permission: "bash", Pattern: "*", Action: opencode.Deny}}
	made := must(s.dir.CreateSession(s.ctx, opencode.NewSession{
		Title: s.mark, Metadata: map[string]any{"tag": "x"}, Agent: "build", Model: agentModel, Rules: rules,
	}))
	got := must(s.dir.Session(s.ctx, made.ID))
	s.want(got.Title == s.mark && got.Metadata["tag"] == "x" && got.Directory == s.dir.Path() && got.Agent == "build" &&
		slices.Equal(got.Rules, rules) && !got.Created.IsZero(), "stored as %+v", got)
	for range 2 {
		s.must(s.dir.DeleteSession(s.ctx, made.ID))
	}
	_, err := s.dir.Session(s.ctx, made.ID)
	s.want(errors.Is(err, opencode.ErrNotFound), "after its deletion: %v", err)
	_, err = s.dir.Message(s.ctx, made.ID, "msg_none")
	s.want(errors.Is(err, opencode.ErrNotFound), "a message that never was: %v", err)
}

func archivedSession(s *scene) {
	s.skipUnless(s.suite.Caps().Archives, "no call of its API archives one")
	made := must(s.dir.CreateSession(s.ctx, opencode.NewSession{Title: s.mark}))
	for _, at := range []time.Time{time.UnixMilli(made.Created.UnixMilli() + 1), {}} {
		s.must(s.dir.ArchiveSession(s.ctx, made.ID, at))
		got := must(s.dir.Session(s.ctx, made.ID))
		s.want(got.Archived.Equal(at) && got.Updated.Equal(made.Updated), "archived at %v: %+v", at, got)
	}
	err := s.dir.ArchiveSession(s.ctx, "ses_none", time.Now())
	s.want(errors.Is(err, opencode.ErrNotFound), "a session that never was: %v", err)
}

func listedSessions(s *scene) {
	s.model(scriptmodel.Steps())
	old, _ := s.newSession()
	titled := must(s.dir.CreateSession(s.ctx, opencode.NewSession{Title: s.mark + " TITLED"}))
	between := time.UnixMilli(titled.Updated.UnixMilli() + 1)
	busy, sub := s.newSession()
	s.send(busy, "go")
	s.idle(sub, busy)
	names := map[string]string{old: "old ", titled.ID: "titled ", busy: "busy "}
	for _, test := range []struct {
		filter opencode.SessionFilter
		want   string
	}{
		{opencode.SessionFilter{}, "busy titled old "},
		{opencode.SessionFilter{Title: s.mark + " titled"}, "titled "},
		{opencode.SessionFilter{UpdatedSince: between}, "busy "},
	} {
		found := must(s.dir.Sessions(s.ctx, test.filter))
		got := ""
		for _, one := range found {
			got += names[one.ID] // "" for sessions of other cases
		}
		s.want(got == test.want, "%+v finds %q, not %q", test.filter, got, test.want)
	}
}

func cutStream(s *scene) {
	s.model(scriptmodel.Steps())
	session, _ := s.newSession()
	target := must(url.Parse(s.dir.Client().Address()))
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, FlushInterval: -1}
	whole, cut := context.WithCancel(s.ctx)
	defer cut()
	address, _ := s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		if whole.Err() == nil {
			defer context.AfterFunc(whole, end)()
		}
		proxy.ServeHTTP(w, r.WithContext(ctx))
	}))
	client := must(s.dir.Client().Through(s.ctx, address))
	defer client.Close()
	sub := s.follow(client, session)
	cut()
	next[opencode.Disconnected](s, sub)
	next[opencode.Resync](s, sub)
	s.await(sub, "the answer", Answered(s.send(session, "go")))
}

func (s *scene) restart() {
	path := s.suite.Dir()
	s.suite.server.Stop(s.ctx)
	s.suite.server = must(s.suite.start(s.ctx, path))
	s.suite.dir = s.suite.server.Client().In(path)
	s.dir = s.suite.dir
}

// ended checks a killed and a stopped server in one case: most of the cost of each is the start of a server.
func ended(s *scene) {
	s.skipUnless(s.suite.server != nil, "it ends servers, and this one is yours")
	s.killed()
	s.stopped()
}

func (s *scene) killed() {
	server := s.suite.server
	session, _, messageID := s.begin(once(s.endless()))
	pid := s.endlessPID()
	s.must(syscall.Kill(server.PID(), syscall.SIGKILL))
	<-server.Done()
	s.want(runtime.GOOS != "linux" || !orphan.Running(pid), "the tool outlived its server")
	_, err := s.dir.Session(s.ctx, session)
	s.want(errors.Is(err, opencode.ErrUnavailable), "a call to a dead server: %v", err)

	s.restart()
	found := must(s.dir.Sessions(s.ctx, opencode.SessionFilter{Title: s.mark}))
	s.want(len(found) == 1 && found[0].ID == session, "found %+v", found)
	messages := must(s.dir.Messages(s.ctx, session, 10))
	s.want(len(messages) == 2 && messages[0].Info.ID == messageID && messages[1].Info.Completed.IsZero() &&
		slices.ContainsFunc(messages[1].Parts, func(p opencode.Part) bool {
			return p.Tool != nil && p.Tool.State == opencode.ToolRunning
		}), "of the turn is left %+v", messages)
	sub := s.follow(s.dir.Client(), session)
	s.sendAs(messageID, session, "go")
	s.await(sub, "the answer", Answered(messageID))
	s.must(os.Remove(s.file("pid")))
}

func (s *scene) stopped() {
	server := s.suite.server
	session, sub, _ := s.begin(scriptmodel.Steps(s.endless()))
	pid := s.endlessPID()
	for range 2 { // idempotent
		server.Stop(s.ctx)
	}
	err := syscall.Kill(-server.PID(), 0)
	s.want(errors.Is(err, syscall.ESRCH), "its process group is still there: %v", err)
	s.want(!orphan.Running(pid), "the tool still runs")
	for range sub.C() { // must end
		continue
	}
	_, err = s.dir.Statuses(s.ctx)
	s.want(errors.Is(err, opencode.ErrUnavailable), "a call to a stopped server: %v", err)

	s.restart()
	messages := must(s.dir.Messages(s.ctx, session, 1))
	s.want(len(messages) == 1 && !messages[0].Info.Completed.IsZero() && messages[0].Info.Error != nil &&
		messages[0].Info.Error.Name == opencode.MessageAborted, "the interrupted turn was stored as %+v", messages)
}
