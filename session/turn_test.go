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
	take := func(p opencode.Payload) Told {
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
	turn.Load(Reading{
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
	turn.Load(Reading{At: at.Add(time.Second), Sessions: []opencode.Session{{ID: root}}}, "prompt")
	running("the server died", 0)
}

func info(id string) opencode.MessageInfo {
	return opencode.MessageInfo{ID: id, SessionID: root, Role: opencode.RoleAssistant, Created: began}
}
