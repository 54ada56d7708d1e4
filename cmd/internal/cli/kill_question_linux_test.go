package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/blockers/mcptool"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

var killQuestions = flag.Int("kill-questions", 3, "how many kills TestKillAtQuestion makes; 0: one at each step")

// The numbers of steps to choose from: of an undisturbed run, and while the command that answers runs.
const (
	questionSteps = 25
	answerSteps   = 3
)

const (
	askingPlan  = "task: Ask the user\nisolation: off\nmodel: scripted/agent\nsub_tasks:\n  - {id: ask, description: Write ask.txt}\n"
	workingPlan = askingPlan + "  - {id: work, description: Write work.txt}\n"
	waitingAsk  = "blockers: {permissions: [{permission: bash, pattern: '*step.sh*', action: ask, wait: 30m}]}\n"
)

// questions are the ways in which an agent asks and the user answers.
var questions = []struct{ name, plan, config string }{
	{"while another sub-task is at work", workingPlan, ""},
	{"when nothing else is left to do", askingPlan, ""},
	{"while the session waits for a permission", askingPlan, waitingAsk},
}

// kill -9 of the manager, of OpenCode or of the command that answers, at any step between "the agent asked" and "the
// answer arrived": the question is recorded once and answered once, and the answer reaches the model. At most one new
// prompt says it, and at most one tells the agent to do the rest meanwhile. A resume prompt after a crash may repeat the
// answer, and so may a prompt after a session that got it as a reply, if the crash came before that was recorded.
func TestKillAtQuestion(t *testing.T) {
	t.Parallel()
	victims := []victim{theManager, theServer, theAnswer}
	if *killQuestions == 0 {
		for q := range questions {
			for _, v := range victims {
				for step := 1; killAtQuestion(t, q, v, step) && !t.Failed(); step++ {
				}
			}
		}
		return
	}
	steps := rand.New(rand.NewPCG(*killSeed, 2))
	for i := range *killQuestions {
		v, n := victims[(i+i/len(questions))%len(victims)], questionSteps
		if v == theAnswer {
			n = answerSteps
		}
		killAtQuestion(t, i%len(questions), v, 1+steps.IntN(n))
	}
}

// killAtQuestion reports whether there was such a step.
func killAtQuestion(t *testing.T, question int, v victim, step int) (struck bool) {
	t.Run(fmt.Sprintf("%s/%s/%d", questions[question].name, v, step), func(t *testing.T) {
		w := newQuestionWorld(t, question, v, step)
		w.toTheEnd()
		w.gone("at the end", w.ours())
		w.check()
		struck = w.struck > 0
	})
	return struck
}

// questionWorld is a boulder with one question, under one kill.
type questionWorld struct {
	*killWorld
	permission bool          // the question is one
	asked      bool          // it was seen
	answered   chan struct{} // closed when its answer is stored
}

func newQuestionWorld(t *testing.T, question int, v victim, step int) *questionWorld {
	t.Helper()
	q := questions[question]
	w := &questionWorld{bareKillWorld(t, uint64(step), 1), q.config != "", false, make(chan struct{})}
	w.next = kill{after: step, victim: v}
	if v == theAnswer { // most of its own steps are not seen
		w.next.delay = time.Duration(w.kills.Int64N(int64(100 * time.Millisecond)))
	}
	w.reads = func(e storedEvent) {
		if e.Type == "blocker" {
			w.userSees()
		}
	}
	model := w.listen(w.reply)
	tell := strings.ReplaceAll(tellScript, "ADDRESS", strings.ReplaceAll(w.server, ":", "/"))
	w.dir = octest.Repo(t, map[string]string{
		"plan.yaml": q.plan, ".manager/config.yaml": q.config, "step.sh": tell + "echo ask > ask.txt; echo The step is done.\n",
	})
	w.env = direct(t, w.env, model, "any")
	for i := range w.env {
		w.env[i] = strings.Replace(w.env[i], `"permission":"allow"`, `"permission":{"bash":"ask"}`, 1)
	}
	return w
}

// reply is an agent that asks before it does anything, and one that works until the answer is stored.
func (w *questionWorld) reply(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.Kind() == scriptmodel.KindStructured {
		w.happens("request: the judge")
		return acceptAll
	}
	id := subTaskOf(req.FirstUser())
	w.begins(id, req)
	w.happens("request: " + id)
	switch wrote := toolSaid(req, "Wrote file") || toolSaid(req, "The step is done."); {
	case wrote:
		return scriptmodel.Reply{Text: "Finished with " + id + ".txt."}
	case id == "work":
		return scriptmodel.Reply{Wait: w.answered, ToolCalls: writes("work.txt", "work\n").ToolCalls}
	case w.permission:
		return shell("bash ./step.sh ask")
	case slices.ContainsFunc(req.Messages, func(m scriptmodel.Message) bool { return m.Role == "user" && tells(m.Text) }):
		return writes("ask.txt", "ask\n")
	case toolSaid(req, mcptool.Registered):
		return scriptmodel.Reply{Text: "I wait for the answer."}
	}
	return calls(boulder.BlockerTool, map[string]any{
		"category": "architecture", "question": "What is to be in the file?", "context": "It is not said.", "blocks_progress": true,
	})
}

// tells reports whether a prompt has the answer.
func tells(prompt string) bool { return strings.Contains(prompt, "About B1") }

// userSees has the user answer, once.
func (w *questionWorld) userSees() {
	if !w.asked {
		w.asked = true
		go w.answer()
	}
}

// answer answers until the answer is stored: the command may be killed, or refused while the manager ends.
func (w *questionWorld) answer() {
	defer close(w.answered)
	args := []string{"blockers", "answer", "B1", "ask"}
	if w.permission {
		args[3] = "--allow"
	}
	for range 20 {
		cmd := manager(w.t, w.dir, w.env, args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			w.t.Error(err)
			return
		}
		w.answeredBy(cmd.Process.Pid)
		w.happens("the answer is given")
		err := cmd.Wait()
		w.answeredBy(0)
		w.happens("the command that answers has ended")
		code, log, _ := run(w.t, w.dir, w.env, "logs", "--json")
		if code == 0 && strings.Contains(log, `"type":"blocker-settled"`) {
			return
		}
		w.t.Logf("the answer is not stored: %v, %s", err, out.String())
	}
	w.t.Error("the answer cannot be stored")
}

func (w *questionWorld) answeredBy(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = pid
}

func (w *questionWorld) toTheEnd() {
	w.t.Helper()
	args := []string{"run", "plan.yaml", "--blockers", "--json"}
	for range 10 {
		killed, code, stderr := w.manage(args)
		switch {
		case code == 0:
			return
		case !killed && code != exitWaiting:
			w.t.Fatalf("manager %s: exit code %d\n%s", args[0], code, stderr)
		}
		if stored, _ := w.run(0, "list", "--json"); stored == "" {
			continue
		}
		args = []string{"resume", "--json"}
		for _, e := range w.events() {
			w.note(e)
			w.reads(e)
		}
		if w.over {
			return
		}
		if !killed { // it waits for the user
			<-w.answered
		}
	}
	w.t.Fatal("it does not end")
}

func (w *questionWorld) check() {
	w.t.Helper()
	wantFile(w.t, w.dir, "ask.txt", "ask\n")
	counts := map[string]int{}
	for _, e := range w.events() {
		counts[e.Type]++
	}
	if counts["blocker"] != 1 || counts["blocker-settled"] != 1 || !w.over {
		w.t.Errorf("the events: %v", counts)
	}
	told, again, aside := 0, 0, 0
	for p, servers := range w.prompts {
		if strings.Contains(p.text, "Leave aside what needs the answer") {
			aside += len(servers)
		}
		switch {
		case !tells(p.text):
		case p.resumes():
			again++
		default:
			told += len(servers)
		}
	}
	if told > 1 || told+again == 0 && !w.permission {
		w.t.Errorf("%d new prompts and %d resume prompts say the answer", told, again)
	}
	if aside > 1 || aside == 1 && w.permission {
		w.t.Errorf("the session was told %d times to do the rest", aside)
	}
	if sessions := w.seen["ask"]; len(sessions) != 1 {
		w.t.Errorf("the sub-task had the sessions %q", sessions)
	}
	w.t.Logf("%.1fs: the answer is in %d new prompts and %d resume prompts", time.Since(w.began).Seconds(), told, again)
}
