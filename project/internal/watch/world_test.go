package watch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project/internal/watch"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

const (
	// patience bounds every wait for the real server, which shares two cores with other tests.
	patience = 5 * time.Minute
	// never is a duration that no test outlives.
	never = time.Hour
)

// shared is the real server of the tests. Each test scripts its model's answers, and has a repository to itself.
var shared struct {
	cast     scriptmodel.Cast
	repos    octest.Repos
	compared octest.Repos // with OpenCode's snapshots
	model    *scriptmodel.Server
	env      []string // of the server
	server   *octest.Server
}

var start = sync.OnceValue(func() (err error) {
	home, err := os.MkdirTemp("", "watch-test")
	if err != nil {
		return err
	}
	if shared.repos.Home, err = filepath.EvalSymlinks(home); err != nil { // as OpenCode reports it
		return err
	}
	shared.compared.Home = filepath.Join(shared.repos.Home, "compared")
	if err := os.Mkdir(shared.compared.Home, 0o755); err != nil {
		return err
	}
	shared.repos.Files = map[string]string{"opencode.json": `{"snapshot": false}`}
	if shared.model, err = scriptmodel.Start(shared.cast.Reply); err != nil {
		return err
	}
	shared.env = scriptmodel.OpenCodeEnv(os.Environ(), shared.repos.Home, shared.model.URL())
	shared.server, err = octest.Serve(shared.repos.Home, shared.env, "0")
	return err
})

func TestMain(m *testing.M) {
	octest.Guard()
	code := m.Run()
	if shared.server != nil {
		shared.server.Kill()
	}
	if shared.model != nil {
		shared.model.Close()
	}
	if home := shared.repos.Home; home != "" {
		os.RemoveAll(home)
	}
	os.Exit(octest.CheckLeaks(code))
}

var agentModel = opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: scriptmodel.ModelAgent}

// world is a project on an OpenCode server, with a client of the user.
type world struct {
	t      *testing.T
	ctx    context.Context
	url    string
	client *opencode.Client
	dir    *opencode.Directory
	db     string
}

// newWorld disables OpenCode's snapshots, which are half the time of a turn. So changed files are no progress.
func newWorld(t *testing.T) *world {
	t.Helper()
	return worldIn(t, &shared.repos)
}

func comparedWorld(t *testing.T) *world {
	t.Helper()
	return worldIn(t, &shared.compared)
}

func worldIn(t *testing.T, repos *octest.Repos) *world {
	t.Helper()
	t.Parallel()
	if err := start(); err != nil {
		t.Fatal(err)
	}
	w := worldOn(t, shared.server.URL, repos.Take(t))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), patience)
		defer cancel()
		repos.Give(ctx, t, w.dir)
	})
	return w
}

func worldOn(t *testing.T, url, repository string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, url: url, db: filepath.Join(t.TempDir(), watch.FileName)}
	var err error
	if w.client, err = attach(ctx, url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	w.dir = w.client.In(repository)
	return w
}

func attach(ctx context.Context, url string) (*opencode.Client, error) {
	return opencode.Attach(ctx, url, opencode.AttachConfig{CallTimeout: patience})
}

// chat is a session of the user with its own scripted model.
type chat struct {
	t    *testing.T
	w    *world
	id   string
	mark string
	of   *running // the watch that was asked last
	next int      // index of its first decision that was not looked at
}

// begin creates a session and sends the user's first prompt.
func (w *world) begin(model scriptmodel.Handler, rules ...opencode.Rule) *chat {
	w.t.Helper()
	k := w.chat(opencode.NewSession{Title: w.t.Name(), Rules: rules}, model)
	k.user("Write a and b.")
	return k
}

// events subscribes to the project, and returns once the connection stands, so that nothing is missed.
func (w *world) events() *opencode.Subscription {
	sub := w.client.Subscribe(opencode.Filter{Directory: w.dir.Path()})
	<-sub.C()
	return sub
}

func (w *world) chat(n opencode.NewSession, model scriptmodel.Handler) *chat {
	w.t.Helper()
	k := &chat{t: w.t, w: w, mark: "[" + w.t.Name() + "/" + n.Title + "]"}
	shared.cast.Play(k.mark, model)
	s, err := w.dir.CreateSession(w.ctx, n)
	if err != nil {
		w.t.Fatal(err)
	}
	k.id = s.ID
	return k
}

func (k *chat) user(text string) {
	k.t.Helper()
	k.write(text+"\n"+k.mark, agentModel)
}

// write is [chat.user] for any model and without the mark. The scripted model needs the mark in the first prompt only.
func (k *chat) write(text string, model opencode.ModelRef) {
	k.t.Helper()
	k.prompt(opencode.Prompt{Agent: "build", Model: model, Text: text})
}

func (k *chat) prompt(p opencode.Prompt) {
	k.t.Helper()
	if err := k.w.dir.Prompt(k.w.ctx, k.id, p); err != nil {
		k.t.Fatal(err)
	}
}

// continuations returns the manager's prompts in the session, and fails unless there are want of them.
func (k *chat) continuations(want int) (all []opencode.Message) {
	k.t.Helper()
	for _, m := range k.messages() {
		if len(m.Parts) > 0 && m.Parts[0].Metadata[session.TagKey] == "watch" {
			all = append(all, m)
			if m.Info.Agent != "build" || m.Info.Model != agentModel {
				k.t.Errorf("a continuation went to %s with %s", m.Info.Agent, m.Info.Model)
			}
		}
	}
	if len(all) != want {
		k.t.Fatalf("%d continuations, want %d:\n%s", len(all), want, k.of.decisionLog(k.id))
	}
	return all
}

func (k *chat) messages() []opencode.Message {
	k.t.Helper()
	messages, err := k.w.dir.Messages(k.w.ctx, k.id, session.MaxMessages)
	if err != nil {
		k.t.Fatal(err)
	}
	return messages
}

// soon shortens the time after which a continuation without a sign of a turn is looked for, for tests of crashes.
func soon(c *watch.Config) { c.Policy.Admission = time.Second }

type running struct {
	w     *world
	stop  context.CancelFunc
	done  chan struct{}
	err   error
	store *watch.Store
	watch *watch.Watch

	mu    sync.Mutex
	log   []watch.Entry
	notes []string
	more  chan struct{} // closed and replaced with each entry and note
}

// watch starts a watch of the project. Times of the default policy are divided by about a hundred, and 2 failures are
// allowed instead of 5. The promise completes a session: it costs one model call, a list two.
func (w *world) watch(change ...func(*watch.Config)) *running {
	w.t.Helper()
	db, err := watch.OpenStore(w.db, store.Options{Timeout: patience})
	if err != nil {
		w.t.Fatal(err)
	}
	records, err := db.Records()
	if err != nil {
		w.t.Fatal(err)
	}
	p := enforcer.WatchPolicy()
	p.Idle, p.AbortWindow = 300*time.Millisecond, 50*time.Millisecond
	p.Cooldown, p.Countdown = 20*time.Millisecond, 50*time.Millisecond
	p.FailureReset, p.Admission, p.MaxFailures = 0, 20*time.Second, 2
	r := &running{w: w, store: db, done: make(chan struct{}), more: make(chan struct{})}
	cfg := watch.Config{
		Project: w.dir.Path(), Store: db, Records: records, Policy: p, DoneWhen: []string{boulder.DonePromise},
		Since: 15 * time.Minute, Redact: func(text string) string { return text }, Logger: slog.New(slog.DiscardHandler),
		Attach: func(ctx context.Context) (*opencode.Client, error) { return attach(ctx, w.url) },
		Show:   func(e watch.Entry) { r.add(func() { r.log = append(r.log, e) }) },
		Note:   func(text string) { r.add(func() { r.notes = append(r.notes, text) }) },
	}
	for _, c := range change {
		if c != nil {
			c(&cfg)
		}
	}
	r.watch = watch.New(cfg)
	var ctx context.Context
	ctx, r.stop = context.WithCancel(w.t.Context())
	go func() {
		defer close(r.done)
		defer db.Close()
		r.err = r.watch.Run(ctx)
	}()
	w.t.Cleanup(r.end)
	return r
}

func (r *running) again(change ...func(*watch.Config)) *running {
	r.w.t.Helper()
	r.end()
	return r.w.watch(change...)
}

func (r *running) add(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what()
	close(r.more)
	r.more = make(chan struct{})
}

func (r *running) end() {
	r.w.t.Helper()
	r.stop()
	<-r.done
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		r.w.t.Errorf("the watch ended: %v", r.err)
	}
}

// ask sends a request over the socket, like another process.
func (r *running) ask(req watch.Request) (watch.Report, error) {
	r.w.t.Helper()
	socket := filepath.Join(r.w.t.TempDir(), watch.SocketName)
	server, err := r.watch.Serve(r.w.ctx, socket, watch.Holder{PID: 42})
	if err != nil {
		r.w.t.Fatal(err)
	}
	defer server.Close()
	return watch.Call(r.w.ctx, socket, req)
}

// wait waits until holds is true. It calls holds under the lock.
func (r *running) wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for ended := false; ; {
		r.mu.Lock()
		ok, more := holds(), r.more
		r.mu.Unlock()
		if ok {
			return
		}
		if ended {
			t.Fatalf("the watch ended (%v) before %s; so far:\n%s", r.err, what, r.decisionLog(""))
		}
		select {
		case <-more:
		case <-r.done:
			ended = true
		case <-r.w.ctx.Done():
			t.Fatalf("waited in vain for %s; so far:\n%s", what, r.decisionLog(""))
		}
	}
}

func (r *running) waitForNote(text string) {
	r.w.t.Helper()
	r.wait(r.w.t, "the note "+text, func() bool {
		return slices.ContainsFunc(r.notes, func(n string) bool { return strings.Contains(n, text) })
	})
}

// until waits for and returns the session's next decision that is "kind gate" and has this in its reason.
func (k *chat) until(r *running, what string, reason ...string) (found watch.Entry) {
	k.t.Helper()
	if k.of != r {
		k.of, k.next = r, 0
	}
	r.wait(k.t, fmt.Sprintf("%q %q of %s", what, reason, k.id), func() bool {
		for i := k.next; i < len(r.log); i++ {
			e := r.log[i]
			if e.SessionID == k.id && named(e) == what && strings.Contains(e.Reason, strings.Join(reason, "")) {
				found, k.next = e, i+1
				return true
			}
		}
		return false
	})
	return found
}

// decisionLog lists the decisions about a session so far, or about all sessions if id is empty.
func (r *running) decisionLog(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, e := range r.log {
		if id == "" || id == e.SessionID {
			fmt.Fprintf(&b, "%s %s: %s [%d/%d]\n", e.SessionID[len(e.SessionID)-4:], named(e), e.Reason, e.Iteration, e.Failures)
		}
	}
	fmt.Fprintf(&b, "notes: %q\n", r.notes)
	return b.String()
}

func named(e watch.Entry) string { return fmt.Sprintf("%s %s", e.Decision, e.Gate) }

func say(text string) scriptmodel.Reply { return scriptmodel.Reply{Text: text} }

func use(tool string, args map[string]any) scriptmodel.Reply {
	return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{Name: tool, Args: args}}}
}

// list writes a todo list. items are content and status in turns.
func list(items ...string) scriptmodel.Reply {
	var todos []map[string]any
	for i := 0; i < len(items); i += 2 {
		todos = append(todos, map[string]any{"content": items[i], "status": items[i+1], "priority": "high"})
	}
	return use("todowrite", map[string]any{"todos": todos})
}

func bash(command string) scriptmodel.Reply {
	return use("bash", map[string]any{"command": command, "description": "Run it"})
}

// both makes the tool calls of two replies in one message.
func both(a, b scriptmodel.Reply) scriptmodel.Reply {
	return scriptmodel.Reply{ToolCalls: slices.Concat(a.ToolCalls, b.ToolCalls)}
}

// Todo lists of the scripted agents.
var (
	half  = list("Write a", "completed", "Write b", "pending")
	whole = list("Write a", "completed", "Write b", "completed")
)

// steps answers by the number of replies that the session already has.
func steps(replies ...scriptmodel.Reply) scriptmodel.Handler {
	return func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if n := r.AssistantTurns(); n < len(replies) {
			return replies[n]
		}
		return say("I have nothing to add.")
	}
}

// listed makes the todo list complete a session.
func listed(c *watch.Config) { c.DoneWhen = []string{boulder.DoneTodos} }

var promised = say("Both are there.\n" + boulder.Promise)

// twice needs one continuation.
var twice = steps(say("I wrote a."), promised)
