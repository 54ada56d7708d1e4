package session

import (
	"testing"
	"time"

	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
)

// If the event of a tool's end is lost, the model's next answer or the server's state shows it. It is reported once.
func TestToolWhoseEndWasMissed(t *testing.T) {
	t.Parallel()
	at := began
	turn := NewTurn(root, enforcer.DefaultRules(), nil)
	take := func(p opencode.Payload) CallUpdate {
		at = at.Add(time.Second)
		return turn.Take(opencode.Event{SessionID: root, Payload: p}, at)
	}
	answer := func(id string) { take(opencode.MessageUpdated{Message: info(id)}) }
	call := func(message string, state opencode.ToolState) opencode.Part {
		return opencode.Part{
			ID: "part " + message, MessageID: message, SessionID: root, Type: opencode.PartTool,
			Tool: &opencode.ToolCall{Tool: "bash", State: state},
		}
	}
	running := func(why string, want int) {
		t.Helper()
		if n := turn.ToolsRunning(); n != want {
			t.Errorf("%s: %d tools run, want %d", why, n, want)
		}
	}
	take(opencode.StatusChanged{Status: opencode.Status{Type: opencode.Busy}})
	answer("one")
	if told := take(opencode.PartUpdated{Part: call("one", opencode.ToolRunning)}); told.Begun == nil {
		t.Error("the call is not told")
	}
	answer("one")
	running("begun", 1)
	answer("two")
	running("the model goes on", 0)

	take(opencode.PartUpdated{Part: call("two", opencode.ToolRunning)})
	at = at.Add(time.Second)
	turn.Load(ServerState{
		At: at, Sessions: []opencode.Session{{ID: root}}, Statuses: map[string]opencode.Status{root: {Type: opencode.Busy}},
		Messages: []opencode.Message{
			{Info: opencode.MessageInfo{ID: "prompt", Role: opencode.RoleUser}},
			{Info: info("two"), Parts: []opencode.Part{call("two", opencode.ToolCompleted)}},
		},
	}, "prompt")
	running("a reading says that it ended", 0)
	for i, want := range []bool{true, false} {
		if told := take(opencode.PartUpdated{Part: call("two", opencode.ToolCompleted)}); (told.Ended != nil) != want {
			t.Errorf("event %d: told %v, want %v", i+1, told.Ended != nil, want)
		}
	}
	take(opencode.PartUpdated{Part: call("two", opencode.ToolRunning)})
	running("an event that came late", 0)

	answer("three")
	take(opencode.PartUpdated{Part: call("three", opencode.ToolRunning)})
	turn.Load(ServerState{At: at.Add(time.Second), Sessions: []opencode.Session{{ID: root}}}, "prompt")
	running("the server died", 0)
}

// An answer without content and usage came from no model, whatever OpenCode says. It is no sign of an idle agent.
func TestAnswerOfNoModel(t *testing.T) {
	t.Parallel()
	text := opencode.Part{ID: "p", SessionID: root, MessageID: "a", Type: opencode.PartText, Text: "Done."}
	thought := text
	thought.Type = opencode.PartReasoning
	tool := opencode.Part{
		ID: "p", SessionID: root, MessageID: "a", Type: opencode.PartTool,
		Tool: &opencode.ToolCall{Tool: "bash", State: opencode.ToolCompleted},
	}
	began := opencode.Part{ID: "p", SessionID: root, MessageID: "a", Type: "step-start"}
	for name, tt := range map[string]struct {
		finish string
		input  int64
		part   opencode.Part
		want   bool
	}{
		"nothing":              {"stop", 0, began, true},
		"no reason either":     {"unknown", 0, began, true},
		"an error":             {"error", 0, text, true},
		"text, not counted":    {"stop", 0, text, false},
		"reasoning alone":      {"stop", 0, thought, false},
		"a tool":               {"tool-calls", 0, tool, false},
		"nothing, but counted": {"stop", 9, began, false},
		"refused by a filter":  {"content-filter", 0, began, false},
		"aborted":              {"", 0, began, false},
	} {
		m := info("a")
		turn := NewTurn(root, enforcer.DefaultRules(), nil)
		for range 5 {
			turn.Take(opencode.Event{SessionID: root, Payload: opencode.MessageUpdated{Message: m}}, m.Created)
			turn.Take(opencode.Event{SessionID: root, Payload: opencode.PartUpdated{Part: tt.part}}, m.Created)
			ended := m
			ended.Finish, ended.Tokens.Input, ended.Completed = tt.finish, tt.input, m.Created.Add(time.Second)
			turn.Take(opencode.Event{SessionID: root, Payload: opencode.MessageUpdated{Message: ended}}, ended.Completed)
			failed := Failure(opencode.Message{Info: ended, Parts: []opencode.Part{tt.part}})
			if (turn.Unreached != nil) != tt.want || (failed == NotReached) != tt.want {
				t.Errorf("%s: %v, %v", name, turn.Unreached, failed)
			}
			m.ID += "a"
			tt.part.MessageID, tt.part.ID = m.ID, m.ID
		}
		if tt.want && len(turn.Stuck()) > 0 {
			t.Errorf("%s: the agent seems stuck: %+v", name, turn.Stuck())
		}
	}
}

func info(id string) opencode.MessageInfo {
	return opencode.MessageInfo{ID: id, SessionID: root, Role: opencode.RoleAssistant, Created: began}
}
