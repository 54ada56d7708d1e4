package opencode_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/contract"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// patience bounds every wait for the real server, which shares two cores with other tests.
const patience = 5 * time.Minute // long: a busy machine is no failure

// shared is a real server, for tests that need no model.
var shared struct {
	home   string
	server *opencode.Server
}

var start = sync.OnceValue(func() (err error) {
	if shared.home, err = os.MkdirTemp("", "opencode-test"); err != nil {
		return err
	}
	binary, err := octest.Find()
	if err != nil {
		return err
	}
	shared.server, err = opencode.Start(context.Background(), opencode.ServerConfig{
		Binary: binary, Dir: shared.home, StartTimeout: patience, CallTimeout: patience,
		Env: octest.Lean(scriptmodel.OpenCodeEnv(os.Environ(), shared.home, "http://127.0.0.1:1/v1")),
	})
	return err
})

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		os.Exit(startAndWait())
	}
	octest.Guard()
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop(context.Background())
	}
	os.RemoveAll(shared.home)
	os.Exit(octest.CheckLeaks(code))
}

// scene is a test in one directory. Its prompts begin with mark.
type scene struct {
	t    *testing.T
	ctx  context.Context
	mark string
	dir  *opencode.Directory
}

func (s *scene) session(rules ...opencode.Rule) opencode.Session {
	s.t.Helper()
	session, err := s.dir.CreateSession(s.ctx, opencode.NewSession{Title: s.mark, Rules: rules})
	if err != nil {
		s.t.Fatal(err)
	}
	return session
}

// follow subscribes and waits for the initial Resync: from then on the subscription misses nothing.
func (s *scene) follow(client *opencode.Client, sessions ...string) *opencode.Subscription {
	s.t.Helper()
	sub := client.Subscribe(opencode.Filter{Directory: s.dir.Path(), Sessions: sessions})
	s.t.Cleanup(sub.Close)
	events := await(s.ctx, s.t, sub, contract.Is[opencode.Resync])
	if len(events) != 1 {
		s.t.Fatalf("the first event is %#v, not a Resync", events[0].Payload)
	}
	return sub
}

func (s *scene) send(sessionID, text string) (messageID string) {
	s.t.Helper()
	messageID = opencode.NewMessageID(time.Now())
	s.sendAs(messageID, sessionID, text)
	return messageID
}

func (s *scene) sendAs(messageID, sessionID, text string) {
	s.t.Helper()
	err := s.dir.Prompt(s.ctx, sessionID, opencode.Prompt{
		MessageID: messageID, Agent: "build", Model: agentModel, Variant: "high",
		Text: s.mark + " " + text,
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

var agentModel = opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: scriptmodel.ModelAgent}

func waiting(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func await(
	ctx context.Context, t *testing.T, sub *opencode.Subscription, match func(opencode.Event) bool,
) []opencode.Event {
	t.Helper()
	var events []opencode.Event
	for {
		select {
		case event, open := <-sub.C():
			if events = append(events, event); open && match(event) {
				return events
			} else if open {
				continue
			}
		case <-ctx.Done():
		}
		t.Fatalf("no event came that fits: %v; so far:\n%s", ctx.Err(), kinds(events))
	}
}

func next[P opencode.Payload](s *scene, sub *opencode.Subscription) P {
	s.t.Helper()
	events := await(s.ctx, s.t, sub, contract.Is[P])
	return events[len(events)-1].Payload.(P)
}

func toolIn(s *scene, sub *opencode.Subscription, state opencode.ToolState) *opencode.ToolCall {
	s.t.Helper()
	events := await(s.ctx, s.t, sub, contract.Tool(state))
	return events[len(events)-1].Payload.(opencode.PartUpdated).Part.Tool
}

func kinds(events []opencode.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%.300s @%s/%s\n", fmt.Sprintf("%T%+v", e.Payload, e.Payload), e.Directory, e.SessionID)
	}
	return b.String()
}

var steps, call, bash = scriptmodel.Steps, scriptmodel.Call, scriptmodel.Bash

// eventually polls until the condition holds. It is for states without an event, such as the end of another process.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func awaitPID(t *testing.T, path string) int {
	t.Helper()
	pid := 0
	eventually(t, "a process id is in "+path, func() bool {
		data, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		return err == nil && strings.HasSuffix(string(data), "\n")
	})
	return pid
}
