package watch_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project/internal/watch"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// separate runs sessions with switches of their own at once (seed 003, SC-007, with ten: `make torture`). Where the
// switch is on, the agent has the tool, and its asks are refused and recorded. Where it is off, it has no tool, and
// asks wait for the user. Then every switch is reversed. State kept for the directory instead of the session breaks it.
func separate(t *testing.T, w *world) {
	t.Helper()
	away := newStandIn(t, true)
	var mu sync.Mutex
	had := map[int]bool{}                             // whether the newest request of a session had the tool
	if _, err := w.dir.Catalogue(w.ctx); err != nil { // boots the directory, so that the tool is offered in time
		t.Fatal(err)
	}
	var r *running
	var chats []*chat
	on := func(i, round int) bool { return (i+round)%2 == 0 }
	turn := func(round int) {
		t.Helper()
		for i, k := range chats {
			set := on(i, round)
			if err := away.Switch(w.ctx, k.id, &set); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.ask(watch.Request{Order: watch.OrderLook}); err != nil {
			t.Fatal(err)
		}
		for _, k := range chats {
			k.user("Run it.")
		}
		for i, k := range chats {
			if !on(i, round) {
				k.until(r, "wait asks", "permission bash")
				asks, err := w.dir.Requests(w.ctx)
				at := slices.IndexFunc(asks, func(a opencode.Request) bool { return a.SessionID == k.id })
				if err != nil || at < 0 {
					t.Fatalf("%s asks nothing: %v", k.id, err)
				}
				if err := w.dir.ReplyPermission(w.ctx, asks[at].ID, opencode.ReplyOnce, ""); err != nil {
					t.Fatal(err)
				}
			}
			k.until(r, "finish work")
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range chats {
			if had[i] != on(i, round) {
				t.Errorf("round %d: that session %d has the tool is %t", round, i, had[i])
			}
		}
	}
	for i := range *sessions / 2 {
		chats = append(chats, w.chat(opencode.NewSession{Title: fmt.Sprint("Session ", i), Rules: []opencode.Rule{askForBash}},
			func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
				mu.Lock()
				defer mu.Unlock()
				had[i] = slices.Contains(r.Tools, boulder.BlockerTool)
				if r.TurnsSinceUser() == 0 && strings.HasPrefix(r.LastUser(), "Run it.") {
					return bash(fmt.Sprint("true ", r.AssistantTurns()))
				}
				return say("That is all.\n" + boulder.DoneMarker)
			}))
	}
	r = w.watch(listed, func(c *watch.Config) { c.Diverter = away })
	r.waitForNote(boulder.BlockerTool)
	for _, k := range chats { // the watch knows them from then on
		k.until(r, "wait work", "no turn has ended yet")
	}
	turn(0)
	turn(1)
	for _, k := range chats {
		if b := away.blockersOf(k, 1)[0]; b.Ask == nil || !b.Until.IsZero() {
			t.Errorf("recorded: %+v", b)
		}
	}
}

func TestSwitchesOfManySessions(t *testing.T) { separate(t, newWorld(t)) }

func TestOpenCode2SwitchesOfManySessions(t *testing.T) { separate(t, secondWorld(t)) }

// testTypedWord covers a word after /blockers. The watch finds its session by the token that the command printed, even
// if the session had no task before, and reports the result there. The command is no task: the agent is not asked
// whether it is done.
func testTypedWord(t *testing.T, w *world) {
	t.Helper()
	type call struct{ session, word string }
	var calls []call
	var mu sync.Mutex
	play := func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if _, says, ok := strings.Cut(r.LastUser(), "<output>\n"); ok {
			return say("It says: " + says)
		}
		return say("That is all.\n" + boulder.DoneMarker)
	}
	k, other := w.chat(opencode.NewSession{Title: "one"}, play), w.chat(opencode.NewSession{Title: "other"}, play)
	r := w.watch(func(c *watch.Config) {
		c.Diverter = newStandIn(t, true)
		c.Typed = func(_ context.Context, session, word string) string {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, call{session, word})
			return "blockers " + word
		}
	})
	r.waitForNote(boulder.BlockerTool)
	k.until(r, "wait work", "no turn has ended yet")
	other.user("Hello.")
	other.until(r, "finish work")
	const printed = "QK7WZ2R5TCYFQ6DXJPOZ6OABCD"
	if _, err := r.ask(watch.Request{Order: watch.OrderTyped, Token: printed, Word: "status"}); err != nil {
		t.Fatal(err)
	}
	slash := boulder.SlashPrompt + " It was carried out.\n<output>\nIn a moment. [" + printed + "]\n</output>"
	k.user(slash) // which is no task
	k.until(r, "finish work")
	r.wait(t, "what came of the word", func() bool {
		return slices.ContainsFunc(k.messages(), func(m opencode.Message) bool {
			return len(m.Parts) > 0 && m.Parts[0].Metadata[session.TagKey] == "watch"
		})
	})
	k.user(slash) // a message that is read again has no effect
	r.mu.Lock()
	k.next = len(r.log)
	r.mu.Unlock()
	k.user("Thanks.") // a task, after which it finishes again
	k.until(r, "finish work")
	sent := k.continuations(1)[0].Text()
	if !strings.HasPrefix(sent, "[manager] What /blockers status came to") || !strings.Contains(sent, "<output>\nblockers status\n</output>") {
		t.Errorf("it says:\n%s", sent)
	}
	other.continuations(0)
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(calls, []call{{k.id, "status"}}) {
		t.Errorf("done: %v", calls)
	}
}

func TestTypedInASession(t *testing.T) { testTypedWord(t, newWorld(t)) }

func TestOpenCode2TypedInASession(t *testing.T) { testTypedWord(t, secondWorld(t)) }
