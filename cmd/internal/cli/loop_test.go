package cli

import (
	"context"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

const promised = "All of it is done and checked.\n\n<promise>DONE</promise>"

func says(text string) []scriptmodel.Reply { return []scriptmodel.Reply{{Text: text}} }

func writes(file, content string) scriptmodel.Reply {
	return calls("write", map[string]any{"filePath": file, "content": content})
}

func shell(command string) scriptmodel.Reply {
	return calls("bash", map[string]any{"command": command, "description": "Do it"})
}

func todos(statuses ...string) scriptmodel.Reply {
	var items []any
	for i, s := range statuses {
		items = append(items, map[string]any{"content": "Item " + string(rune('A'+i)), "status": s, "priority": "high"})
	}
	return calls("todowrite", map[string]any{"todos": items})
}

func calls(tool string, args map[string]any) scriptmodel.Reply {
	return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{Name: tool, Args: args}}}
}

// then is a turn: some calls, then a text.
func then(text string, calls ...scriptmodel.Reply) []scriptmodel.Reply {
	return append(calls, scriptmodel.Reply{Text: text})
}

// loopCase is a session whose model plays one turn per prompt, and the last one again for further prompts.
type loopCase struct {
	args   []string
	config string
	files  map[string]string
	git    bool // for turns that change files; without git a turn costs half as much
	turns  [][]scriptmodel.Reply
	turn   func(n int) []scriptmodel.Reply // instead of turns
	judge  []bool                          // verdicts in order; then always complete

	code     int
	prompts  int    // that reached the model
	says     string // a pattern in what the command prints
	prompted string // a pattern in the last prompt
	judged   int    // how often the judge was asked
}

var loopCases = map[string]loopCase{
	"the promise is missing, then given": {
		turns: [][]scriptmodel.Reply{then("I have written it as you asked.", writes("a.txt", "a\n")), says(promised)},
		code:  0, prompts: 2, judged: 1, prompted: `You have not written <promise>DONE</promise>`,
	},
	"promised, but the tests are red": {
		files: map[string]string{"Makefile": "test:\n\ttest ! -f broken.txt\n"},
		turns: [][]scriptmodel.Reply{
			then(promised, writes("broken.txt", "x\n")), then("It is mended and works now.", shell("rm broken.txt; date > done.txt")),
		},
		code: 0, prompts: 2, judged: 1, prompted: `(?s)You wrote <promise>DONE</promise>, and yet.*make test`,
	},
	"open items": {
		turns: [][]scriptmodel.Reply{
			then(promised, todos("completed", "pending")), then("Both of them are ready now.", todos("completed", "completed")),
		},
		code: 0, prompts: 2, judged: 1, prompted: `Open items of your todo list(?s).*- Item B`,
	},
	"no language server": {
		files:  map[string]string{"lint.sh": "test ! -f bad.txt"},
		config: "lint: sh lint.sh\n",
		turns: [][]scriptmodel.Reply{
			then(promised, writes("bad.txt", "x\n")), then("It is mended and works now.", shell("rm bad.txt; date > done.txt")),
		},
		code: 0, prompts: 2, judged: 1, prompted: `(?s)fail in more ways than before.*sh lint.sh`,
	},
	"the judge disagrees": {
		turns: [][]scriptmodel.Reply{then(promised, writes("a.txt", "a\n")), then("It has the rest now too.", writes("b.txt", "b\n"))},
		judge: []bool{false}, code: 0, prompts: 2, judged: 2, prompted: `Write b.txt as well`,
	},
	"only what was named counts": {
		args:  []string{"--done-when", "todos"},
		turns: [][]scriptmodel.Reply{then("I have written it as you asked.", todos("completed"))},
		code:  0, prompts: 1, judged: 0,
	},
	"equal answers": {
		turns: [][]scriptmodel.Reply{says("I am still thinking about it, please wait.")},
		code:  3, prompts: 5, judged: 4, says: `it said the same 5 times and called no tool`,
	},
	"flipping statuses": {
		config: "loop: {cooldown: 1ms, failures: 3}\n",
		turn: func(n int) []scriptmodel.Reply {
			return then("I have looked at my list again, for the time "+strings.Repeat("x", n+1),
				todos([]string{"pending", "in_progress", "completed", "cancelled"}[n%4], "pending"))
		},
		code: 3, prompts: 6, judged: 4, says: `3 continuations in a row brought no progress`, // the third turn completes an item, once
	},
	"the same file to and fro": {
		git: true, config: "loop: {cooldown: 1ms, failures: 2}\n",
		turn: func(n int) []scriptmodel.Reply {
			return then("I have changed the file again, for the time "+strings.Repeat("x", n+1),
				writes("a.txt", []string{"one\n", "two\n"}[n%2]))
		},
		code: 3, prompts: 3, judged: 2, says: `2 continuations in a row brought no progress`,
	},
	"all that is left is blocked": {
		turns: [][]scriptmodel.Reply{then("I cannot go on without the password.", todos("completed", "blocked"))},
		code:  4, prompts: 1, says: `nothing is left that the agent can do: 1 item is blocked: Item B`,
	},
	"all that is left is blocked, and everything else holds": {
		args:  []string{"--done-when", "todos,promise"},
		turns: [][]scriptmodel.Reply{then(promised, todos("completed", "blocked"))},
		code:  4, prompts: 1, says: `all that can be done is done: Item B`,
	},
	"a model that breaks": {
		turns: [][]scriptmodel.Reply{{{Status: http.StatusBadRequest}}},
		code:  3, prompts: 6, says: `5 continuations in a row brought no progress; the last one ended with: APIError`,
	},
	"a model that does not answer": {
		config: "rules: {provider_retries: 0}\nlimits: {cool_base: 1ms, cool_max: 1ms, cooldowns: 2, backoff: 1ms}\n",
		turns:  [][]scriptmodel.Reply{{{Status: http.StatusServiceUnavailable}}},
		code:   4, prompts: 0, says: `manager resume`,
	},
}

type loopModel struct {
	loopCase
	mu      sync.Mutex
	got     []string // prompts
	answers int      // of the judge
}

func (m *loopModel) reply(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	m.mu.Lock()
	defer m.mu.Unlock()
	if req.Kind() == scriptmodel.KindStructured {
		m.answers++
		if m.answers <= len(m.judge) && !m.judge[m.answers-1] {
			return scriptmodel.Reply{JSON: map[string]any{
				"completed": false, "summary": "Something is missing.", "continuation_prompt": "Write b.txt as well.",
				"criteria": []any{map[string]any{"id": "C1", "evidence": "there is no b.txt", "met": false}},
			}}
		}
		return acceptAll
	}
	prompts := 0
	for _, x := range req.Messages {
		if x.Role == "user" {
			prompts++
		}
	}
	var turn []scriptmodel.Reply
	if m.turn != nil {
		turn = m.turn(prompts - 1)
	} else {
		turn = m.turns[min(prompts, len(m.turns))-1]
	}
	step := req.TurnsSinceUser()
	reply := turn[min(step, len(turn)-1)]
	if step == 0 && reply.Status < http.StatusInternalServerError {
		m.got = append(m.got, req.LastUser())
	}
	return reply
}

// Each session ends within its bound and says why: a loop never runs forever and never ends early.
func TestLoop(t *testing.T) {
	t.Parallel()
	for name, c := range loopCases {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			files := map[string]string{".manager/config.yaml": c.config}
			if !strings.HasPrefix(c.config, "loop:") {
				files[".manager/config.yaml"] += "loop: {cooldown: 1ms}\n"
			}
			maps.Copy(files, c.files)
			m := &loopModel{loopCase: c}
			w := directWorld(t, m.reply, nil)
			if c.git {
				w.dir = octest.Repo(t, files)
			}
			for file, text := range files {
				writeFile(t, filepath.Join(w.dir, file), text)
			}
			stdout, stderr := w.run(c.code, append([]string{"loop", w.attached(), "Do all of it."}, c.args...)...)
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.got) != c.prompts || m.answers != c.judged {
				t.Fatalf("%d prompts, judged %d times; want %d and %d", len(m.got), m.answers, c.prompts, c.judged)
			}
			if !regexp.MustCompile(c.says).MatchString(stdout + stderr) {
				t.Errorf("it does not say %q:\n%s%s", c.says, stdout, stderr)
			}
			if c.prompted != "" && !regexp.MustCompile(c.prompted).MatchString(m.got[len(m.got)-1]) {
				t.Errorf("the last prompt does not say %q:\n%s", c.prompted, strings.Join(m.got, "\n----\n"))
			}
		})
	}
}
