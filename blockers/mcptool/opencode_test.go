package mcptool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// Five sessions of a real OpenCode report blockers at once, over its one connection for a directory. Each is recorded
// for its session, even if all say the same, and each agent reads its own answer. The todo tool shares the connection.
func TestSessionsOfOpenCode(t *testing.T) {
	t.Parallel()
	const sessions = 5
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var mu sync.Mutex
	begun, all := 0, make(chan struct{}) // closed when all have called the model
	model := octest.Model(t, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.TurnsSinceUser() == 0 {
			mu.Lock()
			if begun++; begun == sessions {
				close(all)
			}
			mu.Unlock()
			reply := scriptmodel.Reply{Wait: all}
			for _, c := range []struct{ tool, arguments string }{
				{boulder.BlockerTool, input("Question of " + r.LastUser() + "?")},
				{boulder.BlockerTool, input("The same question?")},
				{boulder.BlockerTool, `{"category":"other","question":"What now?","context":"Nothing.","blocks progress":true}`},
				{DefaultName + "_" + TodoName, `{"todos":[{"content":"a","status":"completed","priority":"high"},{"content":"b","status":"pending"}]}`},
				{DefaultName + "_" + TodoName, `{"todos":[{"content":"b","status":"maybe"}]}`},
			} {
				reply.ToolCalls = append(reply.ToolCalls, scriptmodel.ToolCall{Name: c.tool, Args: json.RawMessage(c.arguments)})
			}
			return reply
		}
		return scriptmodel.Reply{Text: "done"}
	})
	env := octest.Env(t, model.URL())
	const patience = 5 * time.Minute // a busy machine is no failure
	server, err := opencode.Start(ctx, opencode.ServerConfig{
		Binary: octest.Binary(t), Dir: t.TempDir(), Env: env, StartTimeout: patience, CallTimeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop(context.Background()) })
	dir := server.Client().In(octest.Repo(t, nil))

	register := newRegister(t, nil)
	s := newServer(t, register)
	tools, err := s.Tools(ctx, boulder.BlockerTool, opencode.TodoTool)
	if err != nil {
		t.Fatal(err)
	}
	tools.Timeout = patience
	if err := dir.AddMCP(ctx, tools); err != nil {
		t.Fatal(err)
	}
	sub := server.Client().Subscribe(opencode.Filter{Directory: dir.Path()})
	defer sub.Close()
	defer context.AfterFunc(ctx, sub.Close)()
	first := <-sub.C() // no event is missed from now on
	if _, ok := first.Payload.(opencode.Resync); !ok {
		t.Fatalf("the first event is %#v, %v", first.Payload, ctx.Err())
	}
	ids := map[string]int{}
	for i := range sessions {
		session, err := dir.CreateSession(ctx, opencode.NewSession{Title: fmt.Sprintf("number %d", i)})
		if err != nil {
			t.Fatal(err)
		}
		ids[session.ID] = i
		if err := dir.Prompt(ctx, session.ID, opencode.Prompt{
			MessageID: opencode.NewMessageID(time.Now()), Agent: "build",
			Model: opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: scriptmodel.ModelAgent},
			Text:  session.ID,
		}); err != nil {
			t.Fatal(err)
		}
	}
	told := follow(t, sub, s, sessions)

	own, same := map[string]int{}, map[string]int{}
	for _, b := range recorded(t, register, 2*sessions) {
		if b.Question == "The same question?" {
			same[b.SessionID]++
			continue
		}
		own[b.SessionID]++
		if b.Question != "Question of "+b.SessionID+"?" {
			t.Errorf("%s is said to have asked %q", b.SessionID, b.Question)
		}
	}
	for id, i := range ids {
		if own[id] != 1 || same[id] != 1 {
			t.Errorf("session %d has %d of its own and %d of all", i, own[id], same[id])
		}
		texts := told[id]
		slices.Sort(texts) // calls run in parallel
		if len(texts) != 5 || texts[0] != Registered || texts[1] != Registered || texts[2] != "Noted: 1 of 2 items are open." ||
			!strings.Contains(texts[3], "Did you mean blocks_progress?") ||
			!strings.Contains(texts[4], `"maybe" is none of pending, in_progress, completed, cancelled`) {
			t.Errorf("session %d was told %q", i, texts)
		}
	}
}

// follow tells the server about calls until all sessions are idle, and returns what the agents read.
func follow(t *testing.T, sub *opencode.Subscription, s *Server, sessions int) (told map[string][]string) {
	t.Helper()
	told = map[string][]string{}
	resting := map[string]bool{}
	for event := range sub.C() {
		switch p := event.Payload.(type) {
		case opencode.PartUpdated:
			tool := p.Part.Tool
			if tool == nil || tool.Tool != boulder.BlockerTool && tool.Tool != DefaultName+"_"+TodoName {
				continue
			}
			switch tool.State {
			case opencode.ToolRunning:
				s.Called(boulder.BlockerCall{
					BlockerScope: boulder.BlockerScope{SessionID: event.SessionID}, CallID: tool.CallID, Input: tool.Input,
				})
			case opencode.ToolCompleted:
				told[event.SessionID] = append(told[event.SessionID], tool.Output)
			case opencode.ToolError:
				told[event.SessionID] = append(told[event.SessionID], tool.Error)
			}
		case opencode.StatusChanged:
			if p.Status.Type == opencode.Idle {
				resting[event.SessionID] = true
			}
		}
		if len(resting) == sessions {
			break
		}
	}
	return told
}
