package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// scene is a running case. Its methods panic with a failure or an omission to end the case; [Suite.try] recovers.
type scene struct {
	suite *Suite
	ctx   context.Context
	mark  string // unique prefix of file names and prompts, by which the model tells scenes apart
	dir   *opencode.Directory
	ends  []func() // run when the case is over
}

type (
	failure  string // how a case failed
	omission string // why a case is skipped
)

// want fails the case unless holds. seen is the format of what was seen instead.
func (s *scene) want(holds bool, seen string, args ...any) {
	if !holds {
		panic(failure(fmt.Sprintf(seen, args...)))
	}
}

// skipUnless skips the case unless cond.
func (s *scene) skipUnless(cond bool, why string) {
	if !cond {
		panic(omission(why))
	}
}

func (s *scene) must(err error) { s.want(err == nil, "%v", err) }

// must returns the value of a call, or fails the case with its error.
func must[T any](value T, err error) T {
	if err != nil {
		panic(failure(err.Error()))
	}
	return value
}

// model sets the handler of the scene's conversations.
func (s *scene) model(part scriptmodel.Handler) { s.suite.cast.Play(s.mark, part) }

// asked returns the requests of the scene's conversations to the model.
func (s *scene) asked() (all []scriptmodel.Request) {
	for _, r := range s.suite.model.Requests() {
		if strings.Contains(r.FirstUser(), s.mark) {
			all = append(all, r)
		}
	}
	return all
}

// newSession creates a session, and follows it and those of its sub-agents.
func (s *scene) newSession(rules ...opencode.Rule) (id string, sub *opencode.Subscription) {
	session := must(s.dir.CreateSession(s.ctx, opencode.NewSession{Title: s.mark, Rules: rules}))
	return session.ID, s.follow(s.dir.Client(), session.ID)
}

// begin starts a turn in a new session, with part as the model.
func (s *scene) begin(
	part scriptmodel.Handler, rules ...opencode.Rule,
) (sessionID string, sub *opencode.Subscription, messageID string) {
	s.model(part)
	sessionID, sub = s.newSession(rules...)
	return sessionID, sub, s.send(sessionID, "go")
}

// follow subscribes, and waits until the stream is complete.
func (s *scene) follow(client *opencode.Client, sessions ...string) *opencode.Subscription {
	sub := client.Subscribe(opencode.Filter{Sessions: sessions})
	s.ends = append(s.ends, sub.Close)
	next[opencode.Resync](s, sub)
	return sub
}

func (s *scene) send(sessionID, text string) (messageID string) {
	messageID = opencode.NewMessageID(time.Now())
	s.sendAs(messageID, sessionID, text)
	return messageID
}

func (s *scene) sendAs(messageID, sessionID, text string) {
	s.must(s.dir.Prompt(s.ctx, sessionID, opencode.Prompt{
		MessageID: messageID, Agent: "build", Model: agentModel, Variant: "high", Text: s.mark + " " + text,
		Metadata: map[string]any{"tag": s.mark},
	}))
}

var agentModel = opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: scriptmodel.ModelAgent}

// status returns the status of a session from the server's state, not from events.
func (s *scene) status(sessionID string) opencode.StatusType {
	statuses := must(s.dir.Statuses(s.ctx))
	return statuses[sessionID].Type
}

func (s *scene) idle(sub *opencode.Subscription, sessionID string) []opencode.Event {
	return s.await(sub, "the end of the turn", func(e opencode.Event) bool {
		return e.SessionID == sessionID && Status(opencode.Idle)(e)
	})
}

// await collects events up to the first match.
func (s *scene) await(
	sub *opencode.Subscription, what string, match func(opencode.Event) bool,
) (events []opencode.Event) {
	for {
		select {
		case event, open := <-sub.C():
			s.want(open, "waited for %s, and the events ended", what)
			if events = append(events, event); match(event) {
				return events
			}
		case <-s.ctx.Done():
			last := ""
			for _, e := range events[max(0, len(events)-10):] {
				last += fmt.Sprintf(" %T", e.Payload)
			}
			s.want(false, "waited for %s: %v; the last of %d events:%s", what, context.Cause(s.ctx), len(events), last)
		}
	}
}

// Is reports whether the payload of an event is a P.
func Is[P opencode.Payload](e opencode.Event) bool { _, ok := e.Payload.(P); return ok }

// next waits for an event with payload P.
func next[P opencode.Payload](s *scene, sub *opencode.Subscription) P {
	events := s.await(sub, fmt.Sprintf("%T", *new(P)), Is[P])
	return events[len(events)-1].Payload.(P)
}

func (s *scene) toolEnd(sub *opencode.Subscription) *opencode.ToolCall {
	events := s.await(sub, "the end of a tool call", func(e opencode.Event) bool {
		return Tool(opencode.ToolCompleted)(e) || Tool(opencode.ToolError)(e)
	})
	return events[len(events)-1].Payload.(opencode.PartUpdated).Part.Tool
}

// Answered matches the completed answer to a prompt.
func Answered(messageID string) func(opencode.Event) bool {
	return func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.MessageUpdated)
		return ok && p.Message.ParentID == messageID && p.Message.Finish == opencode.FinishStop
	}
}

// Status matches a change to a status.
func Status(want opencode.StatusType) func(opencode.Event) bool {
	return func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.StatusChanged)
		return ok && p.Status.Type == want
	}
}

// Tool matches a tool call in a state.
func Tool(state opencode.ToolState) func(opencode.Event) bool {
	return func(e opencode.Event) bool {
		p, ok := e.Payload.(opencode.PartUpdated)
		return ok && p.Part.Tool != nil && p.Part.Tool.State == state
	}
}

// eventually polls for a condition without an event, such as the end of a process.
func (s *scene) eventually(what string, condition func() bool) {
	for !condition() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.ctx.Done():
			s.want(false, "waited until %s: %v", what, context.Cause(s.ctx))
		}
	}
}

// file returns the path of a file of this scene: its name has the mark in front.
func (s *scene) file(name string) string { return filepath.Join(s.dir.Path(), s.mark+name) }

func (s *scene) exists(name string) bool {
	_, err := os.Stat(s.file(name))
	s.want(err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
	return err == nil
}

func (s *scene) touch(name string) scriptmodel.Reply {
	return scriptmodel.Bash("touch " + s.mark + name)
}

// endless is a shell command that writes its process id to the file pid, and does not end by itself.
func (s *scene) endless() scriptmodel.Reply {
	return scriptmodel.Bash("echo $$ > " + s.mark + "pid; exec sleep 600")
}

func (s *scene) endlessPID() (pid int) {
	s.eventually("the tool runs", func() bool {
		data, _ := os.ReadFile(s.file("pid")) // may not exist yet
		number, whole := strings.CutSuffix(string(data), "\n")
		pid, _ = strconv.Atoi(number)
		return whole && pid > 0
	})
	return pid
}

func (s *scene) awaitExit(pid int) {
	s.eventually("the tool's process is gone", func() bool { return !orphan.Running(pid) })
}

// serve serves HTTP on the loopback interface until end, or the end of the case.
func (s *scene) serve(handler http.Handler) (url string, end func()) {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until end
	end = func() { _ = server.Close() }
	s.ends = append(s.ends, end)
	return "http://" + listener.Addr().String(), end
}

// once answers a session's first request with reply, and later ones with "done".
func once(reply scriptmodel.Reply) scriptmodel.Handler {
	return func(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
		if r.AssistantTurns() == 0 {
			return reply
		}
		return scriptmodel.Reply{Text: "done"}
	}
}

var experimental = map[string]any{"subagent_depth": 2, "continue_loop_on_deny": true}

// environmentConfig returns the configuration in the server's environment. OpenCode 2 turns its enabled_providers into
// experimental policies, beside which it ignores experimental settings of a project.
func environmentConfig(url string) string {
	config := scriptmodel.Config(url)
	config["experimental"] = experimental
	out, _ := json.Marshal(config) // cannot fail
	return string(out)
}

// configOf returns the configuration of a project: only the scripted model, a sub-agent that delegates and must ask,
// and continue_loop_on_deny, as manager sets it. Snapshots take half the time of a short turn.
func configOf(url string, snapshots bool) []byte {
	config := scriptmodel.Config(url)
	scripted := config["provider"].(map[string]any)[scriptmodel.ProviderID]
	maps.Copy(config, map[string]any{
		"provider":          map[string]any{scriptmodel.ProviderID: scripted, hiddenModel.ProviderID: scripted},
		"enabled_providers": []string{scriptmodel.ProviderID, hiddenModel.ProviderID},
		"snapshot":          snapshots,
		"subagent_depth":    2, // for OpenCode 1
		"experimental":      experimental,
		"agent": map[string]any{nester: map[string]any{
			"description": "Delegates", "mode": "subagent", "permission": map[string]any{"task": "allow", "bash": "ask"},
		}},
	})
	out, _ := json.Marshal(config) // cannot fail
	return out
}
