package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
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

// heldModel holds back every prompt of an agent until the test releases it. Its judge rejects the first turn of "two".
type heldModel struct{ asked chan heldPrompt }

type heldPrompt struct {
	subTask, text string
	answer        chan struct{}
}

func (m *heldModel) reply(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.Kind() == scriptmodel.KindStructured {
		if !strings.Contains(req.Text(), "# Sub-task: two") {
			return acceptAll
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

// next receives one prompt for each name, in any order.
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

// Orders from another terminal take effect at once, and notes are in the next prompt and the next judgement.
func TestSteerARun(t *testing.T) {
	t.Parallel()
	model := &heldModel{asked: make(chan heldPrompt, 100)}
	w := directWorld(t, model.reply, map[string]string{"plan.yaml": steeredPlan})
	p := startManager(t, w.dir, w.env, "run", "plan.yaml", "--json", w.attached())
	const forAll, forTwo = "NOTE: files end in a line feed", "NOTE: two is in capitals"
	steer := func(says string, args ...string) {
		t.Helper()
		expect(t, w.dir, exitOK, args, says)
	}
	judgements := func(subTask string) (all []string) {
		for _, r := range w.model.Requests() {
			if r.Kind() == scriptmodel.KindStructured && strings.Contains(r.Text(), "# Sub-task: "+subTask) {
				all = append(all, r.Text())
			}
		}
		return all
	}
	untilOf := func(eventType, subTask string) {
		t.Helper()
		for p.until(eventType)["sub_task_id"] != subTask {
		}
	}

	// Two are running. One is skipped, the other ends its turn, and nothing starts before the resume.
	prompts := model.next(t, "one", "three")
	steer("Still at work", "pause")
	expect(t, w.dir, exitWaiting, []string{"wait"}, "paused by the user")
	steer(`Skipped "three"`, "skip", "three")
	untilOf("subtask-done", "three")
	close(prompts["one"].answer)
	untilOf("usage", "one")
	steer("Noted for all sub-tasks", "note", forAll)
	steer("paused by the user", "status")
	steer(fmt.Sprintf("Resumed. Process %d continues", p.cmd.Process.Pid), "resume")

	// Sub-tasks that were held back or blocked start, with the note.
	prompts = model.next(t, "two", "four")
	checkTexts(t, "the briefs", []string{forAll}, nil, prompts["two"].text, prompts["four"].text)
	checkTexts(t, "the judgement of what ended before the note", []string{forAll}, nil, judgements("one")...)
	steer(`"two" is retried`, "retry", "two")
	again := model.next(t, "two")["two"]
	checkTexts(t, "the second brief", []string{forAll, "# Sub-task: two"}, nil, again.text)

	// A note for one sub-task reaches only its judge and its next prompt, which has no other note.
	steer(`Noted for sub-task "two"`, "note", "--sub-task", "two", forTwo)
	close(again.answer)
	close(prompts["four"].answer)
	next := model.next(t, "two")["two"]
	checkTexts(t, "the continuation", []string{forTwo}, []string{forAll}, next.text)
	untilOf("subtask-done", "four")
	checkTexts(t, "the judgement of two", []string{forTwo}, nil, judgements("two")...)
	checkTexts(t, "the judgement of four", nil, []string{forTwo}, judgements("four")...)

	// Cancel a sub-task, then the boulder.
	steer(`Cancelled "five". Blocked, because of that: "six".`, "cancel", "five")
	expect(t, w.dir, exitOK, []string{"wait", "--for", "blocked", "--json"}, `"blocked":["six"]`)
	expect(t, w.dir, exitOK, []string{"cancel"}, "Cancelled boulder", "!may still be at work") // the run stops it
	p.wait(exitInterrupted)
	steer("cancelled  2/6 done", "status")
}

// An edit of the plan file reaches the process that runs the boulder: what waits changes, comes and goes; what is at work
// stays, and refuses.
func TestEditThePlanOfARun(t *testing.T) {
	t.Parallel()
	model := &heldModel{asked: make(chan heldPrompt, 100)}
	w := directWorld(t, model.reply, map[string]string{"plan.yaml": steeredPlan})
	p := startManager(t, w.dir, w.env, "run", "plan.yaml", "--json", w.attached())
	prompts := model.next(t, "one", "three")
	write := func(replacements ...string) {
		t.Helper()
		text := strings.NewReplacer(replacements...).Replace(steeredPlan)
		if err := os.WriteFile(filepath.Join(w.dir, "plan.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("Write one.txt", "Write one.txt in capitals")
	expect(t, w.dir, exitUsage, []string{"resume", "--yes"}, `sub-task "one" is under way: `+"`manager cancel one`, then `manager retry one`")
	edits := []string{
		"Write two.txt,", "Write two.txt in capitals,", "{id: six, description: Write six.txt, depends_on: [five]}",
		"{id: seven, description: Write seven.txt, depends_on: [four]}",
	}
	write(edits...)
	expect(t, w.dir, exitWaiting, []string{"resume"}, "~ Write two.txt in capitals (two)", "- Write six.txt (six)", "+ Write seven.txt (seven)")
	expect(t, w.dir, exitOK, []string{"resume", "--yes"}, "The edit is revision 2 of the plan.", fmt.Sprintf("Process %d, which runs boulder", p.cmd.Process.Pid))
	expect(t, w.dir, exitOK, []string{"status"}, "0/6 done")
	if event := p.until("plan-edited"); fmt.Sprint(event["changed"]) != "[two]" || fmt.Sprint(event["removed"]) != "[six]" {
		t.Errorf("the stream says %v", event)
	}

	close(prompts["one"].answer)
	close(prompts["three"].answer)
	prompts = model.next(t, "two", "four")
	checkTexts(t, "the brief", []string{"Write two.txt in capitals"}, nil, prompts["two"].text)
	close(prompts["four"].answer)
	close(model.next(t, "seven")["seven"].answer)

	// A sub-task under way is cancelled and retried: it begins again as the file says.
	write(append(edits, "id: two,", "id: two, outputs: [name],")...)
	expect(t, w.dir, exitOK, []string{"cancel", "two"}, `Cancelled "two"`)
	expect(t, w.dir, exitOK, []string{"retry", "two"}, `"two" is retried in a fresh session, with all its attempts, as the plan file has it now.`)
	checkTexts(t, "the brief after a retry", []string{"name"}, nil, model.next(t, "two")["two"].text)
	expect(t, w.dir, exitOK, []string{"cancel"}, "Cancelled boulder")
	p.wait(exitInterrupted)
}
