package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/internal/scriptmodel"
)

const steeredPlan = `
task: Write files
model: scripted/agent
sub_tasks:
  - {id: one, description: Write one.txt}
  - {id: two, description: Write two.txt, depends_on: [one]}
  - {id: three, description: Write three.txt}
  - {id: four, description: Write four.txt, depends_on: [three]}
  - {id: five, description: Write five.txt, depends_on: [four, two]}
  - {id: six, description: Write six.txt, depends_on: [five]}
`

// heldModel holds every prompt of an agent back until the test lets it be answered. Its judge finds the first turn of
// "two" wanting.
type heldModel struct {
	asked chan heldPrompt

	mu     sync.Mutex
	judged []string // what the judge was asked
}

// heldPrompt is a prompt that an agent got.
type heldPrompt struct {
	subTask, text string
	answer        chan struct{}
}

func (m *heldModel) reply(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.Kind() == scriptmodel.KindStructured {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.judged = append(m.judged, req.Text())
		if !strings.Contains(req.Text(), "# Sub-task: two") {
			return content
		}
		return scriptmodel.Reply{JSON: map[string]any{
			"criteria":  []any{map[string]any{"id": "C1", "evidence": "nothing", "met": false}},
			"completed": false, "remaining": []any{"Write the file"}, "summary": "It is done.",
		}}
	}
	p := heldPrompt{subTaskOf(req.FirstUser()), req.LastUser(), make(chan struct{})}
	m.asked <- p
	return scriptmodel.Reply{Wait: p.answer, Text: "All of it is done now."}
}

// next takes in as many prompts as there are names, which may come in any order.
func (m *heldModel) next(t *testing.T, names ...string) map[string]heldPrompt {
	t.Helper()
	got := map[string]heldPrompt{}
	for range names {
		p := <-m.asked
		if !slices.Contains(names, p.subTask) || got[p.subTask].answer != nil {
			t.Fatalf("%q is at work, of %q, besides %d", p.subTask, names, len(got))
		}
		got[p.subTask] = p
	}
	return got
}

// judgements are what the judge was asked about a sub-task.
func (m *heldModel) judgements(subTask string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.judged), func(text string) bool {
		return !strings.Contains(text, "# Sub-task: "+subTask)
	})
}

// A run is steered from another terminal while it goes on: what is said there takes effect at once, and what is noted
// is in the next prompt and the next judgement.
func TestSteerARun(t *testing.T) {
	t.Parallel()
	model := &heldModel{asked: make(chan heldPrompt, 100)}
	w := directWorld(t, model.reply, map[string]string{"plan.yaml": steeredPlan})
	dir, attach := w.dir, w.attached()
	p := startManager(t, dir, w.env, "run", "plan.yaml", "--json", attach)
	const forAll, forTwo = "NOTE: files end in a line feed", "NOTE: two is in capitals"

	// Two are at work. One is skipped, the other ends its turn, and nothing starts until the note is made.
	prompts := model.next(t, "one", "three")
	over := waitFor(dir, waitDone)
	steer(t, dir, "Still at work", "pause")
	if end := <-over; end.code != exitWaiting || !strings.Contains(end.stderr, "paused by a person") {
		t.Errorf("waiting for the end of what is paused: %+v", end)
	}
	steer(t, dir, `Skipped "three"`, "skip", "three")
	p.untilOf("subtask-done", "three")
	close(prompts["one"].answer)
	p.untilOf("usage", "one")
	steer(t, dir, "Noted for all sub-tasks", "note", forAll)
	steer(t, dir, "paused by a person", "status")
	steer(t, dir, fmt.Sprintf("Resumed. Process %d continues", p.cmd.Process.Pid), "resume")

	over = waitFor(dir, waitDone)
	blocked := waitFor(dir, waitBlocked)

	// What was held back and what was blocked begins, and has the note.
	prompts = model.next(t, "two", "four")
	texts(t, "the briefs", []string{forAll}, nil, prompts["two"].text, prompts["four"].text)
	texts(t, "the judgement of what ended before the note", []string{forAll}, nil, model.judgements("one")...)
	steer(t, dir, `"two" is retried`, "retry", "two")
	again := model.next(t, "two")["two"]
	texts(t, "the second brief", []string{forAll, "# Sub-task: two"}, nil, again.text)

	// A note for one goes to that one: to its judge, and to its next prompt, which has no other.
	steer(t, dir, `Noted for sub-task "two"`, "note", "--sub-task", "two", forTwo)
	close(again.answer)
	close(prompts["four"].answer)
	next := model.next(t, "two")["two"]
	texts(t, "the continuation", []string{forTwo}, []string{forAll}, next.text)
	p.untilOf("subtask-done", "four")
	texts(t, "the judgement of two", []string{forTwo}, nil, model.judgements("two")...)
	texts(t, "the judgement of four", nil, []string{forTwo}, model.judgements("four")...)

	// The end, of a part and of the whole.
	steer(t, dir, `Cancelled "five". Blocked, because of that: "six".`, "cancel", "five")
	if end := <-blocked; end.code != exitOK || !strings.Contains(end.stdout, `"blocked":["six"]`) {
		t.Errorf("waiting for something blocked: %+v", end)
	}
	steer(t, dir, "Cancelled boulder", "cancel")
	p.wait(exitInterrupted)
	if end := <-over; end.code != exitInterrupted {
		t.Errorf("waiting for the end: %+v", end)
	}
	steer(t, dir, "cancelled  2/6 done", "status")
}

// steer runs a command in another terminal, and checks what it says.
func steer(t *testing.T, dir, want string, args ...string) {
	t.Helper()
	if stdout, stderr, code := command(dir, args...); code != exitOK || !strings.Contains(stdout, want) {
		t.Fatalf("%q: exit code %d, %s%s; want %q", args, code, stdout, stderr, want)
	}
}

// untilOf reads events up to the first of a type that is about a sub-task.
func (p *process) untilOf(eventType, subTask string) {
	p.t.Helper()
	for p.until(eventType)["sub_task_id"] != subTask {
	}
}

type waitEnd struct {
	stdout, stderr string
	code           int
}

func waitFor(dir, state string) <-chan waitEnd {
	end := make(chan waitEnd, 1)
	go func() {
		stdout, stderr, code := command(dir, "wait", "--for", state, "--json")
		end <- waitEnd{stdout, stderr, code}
	}()
	return end
}
