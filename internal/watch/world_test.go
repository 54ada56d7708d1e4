package watch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/internal/watch"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

var agentModel = opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: scriptmodel.ModelAgent}

// world is a project on the real OpenCode, with a person's client.
type world struct {
	t      *testing.T
	ctx    context.Context
	url    string
	client *opencode.Client
	dir    *opencode.Directory
	db     string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if err := shared.start(); err != nil {
		t.Fatal(err)
	}
	w := worldOn(t, shared.server.URL, shared.repos.Take(t))
	t.Cleanup(w.leave)
	return w
}

// leave deletes the sessions, so that the repository can be used by another test.
func (w *world) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), patience)
	defer cancel()
	all, err := w.dir.Sessions(ctx, opencode.SessionFilter{})
	for _, s := range all {
		err = errors.Join(err, w.dir.Abort(ctx, s.ID))
		if deleteErr := w.dir.DeleteSession(ctx, s.ID); !errors.Is(deleteErr, opencode.ErrNotFound) { // with its parent
			err = errors.Join(err, deleteErr)
		}
	}
	if err != nil {
		w.t.Errorf("cannot clear the repository: %v", err)
		return
	}
	shared.repos.Give(w.t, w.dir.Path())
}

func worldOn(t *testing.T, url, repository string) *world {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, url: url, db: filepath.Join(t.TempDir(), watch.FileName)}
	var err error
	if w.client, err = opencode.Attach(ctx, url, opencode.AttachConfig{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.client.Close)
	w.dir = w.client.In(repository)
	return w
}

// talk is a session of a person, with a model of its own.
type talk struct {
	t    *testing.T
	w    *world
	id   string
	mark string
	next int // of the decisions about it, the first that was not looked at
}

// begin makes a session, and has a person write in it.
func (w *world) begin(t *testing.T, model scriptmodel.Handler, rules ...opencode.Rule) *talk {
	t.Helper()
	k := w.talk(t, opencode.NewSession{Title: t.Name(), Rules: rules}, model)
	k.person("Write a and b.")
	return k
}

// talk makes a session.
func (w *world) talk(t *testing.T, n opencode.NewSession, model scriptmodel.Handler) *talk {
	t.Helper()
	k := &talk{t: t, w: w, mark: "[" + t.Name() + "/" + n.Title + "]"}
	shared.cast.Play(k.mark, model)
	s, err := w.dir.CreateSession(w.ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	k.id = s.ID
	return k
}

// person writes in the session.
func (k *talk) person(text string) {
	k.t.Helper()
	k.write(text + "\n" + k.mark)
}

// write is [talk.person] without the mark, of which the model knows the session by then.
func (k *talk) write(text string) {
	k.t.Helper()
	err := k.w.dir.Prompt(k.w.ctx, k.id, opencode.Prompt{
		Agent: "build", Model: agentModel, Parts: []opencode.TextPart{{Text: text}},
	})
	if err != nil {
		k.t.Fatal(err)
	}
}

// continuations are the prompts of the manager that are in the session.
func (k *talk) continuations() []opencode.Message {
	k.t.Helper()
	messages, err := k.w.dir.Messages(k.w.ctx, k.id, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	var all []opencode.Message
	for _, m := range messages {
		if len(m.Parts) > 0 && m.Parts[0].Metadata[session.TagKey] == "watch" {
			all = append(all, m)
		}
	}
	return all
}

// policy has the times of people divided by a hundred or so, and 3 failures in the place of 5.
func policy() enforcer.Policy {
	p := enforcer.WatchPolicy()
	p.Idle, p.AbortWindow = 300*time.Millisecond, 50*time.Millisecond
	p.Cooldown, p.Countdown = 20*time.Millisecond, 50*time.Millisecond
	p.FailureReset, p.Admission, p.MaxFailures = 0, 5*time.Second, 3
	return p
}

// running is a watch at work.
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
	more  chan struct{} // closed and made anew with each entry and note
}

// watch begins to watch the project.
func (w *world) watch(change ...func(*watch.Config)) *running {
	w.t.Helper()
	db, err := watch.OpenStore(w.db, false, patience)
	if err != nil {
		w.t.Fatal(err)
	}
	r := &running{w: w, store: db, done: make(chan struct{}), more: make(chan struct{})}
	records, err := db.Records()
	if err != nil {
		w.t.Fatal(err)
	}
	cfg := watch.Config{
		Project: w.dir.Path(), Store: db, Records: records, Policy: policy(), DoneWhen: []string{boulder.DoneTodos},
		Since: 15 * time.Minute, Redact: func(text string) string { return text }, Logger: slog.New(slog.DiscardHandler),
		Attach: func(ctx context.Context) (*opencode.Client, error) {
			return opencode.Attach(ctx, w.url, opencode.AttachConfig{})
		},
		Show: func(e watch.Entry) { r.add(func() { r.log = append(r.log, e) }) },
		Note: func(text string) { r.add(func() { r.notes = append(r.notes, text) }) },
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

func (r *running) add(what func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what()
	close(r.more)
	r.more = make(chan struct{})
}

// end stops the watch and waits for it.
func (r *running) end() {
	r.w.t.Helper()
	r.stop()
	<-r.done
	if r.err != nil && !errors.Is(r.err, context.Canceled) && !errors.Is(r.err, errCrash) {
		r.w.t.Errorf("the watch ended: %v", r.err)
	}
}

// errCrash ends a watch as a crash would.
var errCrash = errors.New("crash")

// ask asks the watch as another process does.
func (r *running) ask(req watch.Request) (watch.Report, error) {
	r.w.t.Helper()
	socket := filepath.Join(r.w.t.TempDir(), watch.SocketName)
	stop, err := r.watch.Serve(r.w.ctx, socket, watch.Holder{PID: 42})
	if err != nil {
		r.w.t.Fatal(err)
	}
	defer stop()
	return watch.Call(r.w.ctx, socket, req)
}

// wait waits until the condition holds, which is asked under the lock.
func (r *running) wait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for {
		r.mu.Lock()
		ok, more := holds(), r.more
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-more:
		case <-r.done:
			r.mu.Lock()
			ok := holds()
			r.mu.Unlock()
			if ok {
				return
			}
			t.Fatalf("the watch ended (%v) before %s; so far:\n%s", r.err, what, r.said(""))
		case <-r.w.ctx.Done():
			t.Fatalf("waited in vain for %s; so far:\n%s", what, r.said(""))
		}
	}
}

// noted waits for a note.
func (r *running) noted(t *testing.T, text string) {
	t.Helper()
	r.wait(t, "the note "+text, func() bool {
		return slices.ContainsFunc(r.notes, func(n string) bool { return strings.Contains(n, text) })
	})
}

// until waits for the next decision about the session that is "kind gate", and gives it.
func (k *talk) until(r *running, what string) (found watch.Entry) {
	k.t.Helper()
	r.wait(k.t, fmt.Sprintf("%q of %s", what, k.id), func() bool {
		for i := k.next; i < len(r.log); i++ {
			if e := r.log[i]; e.SessionID == k.id && named(e) == what {
				found, k.next = e, i+1
				return true
			}
		}
		return false
	})
	return found
}

// said are the decisions about a session so far, one line each; about all for an empty id.
func (r *running) said(id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, e := range r.log {
		if id == "" || id == e.SessionID {
			fmt.Fprintf(&b, "%s %s: %s [%d/%d]\n", e.SessionID[len(e.SessionID)-4:], named(e), e.Reason, e.Iteration, e.Failures)
		}
	}
	for _, n := range r.notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// times counts the decisions about the session so far.
func (k *talk) times(r *running, what string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.log {
		if e.SessionID == k.id && named(e) == what {
			n++
		}
	}
	return n
}

func named(e watch.Entry) string { return fmt.Sprintf("%s %s", e.Decision, e.Gate) }

func say(text string) scriptmodel.Reply { return scriptmodel.Reply{Text: text} }

func use(tool string, args map[string]any) scriptmodel.Reply {
	return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{Name: tool, Args: args}}}
}

// list writes a todo list, given as content and status in turns.
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

// steps are the model's answers, by how many it gave in the session before.
func steps(replies ...scriptmodel.Reply) scriptmodel.Handler {
	return func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if n := r.AssistantTurns(); n < len(replies) {
			return replies[n]
		}
		return say("I have nothing to add.")
	}
}
