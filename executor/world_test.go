package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
	"github.com/bouldermgr/manager/workspace"
)

// world is a project, an executor on the real OpenCode, and a model that plays the test's script.
type world struct {
	t       *testing.T
	project string
	host    *opencode.Host
	exec    *Executor
	raised  raised
	requests
}

// raised has the blockers of a world, as its boulder would.
type raised struct {
	mu  sync.Mutex
	all []boulder.Blocker
}

func (r *raised) apply(b boulder.Body) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch b := b.(type) {
	case boulder.BlockerRaised:
		b.Blocker.ID = fmt.Sprint("B", len(r.all)+1)
		r.all = append(r.all, b.Blocker)
	case boulder.WaitEnded:
		for i := range r.all {
			if of := &r.all[i]; of.ID == b.BlockerID {
				of.Replied, of.Gone = of.Replied || b.Replied, of.Gone || !b.Replied
			}
		}
	}
}

func (r *raised) of(subTaskID string) (found []boulder.Blocker) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.all {
		if b.SubTaskID == subTaskID {
			found = append(found, b)
		}
	}
	return found
}

// records returns all blockers by their questions.
func (w *world) records() map[string]boulder.Blocker {
	w.raised.mu.Lock()
	defer w.raised.mu.Unlock()
	found := map[string]boulder.Blocker{}
	for _, b := range w.raised.all {
		found[b.Question] = b
	}
	return found
}

func (w *world) settle(d *away, id string, s blockers.Settlement) {
	w.raised.mu.Lock()
	defer w.raised.mu.Unlock()
	for i := range w.raised.all {
		if b := &w.raised.all[i]; b.ID == id {
			s, err := d.Check(b, s)
			if err != nil {
				w.t.Error(err)
			}
			b.Status, b.Answer, b.Allowed, b.SettledAt = s.Status, s.Answer, s.Allowed, time.Now()
			return
		}
	}
	w.t.Errorf("there is no %s", id)
}

// requests records what reached the model.
type requests struct {
	mu  sync.Mutex
	all []scriptmodel.Request
}

func (r *requests) count(holds func(scriptmodel.Request) bool) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range r.all {
		if holds(req) {
			n++
		}
	}
	return n
}

func (r *requests) prompts(text string) int {
	return r.count(func(req scriptmodel.Request) bool {
		return req.Kind() == scriptmodel.KindAgent && req.TurnsSinceUser() == 0 && strings.Contains(req.LastUser(), text)
	})
}

func (r *requests) watch(h scriptmodel.Handler) scriptmodel.Handler {
	return func(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
		r.mu.Lock()
		r.all = append(r.all, req)
		r.mu.Unlock()
		return h(ctx, req)
	}
}

func newWorld(t *testing.T, handler scriptmodel.Handler, change ...func(*Config)) *world {
	t.Helper()
	return worldIn(t, &shared.plain, handler, change...)
}

// newAskingWorld is newWorld with agents that have to ask.
func newAskingWorld(t *testing.T, handler scriptmodel.Handler, change ...func(*Config)) *world {
	t.Helper()
	return worldIn(t, &shared.asking, handler, change...)
}

func worldIn(t *testing.T, repos *octest.Repos, handler scriptmodel.Handler, change ...func(*Config)) *world {
	t.Helper()
	repository := repos.Take(t)
	w := &world{t: t, host: shared.host, project: repository}
	shared.cast.Play(t.Name()+":", w.watch(handler))
	t.Cleanup(func() { // w.project may be another one by now
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		conn, err := w.host.Connect(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		repos.Give(ctx, t, conn.Client.In(repository))
	})
	w.open(change...)
	return w
}

// ownWorld returns a world with a server of its own, for tests that harm it.
func ownWorld(
	t *testing.T, handler scriptmodel.Handler, serve func(home string, env []string) *opencode.Host, change ...func(*Config),
) *world {
	t.Helper()
	w := &world{t: t, project: octest.Repo(t, hello)}
	model := octest.Model(t, w.watch(handler))
	env := configured(octest.Env(t, model.URL()))
	w.host = serve(t.TempDir(), env)
	t.Cleanup(func() { stopHost(w.host) })
	w.open(change...)
	return w
}

func (w *world) open(change ...func(*Config)) {
	w.t.Helper()
	ws, err := workspace.Open(w.t.Context(), w.project)
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := Config{Host: w.host, Project: w.project, Workspace: ws}
	for _, c := range change {
		c(&cfg)
	}
	if w.exec, err = New(cfg); err != nil {
		w.t.Fatal(err)
	}
}

// bare returns an executor for tests that need neither server nor project.
func bare(cfg Config) *Executor {
	cfg.Host, cfg.Workspace, cfg.Project = &opencode.Host{}, &workspace.Workspace{}, cmp.Or(cfg.Project, "/")
	e, err := New(cfg)
	if err != nil {
		panic(err)
	}
	return e
}

func (w *world) file(name string) string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.project, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

func (w *world) dir() *opencode.Directory {
	w.t.Helper()
	conn, err := w.host.Connect(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return conn.Client.In(w.project)
}

// family is a turn whose agent, the ROOT, delegates, then waits at its model while sub-agents work.
type family struct {
	*attempt
	turn    <-chan error
	done    chan struct{} // one value per finished sub-agent
	release chan struct{} // closed to let the agent finish
}

// newFamily starts the turn. The agent makes the calls in first; play is the sub-agents' model.
func newFamily(
	t *testing.T, play scriptmodel.Handler, change func(*Config), first ...scriptmodel.ToolCall,
) (*world, *family) {
	t.Helper()
	waits := make(chan struct{}, 1)
	f := &family{done: make(chan struct{}, 4), release: make(chan struct{})}
	w := newAskingWorld(t, func(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case !strings.Contains(req.FirstUser(), ": ROOT"):
			r := play(ctx, req)
			if r.Text == wentOn {
				f.done <- struct{}{}
			}
			return r
		case req.AssistantTurns() < len(first):
			return calls(first[req.AssistantTurns()])
		}
		waits <- struct{}{}
		return scriptmodel.Reply{Text: wentOn, Wait: f.release}
	}, change)
	f.attempt = w.newAttempt("x", "ROOT")
	f.turn = f.start(t.Context(), w, f.run, wentOn)
	await(t, waits, f.turn)
	for range first {
		<-f.done
	}
	return w, f
}

// elsewhere prompts a sub-agent in another directory, and waits until it is done.
func (f *family) elsewhere(t *testing.T, dir *opencode.Directory, prompt string) {
	t.Helper()
	child, err := dir.CreateSession(t.Context(), opencode.NewSession{Title: "child", ParentID: f.session()})
	if err != nil {
		t.Fatal(err)
	}
	err = dir.Prompt(t.Context(), child.ID, opencode.Prompt{
		Model: opencode.Model("scripted/agent"), Text: t.Name() + ": " + prompt,
	})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-f.done:
	case err := <-f.turn:
		t.Fatalf("%s: the turn ended: %v", prompt, err)
	case <-time.After(time.Minute): // for a busy machine; an answer takes milliseconds
		t.Fatalf("%s: nobody answered: %q", prompt, f.activities())
	}
}

func (f *family) end(t *testing.T) {
	t.Helper()
	close(f.release)
	if err := <-f.turn; err != nil {
		t.Fatal(err)
	}
}

// attempt is a job and its reports, applied as the orchestrator would store them.
type attempt struct {
	boulder.Job
	mu     sync.Mutex
	bodies []boulder.Body
	raised *raised // of its world
	refuse func(boulder.Body) error
}

// newAttempt makes a job whose prompt names the test.
func (w *world) newAttempt(id, prompt string) *attempt {
	ref := boulder.AttemptRef{SubTaskID: id, Attempt: 1}
	return &attempt{Job: boulder.Job{
		BoulderID: "b", Project: w.project,
		SubTask: boulder.SubTask{ID: id, Subject: "Do " + id},
		Attempt: boulder.Attempt{AttemptRef: ref, Model: "scripted/agent", Tag: "manager:" + w.t.Name() + "/" + id + "#1"},
		Turn:    boulder.Turn{AttemptRef: ref, Number: 1, Kind: boulder.TurnBrief, Prompt: w.t.Name() + ": " + prompt},
		Resume:  "RESUME: go on where you were.",
		Alone:   func() bool { return true },
		Raised:  func(context.Context) ([]boulder.Blocker, error) { return w.raised.of(id), nil },
	}, raised: &w.raised}
}

func (a *attempt) report(b boulder.Body) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuse != nil {
		if err := a.refuse(b); err != nil {
			return err
		}
	}
	a.bodies = append(a.bodies, b)
	switch b := b.(type) {
	case boulder.SubTaskStart:
		a.Attempt.SessionID, a.SubTask.Snapshot = b.SessionID, b.Snapshot
		a.SubTask.AddBaseline(a.Checks, b.Baseline...)
	case boulder.Nudged:
		a.Turn.Nudges = append(slices.Clone(a.Turn.Nudges), boulder.Nudge{Rule: b.Rule, MessageID: b.MessageID, Prompt: b.Prompt})
	case boulder.TurnSent:
		if b.Resume {
			a.Turn.ResumeID = b.MessageID
		} else {
			a.Turn.MessageID, a.Turn.SentAt = b.MessageID, time.Now()
		}
	case boulder.SubTaskProgress:
		a.Attempt.Seen = b.Usage
	case boulder.BlockerRaised, boulder.WaitEnded:
		a.raised.apply(b)
	}
	return nil
}

func (a *attempt) run(ctx context.Context, w *world) (boulder.Evidence, error) {
	a.mu.Lock()
	job := a.Job
	a.mu.Unlock()
	job.SubTask.Blockers = w.raised.of(job.SubTask.ID)
	return w.exec.Run(ctx, job, a.report)
}

// mustRun runs a turn that must end without an error.
func (a *attempt) mustRun(t *testing.T, w *world) boulder.Evidence {
	t.Helper()
	e, err := a.run(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// start runs the turn in the background. The channel gets an error unless it ends with the message says.
func (a *attempt) start(ctx context.Context, w *world, run run, says string) <-chan error {
	done := make(chan error, 1)
	go func() {
		e, err := run(ctx, w)
		if err == nil && e.FinalMessage != says {
			err = fmt.Errorf("ended %+v with %q", e.Ended, e.FinalMessage)
		}
		done <- err
	}()
	return done
}

// errCrash stands for the death of the manager.
var errCrash = errors.New("crash")

// dies runs a turn and kills the manager at the first matching report, which a refusal keeps from being stored.
func (a *attempt) dies(t *testing.T, w *world, run run, at func(boulder.Body) bool, refusal error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	a.refuse = func(b boulder.Body) error {
		if !at(b) {
			return nil
		}
		cancel(errCrash)
		return refusal
	}
	if _, err := run(ctx, w); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	a.refuse = nil
}

// run is [attempt.run] or [attempt.again].
type run = func(context.Context, *world) (boulder.Evidence, error)

func is[T boulder.Body](b boulder.Body) bool {
	_, ok := b.(T)
	return ok
}

func does(activity string) func(boulder.Body) bool {
	return func(b boulder.Body) bool {
		p, ok := b.(boulder.SubTaskProgress)
		return ok && strings.Contains(p.Activity, activity)
	}
}

// again runs the turn as after a crash.
func (a *attempt) again(ctx context.Context, w *world) (boulder.Evidence, error) {
	a.mu.Lock()
	a.Recovered = true
	a.Attempt.Spent, a.Attempt.Seen = a.Attempt.Spent.Add(a.Attempt.Seen), boulder.Usage{}
	a.mu.Unlock()
	return a.run(ctx, w)
}

// await waits for a sign of the model, and fails the test if the turn ends first.
func await(t *testing.T, sign <-chan struct{}, turn <-chan error) {
	t.Helper()
	select {
	case <-sign:
	case err := <-turn:
		t.Fatalf("the turn ended before the model was asked: %v", err)
	}
}

func reported[T boulder.Body](a *attempt) []T {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []T
	for _, b := range a.bodies {
		if x, ok := b.(T); ok {
			out = append(out, x)
		}
	}
	return out
}

// session is safe to call while the turn runs.
func (a *attempt) session() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Attempt.SessionID
}

func (a *attempt) activities() []string {
	var s []string
	for _, p := range reported[boulder.SubTaskProgress](a) {
		s = append(s, p.Activity)
	}
	return s
}

func (a *attempt) saw(activity string) bool {
	return slices.ContainsFunc(a.activities(), func(s string) bool { return strings.Contains(s, activity) })
}

func script(t *testing.T, text string) scriptmodel.Handler {
	t.Helper()
	s, err := scriptmodel.ParseScript([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Reply
}
