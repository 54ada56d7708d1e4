package watch

import (
	"fmt"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
)

// scene is a piece of a session's life that was recorded, and what the arbiter has to make of it.
type scene struct {
	name  string
	rules []opencode.Rule
	model func(*stage, scriptmodel.Request) scriptmodel.Reply
	play  func(*stage)
	// want are the arbiter's answers after the first, which is always that no turn has ended yet, as "kind gate"; equal
	// ones in a row count once.
	want []string
}

func say(text string) scriptmodel.Reply { return scriptmodel.Reply{Text: text} }

func use(tool string, args map[string]any) scriptmodel.Reply {
	return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{Name: tool, Args: args}}}
}

// list writes a todo list, given as content and status in turns.
func list(items ...string) scriptmodel.Reply {
	var todos []map[string]any
	for i := 0; i < len(items); i += 2 {
		todos = append(todos, map[string]any{"content": items[i], "status": items[i+1], "priority": "high"})
	}
	return use("todowrite", map[string]any{"todos": todos})
}

func write(file, content string) scriptmodel.Reply {
	return use("write", map[string]any{"filePath": file, "content": content})
}

// steps are the model's answers, by how many it gave in the session before.
func steps(replies ...scriptmodel.Reply) func(*stage, scriptmodel.Request) scriptmodel.Reply {
	return func(_ *stage, r scriptmodel.Request) scriptmodel.Reply {
		if n := r.AssistantTurns(); n < len(replies) {
			return replies[n]
		}
		return say("I have nothing to add.")
	}
}

// turns is a prompt of a person, and as many of the manager; after each nothing happens for ten minutes.
func turns(continuations int) func(*stage) {
	return func(s *stage) {
		s.person("Write a and b.")
		s.idle()
		s.quiet(10 * time.Minute)
		for i := range continuations {
			s.manager(fmt.Sprint("Go on, ", i))
			s.idle()
			s.quiet(10 * time.Minute)
		}
	}
}

var (
	looking = say("I looked at it; a is there, b is not.")
	half    = list("Write a", "completed", "Write b", "pending")
	whole   = list("Write a", "completed", "Write b", "completed")
)

// continued is what a continuation looks like, and what comes after it.
func continued(rest ...string) []string {
	return append([]string{"wait idle", "countdown countdown", "send open", "wait in_flight"}, rest...)
}

// useless are continuations that bring nothing: the next one has to cool down.
func useless(n int, rest ...string) []string {
	all := continued()
	for range n - 1 {
		all = append(all, "wait idle", "wait cooldown", "countdown countdown", "send open", "wait in_flight")
	}
	return append(append(all, "wait idle"), rest...)
}

var scenes = []scene{
	{
		name: "open_todos", model: steps(half, looking, write("b.txt", "b\n"), whole, say("Both are there.")), play: turns(1),
		want: continued("finish work", "wait work"),
	},
	{
		name: "complete", model: steps(whole, say("Both are there.")), play: turns(0),
		want: []string{"wait idle", "finish work", "wait work"},
	},
	{
		name: "no_list", model: steps(say("The answer is 42.")), play: turns(0),
		want: []string{"wait idle", "finish work", "wait work"},
	},
	{
		name: "claim", model: steps(half, say("All done. Everything works.")), play: turns(0),
		want: []string{"wait idle", "countdown countdown", "wait countdown", "send open", "wait in_flight"},
	},
	{
		name: "question",
		model: steps(half, use("question", map[string]any{"questions": []map[string]any{{
			"question": "Which colour?", "header": "Colour", "options": []map[string]any{
				{"label": "Red", "description": "Like a rose"}, {"label": "Blue", "description": "Like the sky"},
			},
		}}}), whole, say("Red it is.")),
		play: func(s *stage) {
			s.person("Write a and b.")
			id := s.request("question.asked")
			s.quiet(time.Hour)
			if err := s.dir.AnswerQuestion(s.ctx, id, [][]string{{"Red"}}); err != nil {
				s.t.Fatal(err)
			}
			s.idle()
			s.quiet(time.Minute)
		},
		want: []string{"wait idle", "wait asks", "wait idle", "finish work", "wait work"},
	},
	{
		name: "permission", rules: []opencode.Rule{{Permission: "bash", Pattern: "*", Action: opencode.Ask}},
		model: steps(half, use("bash", map[string]any{"command": "true", "description": "Check it"}), whole, say("It works.")),
		play: func(s *stage) {
			s.person("Write a and b.")
			id := s.request("permission.asked")
			s.quiet(time.Hour)
			if err := s.dir.ReplyPermission(s.ctx, id, opencode.ReplyOnce, ""); err != nil {
				s.t.Fatal(err)
			}
			s.idle()
			s.quiet(time.Minute)
		},
		want: []string{"wait idle", "wait asks", "wait idle", "finish work", "wait work"},
	},
	{
		name: "abort", model: steps(half, use("bash", map[string]any{"command": "sleep 60", "description": "Wait"})),
		play: func(s *stage) {
			s.person("Write a and b.")
			s.await("message.part.updated", `"running"`)
			if err := s.dir.Abort(s.ctx, s.session); err != nil {
				s.t.Fatal(err)
			}
			s.idle()
			s.quiet(24 * time.Hour)
		},
		want: []string{"wait idle", "wait stopped"},
	},
	{
		name: "abort_and_prompt",
		model: steps(half, use("bash", map[string]any{"command": "sleep 60", "description": "Wait"}),
			looking, looking, looking, looking),
		play: func(s *stage) {
			s.person("Write a and b.")
			s.await("message.part.updated", `"running"`)
			if err := s.dir.Abort(s.ctx, s.session); err != nil {
				s.t.Fatal(err)
			}
			s.idle()
			s.quiet(time.Hour)
			s.person("Do it without waiting.")
			s.idle()
			s.quiet(35 * time.Second)
		},
		want: []string{
			"wait idle", "wait stopped", "wait idle", "countdown countdown", "send open", "wait in_flight",
		},
	},
	{
		name: "person_between", model: steps(half, looking, say("The sky is blue.")),
		play: func(s *stage) {
			s.person("Write a and b.")
			s.idle()
			s.quiet(29 * time.Second) // it was idle for two already: the countdown runs
			s.person("By the way, why is the sky blue?")
			s.idle()
			s.quiet(35 * time.Second)
		},
		want: []string{
			"wait idle", "countdown countdown", "wait idle", "countdown countdown", "send open", "wait in_flight",
		},
	},
	{
		name: "person_says_stop", model: steps(half, looking, say("I stop.")),
		play: func(s *stage) {
			s.person("Write a and b.")
			s.idle()
			// Without the mark, which would make it more than that.
			s.prompt(opencode.TextPart{Text: "Stop!"})
			s.idle()
			s.quiet(24 * time.Hour)
		},
		want: []string{"wait idle", "wait stopped"},
	},
	{
		name: "sub_agent",
		model: func(s *stage, r scriptmodel.Request) scriptmodel.Reply {
			if r.SessionID != s.session {
				return scriptmodel.Reply{Text: "It is used in two places.", Wait: s.release}
			}
			return steps(half, use("task", map[string]any{
				"description": "Find uses", "prompt": s.mark + " Where is a used?", "subagent_type": "general",
			}), whole, say("Both are there."))(s, r)
		},
		play: func(s *stage) {
			s.person("Write a and b.")
			s.await("session.created", s.session)
			s.quiet(time.Hour)
			close(s.release)
			s.idle()
			s.quiet(time.Minute)
		},
		want: []string{"wait idle", "wait background", "wait idle", "finish work", "wait work"},
	},
	{
		name: "compaction",
		model: func(s *stage, r scriptmodel.Request) scriptmodel.Reply {
			if len(r.Tools) == 0 {
				return scriptmodel.Reply{Text: "Summary: a is written, b is not.", Wait: s.release}
			}
			if r.AssistantTurns() == 0 {
				return half
			}
			reply := looking
			if r.AssistantTurns() == 1 && len(r.Messages) > 1 && r.Messages[len(r.Messages)-1].Role == "tool" {
				reply.InputTokens = 199_000 // of 200,000: OpenCode compacts
			}
			return reply
		},
		play: func(s *stage) {
			s.person("Write a and b.")
			s.await("message.part.updated", `"compaction"`)
			s.quiet(time.Hour)
			close(s.release)
			s.idle()
			s.quiet(35 * time.Second)
		},
		want: []string{
			"wait idle", "wait compaction", "wait idle", "countdown countdown", "send open", "wait in_flight",
		},
	},
	{
		name: "compaction_forgets", // the agent begins another list after it, and thinks that it is done
		model: func(_ *stage, r scriptmodel.Request) scriptmodel.Reply {
			switch last := r.Messages[len(r.Messages)-1]; {
			case len(r.Tools) == 0:
				return say("Summary: a is written.")
			case strings.Contains(r.Text(), "Summary: a is written."):
				if last.Role == "tool" {
					return say("That was it.")
				}
				return list("Look again", "completed")
			case last.Role == "tool":
				reply := looking
				reply.InputTokens = 199_000 // of 200,000: OpenCode compacts
				return reply
			}
			return half
		},
		play: turns(0),
		want: []string{
			"wait idle", "wait compaction", "wait idle", "countdown countdown", "send open", "wait in_flight",
		},
	},
	{
		name: "retry",
		model: func() func(*stage, scriptmodel.Request) scriptmodel.Reply {
			refused := false
			return func(s *stage, r scriptmodel.Request) scriptmodel.Reply {
				if r.AssistantTurns() == 1 && !refused {
					refused = true
					return scriptmodel.Reply{Status: 503}
				}
				return steps(half, looking)(s, r)
			}
		}(),
		play: func(s *stage) {
			s.person("Write a and b.")
			s.await("session.status", `"retry"`)
			s.quiet(time.Hour)
			s.idle()
			s.quiet(35 * time.Second)
		},
		want: continued(),
	},
	{
		name: "error",
		model: func(_ *stage, r scriptmodel.Request) scriptmodel.Reply {
			if !strings.Contains(r.LastUser(), "Go on") {
				return scriptmodel.Reply{Status: 422, Body: `{"error":{"message":"the prompt could not be processed"}}`}
			}
			return say("Here I am again; the answer is 42.")
		},
		play: turns(1),
		want: continued("finish work", "wait work"),
	},
	{
		name: "wrong_key",
		model: func(*stage, scriptmodel.Request) scriptmodel.Reply {
			return scriptmodel.Reply{Status: 401}
		},
		play: turns(0),
		want: []string{"wait idle", "let_go broken", "wait let_go"},
	},
	{
		name: "unknown_model", model: steps(),
		play: func(s *stage) {
			s.promptModel(opencode.ModelRef{ProviderID: scriptmodel.ProviderID, ModelID: "gone"},
				opencode.TextPart{Text: s.mark + " Write a and b."})
			s.idle()
			s.quiet(time.Hour)
		},
		want: []string{"wait idle", "let_go broken", "wait let_go"},
	},
	{
		name: "all_blocked", model: steps(list("Write a", "completed", "Ask the owner", "blocked"), say("The rest is not mine.")),
		play: turns(0),
		want: []string{"wait idle", "let_go work", "wait let_go"},
	},
	{
		name: "only_chat",
		model: func(_ *stage, r scriptmodel.Request) scriptmodel.Reply {
			if r.AssistantTurns() == 0 {
				return half
			}
			return say("I will write b now.")
		},
		play: turns(5),
		want: useless(5, "let_go failures", "wait let_go"),
	},
	{
		name: "flips",
		model: func(_ *stage, r scriptmodel.Request) scriptmodel.Reply {
			switch {
			case r.TurnsSinceUser() > 0:
				return say(fmt.Sprint("Now it is as it should be, I think: ", r.AssistantTurns()))
			case r.AssistantTurns()%4 == 0:
				return half
			}
			return list("Write a", "pending", "Write b", "pending")
		},
		play: turns(5),
		want: useless(5, "wait failures", "countdown countdown", "send open", "wait in_flight"),
	},
}
