package watch_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project/internal/watch"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// stops has ways in which an agent with three tasks ends a turn early: what it calls, and what it says then.
var stops = []struct {
	name  string
	calls scriptmodel.Reply
	says  scriptmodel.Reply
}{
	{"with a list of what is open", half, say("I wrote the first one.")},
	{"its output is cut off", scriptmodel.Reply{}, scriptmodel.Reply{Text: "I wrote the fir", Finish: "length"}},
	{"it asks for a permission, asks a question, and reports a choice", both(both(bash("true"), question), use(boulder.BlockerTool,
		map[string]any{
			"category": "question", "question": "Which format?", "context": "Both are read.", "blocks_progress": false,
			"options": []string{"text", "JSON", "YAML"}, "chosen_option": "text", "chosen_reasoning": "It is read by people.",
		})), say("I was not allowed to, and have chosen text.")},
	{"without a word about the rest", scriptmodel.Reply{}, say("I wrote the first one.")},
	{"it announces the rest", scriptmodel.Reply{}, say("Next I will write the second one.")},
	{"it claims to be done", scriptmodel.Reply{}, say("All three are done! Let me know if you need anything else.")},
	{"it asks in prose", scriptmodel.Reply{}, say("Shall I go on with the second one?")},
	{"with a list, and claims to be done", half, say("Everything is finished.")},
}

var sessions = flag.Int("sessions", 5, "`number` of sessions in TestManySessions, twice those of separate")

// testManySessions runs n sessions whose agents stop after each of three tasks, in the ways of stops. Every tenth agent
// repeats itself forever and is let go for that. Without the user, at least 80 % of the stops with work left are
// followed by a continuation, and 80 % of the sessions end (seed 003, SC-004, with 20 sessions: `make torture`). The
// agents are scripted: this shows what the manager does, not how a model reacts.
func testManySessions(t *testing.T, w *world, n int) {
	t.Helper()
	if _, err := w.dir.Catalogue(w.ctx); err != nil {
		t.Fatal(err)
	}
	r := w.watch(listed, func(c *watch.Config) {
		c.Diverter = newStandIn(t, true)
		c.Policy.MaxFailures, c.Policy.SameAnswers, c.Policy.SameWindow = 3, 2, never
	})
	r.waitForNote(boulder.BlockerTool)
	var chats []*chat
	for i := range n {
		how, same := stops[i%len(stops)], i%10 == 4
		k := w.chat(opencode.NewSession{Title: fmt.Sprint(i, " ", how.name), Rules: []opencode.Rule{askForBash}},
			func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
				told := strings.Count(r.Text(), "[manager]") // as many tasks are done
				switch {
				case same:
					return say("I wrote the first one.")
				case r.AssistantTurns() == 0 && len(how.calls.ToolCalls) > 0:
					return how.calls
				case told < 2:
					return scriptmodel.Reply{Text: strings.Replace(how.says.Text, "first", []string{"first", "second"}[told], 1), Finish: how.says.Finish}
				case told == 2 && r.TurnsSinceUser() == 0 && how.calls.ToolCalls != nil && how.calls.ToolCalls[0].Name == "todowrite":
					return whole
				}
				return say("All three are there.\n" + boulder.DoneMarker)
			})
		chats = append(chats, k)
		k.user("Write three files.")
	}
	ended, stopped, prevented, sent := 0, 0, 0, map[string]int{}
	for _, k := range chats {
		r.wait(t, "the end of "+k.id, func() bool {
			return slices.ContainsFunc(r.log, func(e watch.Entry) bool {
				return e.SessionID == k.id && (e.Decision == "finish" || e.Decision == "let_go")
			})
		})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.log {
		switch e.Decision {
		case "send":
			stopped++
			prevented++
			sent[e.SessionID]++
		case "let_go":
			stopped++
			if e.Gate != enforcer.GateAnswers {
				t.Errorf("a session is let go: %s", e.Reason)
			}
		case "finish":
			if sent[e.SessionID] < 2 { // tasks are left
				stopped++
			} else {
				ended++
			}
		}
	}
	t.Logf("%d of %d stops with work left were prevented; %d of %d sessions came to their end", prevented, stopped, ended, len(chats))
	if prevented*100 < stopped*80 || ended*100 < len(chats)*80 {
		t.Error("that is too few")
	}
}

func TestManySessions(t *testing.T) { testManySessions(t, newWorld(t), *sessions) }

func TestOpenCode2ManySessions(t *testing.T) { testManySessions(t, secondWorld(t), 15) }
