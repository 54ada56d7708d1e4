package scriptmodel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/bouldermgr/manager/internal/text"
)

// Script is a declarative [Handler] ([Script.Reply]), read from YAML:
//
//	rules:
//	  - name: the plan                # for error messages; optional
//	    when: {kind: structured, any: Split the task}
//	    replies:
//	      - json: {sub_tasks: [{id: a, description: Write hello.txt}]}
//	  - when: {first_user: "Sub-task: a"}
//	    replies:
//	      - tool_calls: [{name: write, args: {filePath: hello.txt, content: "hello\n"}}]
//	      - {status: 429, header: {Retry-After: "1"}, times: 2}
//	      - text: Done.
//
// Tools and their arguments have the names of OpenCode 1, and are translated for OpenCode 2.
//
// The first matching rule answers a request. Without one, title requests get a fixed title; what a task demands (kind facts)
// is nothing in particular, and a plan is needed if some reply of the script is one; a check of a whole request (kind check)
// finds all met; others get HTTP 400 with an explanation.
//
// Which reply is due:
//
//   - For an agent, the number of assistant messages in the conversation, with last_user those after the last user
//     message, is the number of replies given. After the last reply the rule says that there is nothing more to do or,
//     with repeat, repeats it.
//   - For a structured request, which has no conversation, the rule counts its answers. The last reply is repeated.
//   - A fault (status, cut or empty) is given `times` times (default 1) per session and then skipped. It is not counted:
//     OpenCode discards such an answer and asks again.
type Script struct {
	rules []rule

	mu       sync.Mutex
	answered map[int]int      // number of answers, by rule
	faulted  map[faultKey]int // number of faults given
}

type faultKey struct {
	rule, reply int
	session     string
}

type rule struct {
	Name    string    `yaml:"name"`
	When    condition `yaml:"when"`
	Repeat  bool      `yaml:"repeat"`
	Replies []Reply   `yaml:"replies"`
}

// ParseScript parses a script. Unknown keys, and rules or replies without effect, are errors.
func ParseScript(data []byte) (*Script, error) {
	var file struct {
		Rules []rule `yaml:"rules"`
	}
	if err := yaml.Load(data, &file, yaml.WithKnownFields()); err != nil {
		return nil, err
	}
	if len(file.Rules) == 0 {
		return nil, errors.New("the script has no rules")
	}
	for i, r := range file.Rules {
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("rule %d %q: %w", i+1, r.Name, err)
		}
	}
	return &Script{rules: file.Rules, answered: make(map[int]int), faulted: make(map[faultKey]int)}, nil
}

func (r rule) check() error {
	if err := r.When.check(); err != nil {
		return err
	}
	if len(r.Replies) == 0 {
		return errors.New("it has no replies")
	}
	for i, reply := range r.Replies {
		if err := reply.check(); err != nil {
			return fmt.Errorf("reply %d: %w", i+1, err)
		}
	}
	return nil
}

func (r Reply) check() error {
	switch {
	case r.Times < 0:
		return errors.New("times is negative")
	case r.Times > 0 && !r.Fault():
		return errors.New("times is for faults (status, cut or empty) only")
	case r.Status != 0 && (r.Status < 400 || r.Status > 599):
		return fmt.Errorf("status %d is not an HTTP error", r.Status)
	case slices.ContainsFunc(r.ToolCalls, func(c ToolCall) bool { return c.Name == "" }):
		return errors.New("a tool call has no name")
	}
	_, err := r.answer(Request{}, 0)
	return err
}

// Reply answers req from the script. It is a [Handler].
func (s *Script) Reply(_ context.Context, req Request) Reply {
	for i, r := range s.rules {
		if r.When.matches(req) {
			reply := s.play(i, req)
			reply.forCheck = req.IsCheck()
			return reply
		}
	}
	if req.IsCheck() {
		return Reply{}
	}
	if req.Kind() == KindTitle {
		return Reply{Text: "Scripted session"}
	}
	if req.AsksFacts() {
		return Facts(s.plans())
	}
	return Errorf("scripted model: no rule of the script matches this request (kind %s, model %q, last user message: %q)",
		req.Kind(), req.Model, text.Clip(req.LastUser(), 201))
}

// Facts is an answer to [Request.AsksFacts] that demands nothing. A [Server] gives it where a handler's JSON is no such answer;
// a plan is needed then if the JSON is one.
func Facts(needsPlan bool) Reply {
	return Reply{JSON: map[string]any{"request": []any{}, "needs_plan": needsPlan, "reason": "it is scripted"}}
}

// plans reports whether a reply has sub-tasks.
func (s *Script) plans() bool {
	return slices.ContainsFunc(s.rules, func(r rule) bool {
		return slices.ContainsFunc(r.Replies, func(reply Reply) bool {
			object, _ := reply.JSON.(map[string]any)
			return object["sub_tasks"] != nil
		})
	})
}

func (s *Script) play(i int, req Request) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rules[i]
	given := s.given(i, req)
	last := -1 // index of the last reply that is not a fault
	for n, reply := range r.Replies {
		if !reply.Fault() {
			if given == 0 {
				s.answered[i]++
				return reply
			}
			given--
			last = n
			continue
		}
		key := faultKey{i, n, req.SessionID}
		if given == 0 && s.faulted[key] < max(1, reply.Times) {
			s.faulted[key]++
			return reply
		}
	}
	if last >= 0 && (req.Kind() == KindStructured || r.Repeat) {
		return r.Replies[last]
	}
	return Reply{Text: "There is nothing more to do."}
}

// given returns how many replies of rule i the caller has had.
func (s *Script) given(i int, req Request) int {
	switch {
	case req.Kind() == KindStructured:
		return s.answered[i]
	case len(s.rules[i].When.LastUser) > 0:
		return req.TurnsSinceUser()
	default:
		return req.AssistantTurns()
	}
}
