package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/web"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

func storeIn(t testing.TB, dir string, samples ...*sample.Boulder) {
	t.Helper()
	state, err := store.EnsureDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(filepath.Join(state, store.FileName), store.Options{Timeout: time.Minute}) // pages read it
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range samples {
		events := s.State.TakeEvents()
		if err := db.Commit(t.Context(), s.State, events); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

const hostile = `</pre><script>alert(1)</script><img src=x onerror=alert(2)>" onclick="alert(3)`

// blocked stores two samples: one in which a sub-task waits for a hard blocker B1 and a permission B3, with a soft
// blocker B2; and one in the middle of its work.
func blocked(t testing.TB, dir string) {
	t.Helper()
	s, theme := sample.New(t, sample.ID), boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	s.Plan()
	s.Start(theme)
	for _, b := range []boulder.Blocker{
		{Category: boulder.BlockerSecurity, Question: "Which key signs the theme 主题? " + hostile, Context: hostile, Hard: true},
		{
			Category: boulder.BlockerArchitecture, Question: "Variables or classes?", Context: "Both work.",
			Options: []string{"CSS variables", hostile}, ChosenOption: "CSS variables", ChosenReasoning: "They need no build step.",
		},
	} {
		s.Raise(theme, b)
	}
	s.Raise(theme, boulder.Blocker{
		Category: boulder.BlockerPermission, Question: "May it run git push?", Context: "It has to be published.",
		Ask: &boulder.Ask{Kind: boulder.AskPermission, RequestID: "per_1", Permission: "bash", Patterns: []string{"git push *"}},
	})
	s.Apply(boulder.TurnEnded{AttemptRef: theme, Turn: 1, Evidence: boulder.Evidence{FinalMessage: hostile}})
	s.Apply(boulder.Parked{AttemptRef: theme, Reason: "waits for an answer to B1: " + hostile, Digest: "It waits."})
	at := sample.New(t, "01k3middle")
	at.Play()
	at.Apply(boulder.Cooled{Model: "test/small", Cooldown: boulder.Cooldown{Until: boulder.NoEnd(), Limit: 1, Full: 5, Reason: hostile}})
	storeIn(t, dir, s, at)
}

func newSite(t testing.TB, dir, public string) (*web.Site, error) {
	t.Helper()
	p, err := project.Open(dir, project.Options{Environ: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return web.NewSite(p, public, nil)
}

func site(t testing.TB, dir, public string) *web.Site {
	t.Helper()
	s, err := newSite(t, dir, public)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func serve(t testing.TB, s *web.Site) (root string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Serve(ctx, 0, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	root, _, _ = strings.Cut(s.Links()[0], "/link/")
	return root
}

// messages reads a stream. next returns one message at a time.
func messages(t testing.TB, r *http.Request) (next func() string) {
	t.Helper()
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	lines := bufio.NewReader(answer.Body)
	return func() (message string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line == "\n" {
				return message
			}
			message += line
		}
	}
}

// seq returns the number of the newest event of a boulder, as in message ids.
func seq(s *boulder.State) string { return fmt.Sprintf("%d.", s.Boulder.Seq) }

// browser is a browser with a session cookie.
type browser struct {
	t       testing.TB
	handler http.Handler
	cookie  *http.Cookie
}

const host = "127.0.0.1:" // a site that does not listen has an empty port

func enter(t testing.TB, s *web.Site) *browser {
	t.Helper()
	b := &browser{t: t, handler: s.Handler()}
	answer := b.do("GET", linkOf(t, s), nil)
	if answer.Code != http.StatusOK || len(answer.Result().Cookies()) != 1 {
		t.Fatalf("a new link: %d, %v", answer.Code, answer.Result().Cookies())
	}
	b.cookie = answer.Result().Cookies()[0]
	return b
}

func linkOf(t testing.TB, s *web.Site) string {
	t.Helper()
	u, err := url.Parse(strings.Replace(s.Links()[0], host, "127.0.0.1", 1))
	if err != nil {
		t.Fatal(err)
	}
	return u.Path
}

// do makes a request like a browser on one of the pages. change may alter it.
func (b *browser) do(method, path string, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	b.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequestWithContext(b.t.Context(), method, path, body)
	r.Host = host
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	b.handler.ServeHTTP(w, r)
	return w
}

func (b *browser) get(path string) string {
	b.t.Helper()
	w := b.do("GET", path, nil)
	if w.Code != http.StatusOK {
		b.t.Fatalf("GET %s: %d\n%s", path, w.Code, w.Body)
	}
	if strings.Contains(w.Body.String(), "template: ") {
		b.t.Errorf("GET %s: a template fails:\n%s", path, w.Body)
	}
	return w.Body.String()
}

// asking stores a boulder whose plan waits for approval, 01k3plan, and one whose replan does, 01k3replan.
func asking(t testing.TB, dir string) {
	t.Helper()
	plan := boulder.Plan{Version: 1, Task: "Add dark mode, " + hostile, SubTasks: []boulder.Spec{
		{ID: "one", Subject: "Do one " + hostile, Description: "Do it. " + hostile, SuccessCriteria: []string{"It is done."}, Gates: []string{"true # " + hostile}},
		{ID: "two", Subject: "Do two", Description: "Do it.", SuccessCriteria: []string{"It is done."}, DependsOn: []string{"one"}, Gates: []string{"npm test || true"}},
	}}
	planned := sample.New(t, "01k3plan")
	rev := boulder.PlanRevision{Number: 1, Plan: plan, Hash: plan.Hash(), Origin: boulder.OriginModel, AdoptedAt: planned.Now}
	planned.Apply(boulder.Planned{Revision: 1, Origin: boulder.OriginModel, Plan: rev})
	planned.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "the plan is not approved yet"})

	replan, ref := sample.New(t, "01k3replan"), boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	replan.Plan()
	replan.Start(ref)
	replan.Apply(boulder.ReplanStarted{AttemptRef: ref, Number: 1, Reason: "stuck: " + hostile, Replaces: replan.State.Remainder("theme")})
	replan.Apply(boulder.ReplanProposed{AttemptRef: ref, Replacement: boulder.Replacement{SubTasks: []boulder.Spec{
		{ID: "smaller", Subject: "Create half a theme " + hostile, Description: "Half of it.", Gates: []string{"go test ./half | tail"}},
	}}})
	replan.Apply(boulder.StatusChanged{Status: boulder.Paused, Reason: "a new plan has to be approved"})
	storeIn(t, dir, planned, replan)
}
