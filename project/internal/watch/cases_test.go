package watch_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project/internal/watch"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// refuse answers every request with an error that OpenCode does not retry by itself.
func refuse(status int, message string) scriptmodel.Handler {
	return func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		return scriptmodel.Reply{Status: status, Body: fmt.Sprintf(`{"error":{"message":%q}}`, message)}
	}
}

// long is an answer after which OpenCode compacts the conversation.
func long(text string) scriptmodel.Reply {
	return scriptmodel.Reply{Text: text, InputTokens: 199_000} // of 200,000
}

// A watchCase is a session on the real OpenCode, and the decisions of its watch.
type watchCase struct {
	name   string
	model  scriptmodel.Handler
	of     string // name of the model; defaults to the shared one
	rules  []opencode.Rule
	change func(*watch.Config)
	// world makes a separate project, where the promise completes a session; nil: the shared one, with the todo list.
	world func(*testing.T) *world
	// want has decisions that must be made in this order; others may be in between.
	want []string
	// reason must be in the reason of the last decision in want.
	reason string
	// sent is the number of continuations in the session by then.
	sent int
	// seen starts the session only once the watch runs. A message gets its error up to a second after the session is
	// idle, or later on a loaded machine: a watch that starts in between takes it for cut off by OpenCode's end. A
	// watch that starts after a compaction does not know the list before it.
	seen bool
}

var watchCases = []watchCase{
	{
		name: "no list", model: steps(say("The answer is 42.")),
		want: []string{"finish work", "wait work"},
	},
	{
		name:  "complete: cancelled items are not open",
		model: steps(list("Write a", "completed", "Write b", "cancelled"), say("b is not needed.")),
		want:  []string{"finish work"},
	},
	{
		name: "some blocked", model: steps(list("Ask the owner", "blocked", "Write b", "pending"), say("a needs the owner."),
			list("Ask the owner", "blocked", "Write b", "completed"), say("b is there.")),
		want: []string{"send open", "let_go work", "wait let_go"}, sent: 1,
	},
	{
		name: "only chats", model: steps(half, say("I think about b."), say("I think about it again."), say("And again.")),
		want: []string{"send open", "let_go failures"}, reason: "2 continuations in a row brought no progress", sent: 2,
	},
	{
		name: "file to and fro",
		model: func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
			switch n := r.AssistantTurns(); {
			case n == 0, r.TurnsSinceUser() > 0:
				return say(fmt.Sprint("I think it is right, for the time ", n))
			case n == 1:
				return bash("touch b.txt")
			}
			return bash("rm b.txt")
		},
		// OpenCode takes snapshots of this project. Sessions that share it would take its files for their own progress.
		world:  comparedWorld,
		change: func(c *watch.Config) { c.Policy.MaxFailures = 1 },
		want:   []string{"let_go failures"}, sent: 2, // a new file is progress, its removal is not
	},
	{
		name: "progress goes on",
		model: func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
			n := r.AssistantTurns()
			if r.TurnsSinceUser() > 0 {
				return say(fmt.Sprint("One more is there: ", n))
			}
			var items []string
			for i := range 4 {
				status := "pending"
				if i <= n/2 {
					status = "completed"
				}
				items = append(items, fmt.Sprint("Write file ", i), status)
			}
			return list(items...)
		},
		want: []string{"finish work"}, sent: 3, // more than MaxFailures
	},
	{
		name: "unknown model", seen: true, of: "gone",
		want: []string{"let_go broken"},
	},
	{
		name: "wrong key", seen: true, model: refuse(http.StatusUnauthorized, "Incorrect API key provided."),
		want: []string{"let_go broken", "wait let_go"}, reason: "Incorrect API key provided.",
	},
	{
		name: "no credit", seen: true, model: refuse(http.StatusPaymentRequired, "No credit is left."),
		want: []string{"let_go broken"},
	},
	{
		name: "dead model", model: refuse(http.StatusUnprocessableEntity, "the prompt could not be processed"),
		world: secondWorld,
		want:  []string{"send open", "let_go failures"}, reason: "the prompt could not be processed", sent: 2,
	},
	{
		name: "an error is survived",
		model: func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
			if r.AssistantTurns() == 0 && !strings.Contains(r.LastUser(), "[manager]") {
				return refuse(http.StatusUnprocessableEntity, "the prompt could not be processed")(ctx, r)
			}
			return say("Here I am again; the answer is 42.")
		},
		want: []string{"send open", "finish work"}, sent: 1,
	},
	{
		name: "a retry of OpenCode's own",
		model: func() scriptmodel.Handler {
			var refused atomic.Bool
			return func(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
				if r.AssistantTurns() == 1 && !refused.Swap(true) {
					return scriptmodel.Reply{Status: http.StatusServiceUnavailable}
				}
				return steps(half, whole, say("Both are there."))(ctx, r)
			}
		}(),
		want: []string{"finish work"},
	},
	{
		name: "question", model: steps(both(half, question)),
		want: []string{"wait asks"}, reason: "Which name?",
	},
	{
		name: "permission", model: steps(both(half, bash("true"))),
		rules: []opencode.Rule{{Permission: "bash", Pattern: "*", Action: opencode.Ask}},
		want:  []string{"wait asks"}, reason: "permission bash [true]",
	},
	{
		name: "tests and judge", world: secondWorld, model: steps(say("I wrote it."), say("Now it passes."), say("Now it is better.")),
		change: func(c *watch.Config) {
			var ran atomic.Int32
			c.Policy.MaxFailures = 3
			c.DoneWhen, c.Tests = []string{boulder.DoneTests, boulder.DoneJudge}, []string{"make check"}
			c.Run = func(context.Context, string) boulder.Gate {
				if ran.Add(1) == 1 {
					return boulder.Gate{Command: "make check", ExitCode: 1, Output: "FAIL: b is missing"}
				}
				return boulder.Gate{Command: "make check"}
			}
			c.Judge = func(_ context.Context, request string, e *boulder.Evidence) ([]string, error) {
				if e.FinalMessage == "Now it passes." && strings.Contains(request, "Write a and b.") {
					return []string{"b is missing"}, nil
				}
				return nil, nil
			}
		},
		want: []string{"check check", "send open", "check check", "send open", "check check", "finish work"}, sent: 2,
	},
	{
		name: "compaction forgets", seen: true, // the agent begins another list after it, and believes that it is done
		model: func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
			switch last := r.Messages[len(r.Messages)-1]; {
			case len(r.Tools) == 0:
				return say("Summary: a is written.")
			case strings.Contains(r.LastUser(), "[manager]") && r.TurnsSinceUser() == 0:
				return whole
			case strings.Contains(r.Text(), "Summary: a is written."):
				if last.Role == "tool" {
					return say("That was it.")
				}
				return list("Look again", "completed")
			case last.Role == "tool":
				return long("I look at b next.")
			}
			return half
		},
		want: []string{"send open", "finish work"}, sent: 1,
	},
}

// TestCases plays each case to its end, and checks that nothing more is sent. The cases without a world of their own
// share a project and a watch. Half of them start before the watch: reading a session must lead to the same decisions
// as its events.
func TestCases(t *testing.T) {
	t.Parallel()
	var together []watchCase
	for _, c := range watchCases {
		if c.world == nil {
			together = append(together, c)
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			w := c.world(t)
			c.play(w.watch(c.change), w.begin(c.model, c.rules...))
		})
	}
	t.Run("together", func(t *testing.T) {
		w := newWorld(t)
		chats := make([]*chat, len(together))
		begin := func(early bool) {
			for i, c := range together {
				if early == (i%2 == 0 && !c.seen) {
					chats[i] = w.chat(opencode.NewSession{Title: c.name, Rules: c.rules}, c.model)
					of := opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: cmp.Or(c.of, scriptmodel.ModelAgent)}
					chats[i].write("Write a and b.\n"+chats[i].mark, of)
				}
			}
		}
		begin(true)
		r := w.watch(listed)
		r.wait(t, "its begin", func() bool { return len(r.log) > 0 })
		begin(false)
		for i, c := range together {
			t.Run(c.name, func(t *testing.T) {
				chats[i].t = t
				c.play(r, chats[i])
			})
		}
	})
}

func (c *watchCase) play(r *running, k *chat) {
	k.t.Helper()
	last := len(c.want) - 1
	for _, want := range c.want[:last] {
		k.until(r, want)
	}
	k.until(r, c.want[last], c.reason)
	k.continuations(c.sent)
	entries, err := r.store.History(k.id)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, want := range c.want[:last] { // the last one may not be stored yet
		i := slices.IndexFunc(entries, func(e watch.Entry) bool { return named(e) == want })
		if i < 0 {
			k.t.Fatalf("%q is not stored, in its place", want)
		}
		entries = entries[i+1:]
	}
}
