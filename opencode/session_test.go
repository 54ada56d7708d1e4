package opencode_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
)

// A turn lists what is to be done and writes a file: its events come in order, and what it did is read back.
func TestTurn(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps(
		call("todowrite", map[string]any{"todos": []any{
			map[string]any{"content": "one", "status": "in_progress", "priority": "high"},
		}}),
		call("write", map[string]any{"filePath": "new.txt", "content": "written\n"}),
	))
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	messageID := s.send(session.ID, "write it")
	todos := []opencode.Todo{{Content: "one", Status: "in_progress", Priority: "high"}}
	events := await(s.ctx, t, sub, is[opencode.TodosUpdated])
	if got := events[len(events)-1].Payload.(opencode.TodosUpdated).Todos; !slices.Equal(got, todos) {
		t.Errorf("the event has %+v", got)
	}
	events = append(events, await(s.ctx, t, sub, status(opencode.Idle))...)
	if got, err := s.dir.Todos(s.ctx, session.ID); err != nil || !slices.Equal(got, todos) {
		t.Errorf("the list is %+v, %v", got, err)
	}
	before := -1
	for what, match := range []func(opencode.Event) bool{
		status(opencode.Busy), tool(opencode.ToolPending), tool(opencode.ToolRunning), tool(opencode.ToolCompleted),
	} {
		at := slices.IndexFunc(events, match)
		if at <= before {
			t.Errorf("step %d of a turn comes after the next, or not at all: %s", what, kinds(events))
		}
		before = at
	}
	got, err := os.ReadFile(filepath.Join(s.dir.Path(), "new.txt"))
	if err != nil || string(got) != "written\n" {
		t.Errorf("the file has %q, %v", got, err)
	}

	messages, err := s.dir.Messages(s.ctx, session.ID, 0)
	if err != nil || len(messages) != 4 {
		t.Fatalf("%d messages, want the prompt, the two tool calls and the answer: %v", len(messages), err)
	}
	user, work, answer := messages[0], messages[2], messages[3]
	if user.Info.ID != messageID || user.Info.Role != opencode.RoleUser || user.Info.Model != agentModel {
		t.Errorf("the prompt is %+v", user.Info)
	}
	if work.Info.ParentID != messageID || work.Info.Finish != opencode.FinishToolCalls {
		t.Errorf("the tool call is %+v", work.Info)
	}
	if answer.Info.ParentID != messageID || answer.Info.Finish != opencode.FinishStop || answer.Text() != "done" ||
		answer.Info.Completed.Before(answer.Info.Created) || answer.Info.Cost <= 0 || answer.Info.Tokens.Output == 0 {
		t.Errorf("the answer is %+v", answer)
	}
	i := slices.IndexFunc(work.Parts, func(p opencode.Part) bool { return p.Type == opencode.PartTool })
	if i < 0 {
		t.Fatalf("no tool call in %+v", work.Parts)
	}
	write := work.Parts[i].Tool
	if write.Tool != "write" || write.State != opencode.ToolCompleted || write.Output == "" ||
		!strings.Contains(string(write.Input), "new.txt") {
		t.Errorf("the call is %+v", write)
	}
	steps := 0
	for _, m := range messages {
		if m.Info.Variant != "high" {
			t.Errorf("variant %q of a message of the %s", m.Info.Variant, m.Info.Role)
		}
		for _, part := range m.Parts {
			if part.Type != opencode.PartStepFinish {
				continue
			}
			if steps++; part.Snapshot == "" {
				t.Errorf("a step without a snapshot: %+v", part)
			}
		}
	}
	newest, err := s.dir.Messages(s.ctx, session.ID, 2)
	if err != nil || len(newest) != 2 || newest[0].Info.ID != work.Info.ID || steps != 3 {
		t.Errorf("the newest two messages: %v, %v; %d steps", newest, err, steps)
	}
	if one, err := s.dir.Message(s.ctx, session.ID, answer.Info.ID); err != nil || one.Text() != "done" {
		t.Errorf("the last message by itself: %+v, %v", one, err)
	}
}

// A conversation keeps the order of its prompts. Breaks if parts get ids of the server's choosing: the text then doubles.
func TestPromptSentTwiceRunsOnce(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := newScene(t, steps(scriptmodel.Reply{Text: "done", Wait: release}))
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	messageID := s.send(session.ID, "once")
	await(s.ctx, t, sub, status(opencode.Busy))
	s.sendAs(messageID, session.ID, "once") // while it runs
	close(release)
	await(s.ctx, t, sub, status(opencode.Idle))
	s.sendAs(messageID, session.ID, "once") // after its end
	// The server takes prompts in order, so the marker's turn proves that there was none for the third.
	marker := s.send(session.ID, "marker")
	await(s.ctx, t, sub, answered(marker))
	if n := s.calls(); n != 2 {
		t.Errorf("the model was asked %d times, want once for the prompt and once for the marker", n)
	}
	messages, err := s.dir.Messages(s.ctx, session.ID, 0)
	if err != nil || len(messages) != 4 || messages[0].Text() != s.mark+" once" {
		t.Fatalf("the messages: %+v, %v", messages, err)
	}
	for i, id := range []string{messageID, marker} {
		if prompt, answer := messages[2*i].Info, messages[2*i+1].Info; prompt.ID != id || answer.ParentID != id {
			t.Errorf("in the place of %s is %s, and then an answer to %s", id, prompt.ID, answer.ParentID)
		}
	}
}

// An abort ends the tool that runs, and the aborted prompt can be sent again under its id: the resend is the resume.
func TestAbort(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.AssistantTurns() == 0 {
			return bash("echo $$ > pid; exec sleep 600")
		}
		return scriptmodel.Reply{Text: "second try"}
	})
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	messageID := s.send(session.ID, "go")
	await(s.ctx, t, sub, tool(opencode.ToolRunning))
	pid := awaitPID(t, filepath.Join(s.dir.Path(), "pid"))
	if err := s.dir.Abort(s.ctx, session.ID); err != nil {
		t.Fatal(err)
	}
	if got := next[opencode.SessionFailed](s, sub).Err.Name; got != opencode.MessageAborted {
		t.Errorf("the abort was reported as %s", got)
	}
	await(s.ctx, t, sub, tool(opencode.ToolCompleted))
	eventually(t, "the tool is gone", func() bool { return !running(pid) })
	eventually(t, "the session is idle", func() bool {
		statuses, err := s.dir.Statuses(s.ctx)
		_, busy := statuses[session.ID]
		return err == nil && !busy
	})
	s.sendAs(messageID, session.ID, "go")
	await(s.ctx, t, sub, answered(messageID))
}

// Sessions lists by the last time something happened, without those of sub-agents or too old ones where that is asked for.
func TestListSessions(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps())
	old := s.session()
	child, err := s.dir.CreateSession(s.ctx, opencode.NewSession{Title: "child", ParentID: old.ID})
	if err != nil {
		t.Fatal(err)
	}
	between := time.UnixMilli(child.Updated.UnixMilli() + 1)
	busy := s.session()
	sub := s.follow(s.dir.Client(), busy.ID)
	s.send(busy.ID, "go")
	await(s.ctx, t, sub, status(opencode.Idle))
	names := map[string]string{old.ID: "old ", child.ID: "child ", busy.ID: "busy "}
	for _, test := range []struct {
		filter opencode.SessionFilter
		want   string
	}{
		{opencode.SessionFilter{}, "busy child old "},
		{opencode.SessionFilter{Roots: true}, "busy old "},
		{opencode.SessionFilter{Title: "CHILD"}, "child "},
		{opencode.SessionFilter{UpdatedSince: between}, "busy "},
	} {
		found, err := s.dir.Sessions(s.ctx, test.filter)
		got := ""
		for _, one := range found {
			got += names[one.ID]
		}
		if err != nil || got != test.want {
			t.Errorf("%+v: %q, want %q, %v", test.filter, got, test.want, err)
		}
	}
}

func TestUnknownModelAndAgentFail(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps())
	first := s.session() // a directory that still boots may lose these very events: after a turn it has booted
	booted := s.follow(s.dir.Client(), first.ID)
	s.send(first.ID, "go")
	await(s.ctx, t, booted, status(opencode.Idle))
	for _, test := range []struct {
		agent string
		model opencode.ModelRef
		want  error
	}{
		{"none", agentModel, opencode.ErrUnknownAgent},
		{"build", opencode.ModelRef{ProviderID: "scripted", ModelID: "none"}, opencode.ErrUnknownModel},
	} {
		session := s.session()
		sub := s.follow(s.dir.Client(), session.ID)
		err := s.dir.Prompt(s.ctx, session.ID, opencode.Prompt{
			Agent: test.agent, Model: test.model, Text: "go",
		})
		if err != nil {
			t.Fatal(err) // the server takes it and fails later
		}
		if got := next[opencode.SessionFailed](s, sub).Err; !errors.Is(got, test.want) {
			t.Errorf("%v is reported as %v", test.want, got)
		}
		_, err = s.dir.Ask(s.ctx, opencode.AskRequest{Agent: test.agent, Model: test.model, Text: s.mark})
		if !errors.Is(err, test.want) || errors.Is(err, opencode.ErrUnavailable) {
			t.Errorf("%v in a question is reported as %v", test.want, err)
		}
	}
}

func TestRetryIsReported(t *testing.T) {
	t.Parallel()
	var refused atomic.Bool
	s := newScene(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		if !refused.Swap(true) {
			return scriptmodel.Reply{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"1"}}}
		}
		return scriptmodel.Reply{Text: "done"}
	})
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	s.send(session.ID, "go")
	events := await(s.ctx, t, sub, status(opencode.Retry))
	got := events[len(events)-1].Payload.(opencode.StatusChanged).Status
	if got.Attempt != 1 || got.Message == "" || time.Until(got.Next) > 2*time.Second || got.Next.IsZero() {
		t.Errorf("the retry is %+v", got)
	}
	await(s.ctx, t, sub, status(opencode.Idle))
}

func TestAskForJSON(t *testing.T) {
	t.Parallel()
	s := newScene(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		return scriptmodel.Reply{JSON: map[string]any{"answer": 42}}
	})
	answer, err := s.dir.Ask(s.ctx, opencode.AskRequest{
		Title: s.mark, Model: agentModel, Text: s.mark,
		Schema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"number"}},"required":["answer"]}`),
	})
	if err != nil || string(answer.Info.Structured) != `{"answer":42}` || answer.Info.Cost <= 0 ||
		answer.Info.Model != agentModel {
		t.Errorf("the answer is %+v, %v", answer, err)
	}
	for _, r := range shared.model.Requests() {
		if strings.Contains(r.FirstUser(), s.mark) && !slices.Equal(r.Tools, []string{"StructuredOutput"}) {
			t.Errorf("the model was offered %v", r.Tools)
		}
	}
	if left, err := s.dir.Sessions(s.ctx, opencode.SessionFilter{Title: s.mark}); err != nil || len(left) != 0 {
		t.Errorf("sessions left behind: %+v, %v", left, err)
	}
}

// A question whose turn failed says how, and loses nothing of what it cost. The provider's refusal does not pass for the
// server's.
func TestAskReportsHowTheTurnFailed(t *testing.T) {
	t.Parallel()
	reply := scriptmodel.Reply{Text: "I would rather talk"}
	s := newScene(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply { return reply })
	question := opencode.AskRequest{Model: agentModel, Text: s.mark, Schema: json.RawMessage(`{"type":"object"}`)}
	answer, err := s.dir.Ask(s.ctx, question)
	failure, ok := errors.AsType[*opencode.TurnError](err)
	if !ok || failure.Name != opencode.StructuredOutput || answer.Text() != reply.Text || answer.Info.Cost <= 0 ||
		answer.Info.Structured != nil {
		t.Errorf("prose instead of JSON: %+v, %v", answer, err)
	}
	reply, question.Schema = scriptmodel.Reply{Status: http.StatusUnauthorized}, nil
	_, err = s.dir.Ask(s.ctx, question)
	failure, ok = errors.AsType[*opencode.TurnError](err)
	if !ok || failure.Name != opencode.APIError || failure.StatusCode != http.StatusUnauthorized || failure.Retryable ||
		errors.Is(err, opencode.ErrUnauthorized) || errors.Is(err, opencode.ErrUnavailable) {
		t.Errorf("a refused key is %#v", err)
	}
}

func TestAskGivenUpStopsTheModelCall(t *testing.T) {
	t.Parallel()
	asked, gone := make(chan struct{}), make(chan struct{})
	s := newScene(t, func(ctx context.Context, _ scriptmodel.Request) scriptmodel.Reply {
		context.AfterFunc(ctx, func() { close(gone) })
		close(asked)
		return scriptmodel.Reply{Wait: make(chan struct{})}
	})
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		_, err := s.dir.Ask(ctx, opencode.AskRequest{Title: s.mark, Model: agentModel, Text: s.mark})
		result <- err
	}()
	<-asked
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) || errors.Is(err, opencode.ErrUnavailable) {
		t.Errorf("giving up is reported as %v", err)
	}
	<-gone
	if left, err := s.dir.Sessions(s.ctx, opencode.SessionFilter{Title: s.mark}); err != nil || len(left) != 0 {
		t.Errorf("sessions left behind: %+v, %v", left, err)
	}
}

func TestCatalogue(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps())
	catalogue, err := s.dir.Catalogue(s.ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !catalogue.Has(agentModel) || catalogue.Has(opencode.ModelRef{ProviderID: "scripted", ModelID: "none"}) {
		t.Errorf("the models are %+v", catalogue)
	}
	if got, err := s.dir.DefaultModel(s.ctx); err != nil || got != agentModel.String() {
		t.Errorf("the default model is %v, %v", got, err)
	}
	agents, err := s.dir.Agents(s.ctx)
	if err != nil || !slices.Contains(agents, "build") {
		t.Errorf("the agents are %+v, %v", agents, err)
	}
	if err := s.dir.ShowToast(s.ctx, opencode.Toast{Message: "hello", Variant: "info"}); err != nil {
		t.Error(err)
	}
}

func TestSessionIsStoredAndDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps())
	rules := []opencode.Rule{{Permission: "bash", Pattern: "*", Action: opencode.Deny}}
	made, err := s.dir.CreateSession(s.ctx, opencode.NewSession{
		Title: s.mark, Metadata: map[string]any{"tag": "x"}, Agent: "build", Model: agentModel, Rules: rules,
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.dir.Session(s.ctx, made.ID)
	if err != nil || got.Title != s.mark || got.Metadata["tag"] != "x" || got.Directory != s.dir.Path() ||
		!slices.Equal(got.Rules, rules) || got.Created.IsZero() || got.Agent != "build" {
		t.Errorf("stored as %+v, %v", got, err)
	}
	for range 2 {
		if err := s.dir.DeleteSession(s.ctx, made.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.dir.Session(s.ctx, made.ID); !errors.Is(err, opencode.ErrNotFound) {
		t.Errorf("after its deletion: %v", err)
	}
	if _, err := s.dir.Message(s.ctx, made.ID, "msg_none"); !errors.Is(err, opencode.ErrNotFound) {
		t.Errorf("a message that never was: %v", err)
	}
}
