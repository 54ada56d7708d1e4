package contract

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

func turn(s *scene) {
	s.dir = s.dir.Client().In(must(s.suite.project(s.ctx, s.mark+"project", true)))
	write := scriptmodel.Call("write", map[string]any{"filePath": s.mark + "txt", "content": "written\n"})
	session, sub, messageID := s.begin(scriptmodel.Steps(write))
	s.ends = append(s.ends, func() { _ = s.dir.DeleteSession(context.WithoutCancel(s.ctx), session) }) // its project is removed
	events := s.idle(sub, session)
	s.want(!slices.ContainsFunc(events, Is[opencode.Resync]), "events are said to be missing in a turn of which none was lost")
	before := -1
	for what, match := range []func(opencode.Event) bool{
		Status(opencode.Busy), Tool(opencode.ToolPending), Tool(opencode.ToolRunning), Tool(opencode.ToolCompleted), Answered(messageID),
	} {
		at := slices.IndexFunc(events, match)
		s.want(at > before, "step %d of the turn comes after the next, or not at all", what)
		before = at
	}
	got, err := os.ReadFile(s.file("txt"))
	s.want(err == nil && string(got) == "written\n", "the file has %q, %v", got, err)

	messages := must(s.dir.Messages(s.ctx, session, 10))
	s.want(len(messages) == 3, "%d messages, not the prompt, the call and the answer", len(messages))
	prompt, work, answer := messages[0].Info, messages[1], messages[2]
	s.want(prompt.ID == messageID && prompt.Role == opencode.RoleUser && prompt.Model == agentModel,
		"the prompt is %+v", prompt)
	s.want(messages[0].Parts[0].Metadata["tag"] == s.mark, "the prompt's parts are %+v", messages[0].Parts)
	s.want(work.Info.ParentID == messageID && work.Info.Finish == opencode.FinishToolCalls,
		"the call's message is %+v", work.Info)
	s.want(answer.Info.ParentID == messageID && answer.Info.Finish == opencode.FinishStop && answer.Text() == "done" &&
		!answer.Info.Completed.Before(answer.Info.Created) && answer.Info.Cost > 0 && answer.Info.Tokens.Output > 0,
		"the answer is %+v", answer)
	i := slices.IndexFunc(work.Parts, func(p opencode.Part) bool { return p.Type == opencode.PartTool })
	s.want(i >= 0, "no tool call in %+v", work.Parts)
	call := work.Parts[i].Tool
	s.want(call.Tool == "write" && call.State == opencode.ToolCompleted && call.Output != "" && len(call.EditedFiles()) == 1 &&
		strings.Contains(string(call.Input), s.mark), "the call is %+v", call)
	for _, m := range messages {
		s.want(m.Info.Variant == "high", "variant %q of a message of the %s", m.Info.Variant, m.Info.Role)
	}
	for _, m := range messages[1:] {
		s.want(!s.suite.git || slices.ContainsFunc(m.Parts, func(p opencode.Part) bool {
			return p.Type == opencode.PartStepFinish && p.Snapshot != ""
		}), "a step without a snapshot of the files: %+v", m.Parts)
	}
	one := must(s.dir.Message(s.ctx, session, answer.Info.ID))
	s.want(one.Text() == "done", "the answer by itself is %+v", one)
}

func turnFromState(s *scene) {
	release := make(chan struct{})
	session, _, messageID := s.begin(scriptmodel.Always(scriptmodel.Reply{Text: "done", Wait: release}))
	over := func() bool {
		newest := must(s.dir.Messages(s.ctx, session, 1))
		return s.status(session) == "" && len(newest) == 1 && newest[0].Info.ParentID == messageID && !newest[0].Info.Completed.IsZero()
	}
	s.eventually("the model is asked", func() bool { return len(s.asked()) == 1 })
	s.want(s.status(session) == opencode.Busy && !over(),
		"while the model answers, the session is %q", s.status(session))
	close(release)
	s.eventually("the turn is over", over)
}

func todos(s *scene) {
	if !s.suite.Caps().Todos { // then manager provides the tool
		url, _ := s.toolServer()
		s.must(s.dir.AddMCP(s.ctx, opencode.MCPServer{Name: "manager", URL: url, Headers: mcpHeaders}))
	}
	session, sub, _ := s.begin(scriptmodel.Steps(scriptmodel.Call(opencode.TodoTool, map[string]any{"todos": []any{
		map[string]any{"content": "one", "status": "in_progress", "priority": "high"},
	}})))
	want := []opencode.Todo{{Content: "one", Status: "in_progress", Priority: "high"}}
	told := next[opencode.TodosUpdated](s, sub).Todos
	s.want(slices.Equal(told, want), "the event has %+v", told)
	s.idle(sub, session)
	read, err := s.dir.Todos(s.ctx, session)
	s.want(err == nil && slices.Equal(read, want), "the list is %+v, %v", read, err)
}

func promptTwice(s *scene) {
	release := make(chan struct{})
	s.model(scriptmodel.Steps(scriptmodel.Reply{Text: "done", Wait: release}))
	session, sub := s.newSession()
	messageID := s.send(session, "once")
	s.await(sub, "the turn to begin", Status(opencode.Busy))
	s.sendAs(messageID, session, "once") // while it runs
	close(release)
	s.idle(sub, session)
	s.sendAs(messageID, session, "once") // after its end
	// Prompts run in order, so the marker's turn proves that the third prompt had none.
	marker := s.send(session, "marker")
	s.await(sub, "the marker's answer", Answered(marker))
	s.want(len(s.asked()) == 2, "the model was asked %d times, not once for each prompt", len(s.asked()))
	messages := must(s.dir.Messages(s.ctx, session, 10))
	s.want(len(messages) == 4 && messages[0].Text() == s.mark+" once", "the messages are %+v", messages)
	for i, id := range []string{messageID, marker} {
		prompt, answer := messages[2*i].Info, messages[2*i+1].Info
		s.want(prompt.ID == id && answer.ParentID == id,
			"in the place of %s is %s, then an answer to %s", id, prompt.ID, answer.ParentID)
	}
}

func abort(s *scene) {
	session, sub, messageID := s.begin(once(s.endless()))
	pid := s.endlessPID()
	s.must(s.dir.Abort(s.ctx, session))
	reported, ended := "", false // in any order
	s.await(sub, "the end of the turn and of its tool", func(e opencode.Event) bool {
		if failed, ok := e.Payload.(opencode.SessionFailed); ok {
			reported = failed.Err.Name
		}
		ended = ended || Tool(opencode.ToolCompleted)(e) || Tool(opencode.ToolError)(e)
		return reported != "" && ended
	})
	s.want(reported == opencode.MessageAborted, "the abort was reported as %s", reported)
	s.awaitExit(pid)
	s.eventually("the session is idle", func() bool { return s.status(session) == "" })
	s.sendAs(messageID, session, "go")
	s.await(sub, "the answer", Answered(messageID))
}

func longSession(s *scene) {
	const prompts = 205 // more than a page: 100 messages in OpenCode 1, 200 in OpenCode 2
	release := make(chan struct{})
	s.model(scriptmodel.Steps(scriptmodel.Reply{Text: "done", Wait: release}))
	session, sub := s.newSession()
	var sent []string
	for i := range prompts {
		sent = append(sent, s.send(session, fmt.Sprint("part ", i)))
		if i == 0 {
			s.await(sub, "the turn to begin", Status(opencode.Busy))
		}
	}
	close(release)
	s.idle(sub, session)
	var came []string
	last := ""
	for m, err := range s.dir.EachMessage(s.ctx, session) {
		s.must(err)
		if last = m.Info.ID; m.Info.Role == opencode.RoleUser {
			came = append(came, m.Info.ID)
		}
	}
	s.want(slices.Equal(came, sent), "of %d prompts %d came, or in another order", len(sent), len(came))
	newest := must(s.dir.Messages(s.ctx, session, 2))
	s.want(len(newest) == 2 && newest[1].Info.ID == last, "the newest two are %+v", newest)
}

var (
	noModel     = opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: "none"}
	hiddenModel = opencode.ModelRef{ProviderID: "hidden", ModelID: scriptmodel.ModelAgent}
)

func unknown(s *scene) {
	// A directory that still boots may lose these events. After a turn it has booted.
	first, sub, _ := s.begin(scriptmodel.Steps())
	s.idle(sub, first)
	for _, test := range []struct {
		agent string
		model opencode.ModelRef
		want  error
	}{
		{"none", agentModel, opencode.ErrUnknownAgent},
		{"build", noModel, opencode.ErrUnknownModel},
	} {
		session, sub := s.newSession()
		s.must(s.dir.Prompt(s.ctx, session, opencode.Prompt{Agent: test.agent, Model: test.model, Text: s.mark}))
		failed := next[opencode.SessionFailed](s, sub).Err
		s.want(errors.Is(failed, test.want), "%v is reported as %v", test.want, failed)
		_, err := s.dir.Ask(s.ctx, opencode.AskRequest{Title: s.mark, Agent: test.agent, Model: test.model, Text: s.mark})
		s.want(errors.Is(err, test.want) && !errors.Is(err, opencode.ErrUnavailable),
			"%v in a question is reported as %v", test.want, err)
	}
}
