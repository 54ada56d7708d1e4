package fakeopencode

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// A turn that writes and reads a file gives all events, in the order of OPENCODE2.md and numbered without gaps.
func TestTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, steps(
		calls(use("write", fields{"filePath": "new.txt", "content": "written\n"})),
		calls(use("bash", fields{"command": "cat new.txt; exit 3"})),
	))
	id := w.session(fields{"metadata": fields{"boulder": "b1"}})
	w.prompt(id, "msg_1", "write it")
	events := w.await("session.execution.succeeded")
	seq := -1
	for _, e := range events {
		if e.Durable == nil {
			continue
		}
		if seq++; e.Durable.Seq != seq {
			t.Errorf("%s has the number %d, want %d", e.Type, e.Durable.Seq, seq)
		}
		if execution := strings.HasPrefix(e.Type, "session.execution."); execution != (e.Where == nil) {
			t.Errorf("%s: location %v", e.Type, e.Where)
		}
	}
	step := []string{
		"step.started", "tool.input.started", "tool.input.ended", "tool.called", "step.streamed", "tool.success", "step.ended",
		"usage.updated",
	}
	want := slices.Concat([]string{"created", "inbox.enqueued", "execution.started", "inbox.delivered"}, step,
		slices.Insert(slices.Clone(step), 5, "tool.progress"),
		[]string{"step.started", "text.started", "text.ended", "step.streamed", "step.ended", "usage.updated", "execution.succeeded"})
	if diff := cmp.Diff(want, types(events)); diff != "" {
		t.Error(diff)
	}
	if got := w.kinds(id); got != "user assistant:tool-calls assistant:tool-calls assistant:stop idle:succeeded" {
		t.Error(got)
	}
	if got, err := os.ReadFile(filepath.Join(w.dir, "new.txt")); err != nil || string(got) != "written\n" {
		t.Errorf("%q, %v", got, err)
	}
	shell := w.messages(id)[2].Content[0].State
	if shell.Content[0].Text != "written\n" || shell.Metadata["exit"] != 3.0 {
		t.Errorf("the command came to %+v", shell)
	}
	var x sessionInfo
	w.call("session.get", 200, nil, &x, id)
	if x.Outcome != "succeeded" || x.Cost <= 0 || x.Metadata["boulder"] != "b1" {
		t.Errorf("the session is %+v", x)
	}
}

// A prompt under a known id does nothing, however its turn ended.
func TestSameID(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	w := newWorld(t, Behaviour{}, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		return scriptmodel.Reply{Text: "hi", Wait: block}
	})
	id := w.session(nil)
	w.prompt(id, "msg_1", "go")
	w.await("session.step.started")
	w.call("session.interrupt", 200, nil, nil, id)
	w.await("session.execution.interrupted")
	close(block)
	w.prompt(id, "msg_1", "go")
	if got := types(w.await("session.execution.succeeded")); !slices.Equal(got, []string{"execution.started", "execution.succeeded"}) {
		t.Errorf("the same id again: %v", got)
	}
}

// A session is removed once its turn has ended, also for the next server.
func TestRemovedAtWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Behaviour{}, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		return scriptmodel.Reply{Wait: make(chan struct{})}
	})
	id := w.session(nil)
	w.prompt(id, "msg_1", "go")
	w.await("session.step.started")
	w.call("session.remove", 204, nil, nil, id)
	if got := strings.Join(types(w.await("session.deleted")), " "); got != "step.failed execution.interrupted deleted" {
		t.Error(got)
	}
	w.stop()
	w.start(Behaviour{})
	w.call("session.get", 404, nil, nil, id)
}

// A prompt to a busy session is read at its next step.
func TestDelivery(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	w := newWorld(t, Behaviour{}, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.AssistantTurns() == 0 {
			reply := calls(use("bash", fields{"command": "true"}))
			reply.Wait = release
			return reply
		}
		return scriptmodel.Reply{Text: r.LastUser()}
	})
	id := w.session(nil)
	w.prompt(id, "msg_1", "first")
	w.await("session.step.started")
	w.prompt(id, "msg_2", "second")
	if n := w.waiting(id); n != 1 {
		t.Errorf("in the inbox: %d", n)
	}
	close(release)
	w.await("session.execution.succeeded")
	if got := w.kinds(id); got != "user assistant:tool-calls user assistant:stop idle:succeeded" {
		t.Error(got)
	}
}

// A failed turn has its error in the message, the event and the session.
func TestFailures(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reply   scriptmodel.Reply
		more    fields
		want    string
		retries int
		left    int // in the inbox
	}{
		"wrong key":     {reply: scriptmodel.Reply{Status: 401}, want: "user assistant!provider.auth idle:failed"},
		"bad request":   {reply: scriptmodel.Reply{Status: 400}, want: "user assistant!provider.invalid-request idle:failed"},
		"no credit":     {reply: scriptmodel.Reply{Status: 402}, want: "user assistant!provider.unknown idle:failed"},
		"rate limit":    {reply: scriptmodel.Reply{Status: 429}, want: "user assistant!provider.rate-limit idle:failed", retries: 4},
		"broken":        {reply: scriptmodel.Reply{Status: 500}, want: "user assistant!provider.internal idle:failed", retries: 4},
		"cut":           {reply: scriptmodel.Reply{Text: "a long answer", Cut: true}, want: "user assistant!provider.transport idle:failed", retries: 4},
		"truncated":     {reply: scriptmodel.Reply{Text: "a", Finish: "length"}, want: "user assistant:length idle:succeeded"},
		"unknown model": {more: fields{"model": fields{"providerID": "no", "id": "no"}}, want: "user idle:failed"},
		"unknown agent": {more: fields{"agent": "nobody"}, want: "idle:failed", left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Behaviour{}, func(context.Context, scriptmodel.Request) scriptmodel.Reply { return test.reply })
			id := w.session(test.more)
			w.prompt(id, "msg_1", "go")
			end := "session.execution.failed"
			if strings.HasSuffix(test.want, "succeeded") {
				end = "session.execution.succeeded"
			}
			retries := 0
			for _, e := range w.await(end) {
				if e.Type == "session.retry.scheduled" {
					retries++
				}
			}
			if got := w.kinds(id); got != test.want || retries != test.retries {
				t.Errorf("%s after %d retries", got, retries)
			}
			if n := w.waiting(id); n != test.left {
				t.Errorf("in the inbox: %d", n)
			}
		})
	}
}
