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

func TestTurnWritesAFile(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps(call("write", map[string]any{"filePath": "new.txt", "content": "written\n"})))
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	messageID := s.send(session.ID, "write it")
	events := await(s.ctx, t, sub, status(opencode.Idle))

	got, err := os.ReadFile(filepath.Join(s.dir.Path(), "new.txt"))
	if err != nil || string(got) != "written\n" {
		t.Errorf("the file has %q, %v", got, err)
	}
	checkOrder(t, events)
	messages, err := s.dir.Messages(s.ctx, session.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	checkTurn(t, messages, messageID)
	newest, err := s.dir.Messages(s.ctx, session.ID, 2)
	if err != nil || len(newest) != 2 || newest[0].Info.ID != messages[len(messages)-2].Info.ID {
		t.Errorf("the newest two messages: %v, %v", newest, err)
	}
}

// checkOrder fails when an event comes before what causes it.
func checkOrder(t *testing.T, events []opencode.Event) {
	t.Helper()
	busy := slices.IndexFunc(events, status(opencode.Busy))
	pending := slices.IndexFunc(events, tool(opencode.ToolPending))
	running := slices.IndexFunc(events, tool(opencode.ToolRunning))
	completed := slices.IndexFunc(events, tool(opencode.ToolCompleted))
	if busy < 0 || pending < busy || running < pending || completed < running {
		t.Errorf("busy %d, pending %d, running %d, completed %d of %s", busy, pending, running, completed, kinds(events))
	}
}

func checkTurn(t *testing.T, messages []opencode.Message, messageID string) {
	t.Helper()
	if len(messages) != 3 {
		t.Fatalf("%d messages, want the prompt, the tool call and the answer", len(messages))
	}
	user, work, answer := messages[0], messages[1], messages[2]
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
		!strings.Contains(string(write.Input), "new.txt") || write.End.Before(write.Start) {
		t.Errorf("the call is %+v", write)
	}
}

// The diff comes some time after the turn: the user message is updated with it. Breaks if parts get ids of the
// server's choosing: the text then doubles.
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
	last := s.send(session.ID, "marker")
	await(s.ctx, t, sub, func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.MessageUpdated)
		return ok && p.Message.ParentID == last && p.Message.Finish == opencode.FinishStop
	})
	if n := s.calls(); n != 2 {
		t.Errorf("the model was asked %d times, want once for the prompt and once for the marker", n)
	}
	message, err := s.dir.Message(s.ctx, session.ID, messageID)
	if err != nil || message.Text() != s.mark+" once" {
		t.Errorf("the prompt became %q, %v", message.Text(), err)
	}
}

// An aborted prompt can be sent again under its id: the resend is the resume.
func TestPromptSentAgainAfterAbortRuns(t *testing.T) {
	t.Parallel()
	never, asked := make(chan struct{}), make(chan struct{}, 2)
	s := newScene(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		defer func() { asked <- struct{}{} }()
		if len(asked) == 0 {
			return scriptmodel.Reply{Wait: never}
		}
		return scriptmodel.Reply{Text: "second try"}
	})
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	messageID := s.send(session.ID, "go")
	eventually(t, "the model is asked", func() bool { return len(asked) > 0 })
	if err := s.dir.Abort(s.ctx, session.ID); err != nil {
		t.Fatal(err)
	}
	failed := await(s.ctx, t, sub, is[opencode.SessionFailed])
	if got := failed[len(failed)-1].Payload.(opencode.SessionFailed).Err.Name; got != opencode.MessageAborted {
		t.Errorf("the abort was reported as %s", got)
	}
	for range 2 {
		await(s.ctx, t, sub, status(opencode.Idle))
	}
	s.sendAs(messageID, session.ID, "go")
	await(s.ctx, t, sub, func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.MessageUpdated)
		return ok && p.Message.ParentID == messageID && p.Message.Finish == opencode.FinishStop
	})
}

func TestConversationKeepsItsOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps(bash("true")))
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	var want []string
	for _, text := range []string{"first", "second", "third"} {
		want = append(want, s.send(session.ID, text))
		await(s.ctx, t, sub, status(opencode.Idle))
	}
	messages, err := s.dir.Messages(s.ctx, session.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range messages {
		if m.Info.Role == opencode.RoleUser {
			got = append(got, m.Info.ID)
		} else if m.Info.ParentID != got[len(got)-1] {
			t.Errorf("%s answers %s after %s", m.Info.ID, m.Info.ParentID, got[len(got)-1])
		}
	}
	if !slices.Equal(got, want) || len(messages) != 9 {
		t.Errorf("%d messages, prompts in the order %v, want %v", len(messages), got, want)
	}
}

func TestAbortStopsTheTool(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps(bash("echo $$ > pid; exec sleep 600")))
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	s.send(session.ID, "sleep")
	await(s.ctx, t, sub, tool(opencode.ToolRunning))
	pid := awaitPID(t, filepath.Join(s.dir.Path(), "pid"))
	if err := s.dir.Abort(s.ctx, session.ID); err != nil {
		t.Fatal(err)
	}
	await(s.ctx, t, sub, tool(opencode.ToolCompleted))
	eventually(t, "the tool is gone", func() bool { return !running(pid) })
	eventually(t, "the session is idle", func() bool {
		statuses, err := s.dir.Statuses(s.ctx)
		_, busy := statuses[session.ID]
		return err == nil && !busy
	})
}

func TestTodos(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps(call("todowrite", map[string]any{"todos": []any{
		map[string]any{"content": "one", "status": "in_progress", "priority": "high"},
	}})))
	session := s.session()
	sub := s.follow(s.dir.Client(), session.ID)
	s.send(session.ID, "plan")
	events := await(s.ctx, t, sub, is[opencode.TodosUpdated])
	want := []opencode.Todo{{Content: "one", Status: "in_progress", Priority: "high"}}
	if got := events[len(events)-1].Payload.(opencode.TodosUpdated).Todos; !slices.Equal(got, want) {
		t.Errorf("the event has %+v", got)
	}
	if got, err := s.dir.Todos(s.ctx, session.ID); err != nil || !slices.Equal(got, want) {
		t.Errorf("the list is %+v, %v", got, err)
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
			Agent: test.agent, Model: test.model, Parts: []opencode.TextPart{{Text: "go"}},
		})
		if err != nil {
			t.Fatal(err) // the server takes it and fails later
		}
		events := await(s.ctx, t, sub, is[opencode.SessionFailed])
		got := events[len(events)-1].Payload.(opencode.SessionFailed).Err
		if !errors.Is(got, test.want) {
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

// What a failed question cost must not be lost.
func TestAskForJSONAnsweredWithProse(t *testing.T) {
	t.Parallel()
	s := newScene(t, steps(scriptmodel.Reply{Text: "I would rather talk"}))
	answer, err := s.dir.Ask(s.ctx, opencode.AskRequest{
		Model: agentModel, Text: s.mark, Schema: json.RawMessage(`{"type":"object"}`),
	})
	failure, ok := errors.AsType[*opencode.TurnError](err)
	if !ok || failure.Name != opencode.StructuredOutput {
		t.Errorf("prose instead of JSON is %v", err)
	}
	if answer.Text() != "I would rather talk" || answer.Info.Cost <= 0 || answer.Info.Structured != nil {
		t.Errorf("the answer is %+v", answer)
	}
}

func TestAskReportsHowTheTurnFailed(t *testing.T) {
	t.Parallel()
	reply := scriptmodel.Reply{Status: http.StatusUnauthorized}
	s := newScene(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply { return reply })
	_, err := s.dir.Ask(s.ctx, opencode.AskRequest{Model: agentModel, Text: s.mark})
	failure, ok := errors.AsType[*opencode.TurnError](err)
	if !ok || failure.Name != opencode.APIError || failure.StatusCode != http.StatusUnauthorized || failure.Retryable {
		t.Errorf("a refused key is %#v", err)
	}
	if errors.Is(err, opencode.ErrUnauthorized) || errors.Is(err, opencode.ErrUnavailable) {
		t.Errorf("the provider's refusal passes for the server's: %v", err)
	}
}

func TestAskGivenUpStopsTheModelCall(t *testing.T) {
	t.Parallel()
	asked, gone := make(chan struct{}), make(chan struct{})
	s := newScene(t, nil)
	never := make(chan struct{})
	shared.cast.Play(s.mark, func(ctx context.Context, _ scriptmodel.Request) scriptmodel.Reply {
		context.AfterFunc(ctx, func() { close(gone) })
		close(asked)
		return scriptmodel.Reply{Wait: never}
	})
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	context.AfterFunc(s.ctx, cancel)
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
	if got, err := s.dir.DefaultModel(s.ctx); err != nil || got != agentModel {
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
	found, err := s.dir.Sessions(s.ctx, opencode.SessionFilter{Title: strings.ToUpper(s.mark)})
	if err != nil || len(found) != 1 || found[0].ID != made.ID {
		t.Errorf("found %+v, %v", found, err)
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
