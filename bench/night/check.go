package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// state is what `manager show --json` says of a sub-task.
type state struct {
	ID, Status, Reason string
	Attempts, Tries    int
}

func (w *world) states(ctx context.Context) ([]state, error) {
	var said struct {
		SubTasks []state `json:"sub_tasks"`
	}
	if err := json.Unmarshal([]byte(w.manager(ctx, 0, "show", "--json")), &said); err != nil {
		return nil, fmt.Errorf("manager show --json: %w", err)
	}
	return said.SubTasks, nil
}

// morning looks at what the user finds, answers the question, and looks at how it ends.
func (w *world) morning(ctx context.Context) error {
	status := w.show(ctx, "status")
	report := w.show(ctx, "report")
	receipt := w.show(ctx, "show", "--receipt")
	told, _ := os.ReadFile(filepath.Join(w.project, ".manager", "told")) // a missing one fails its check
	fmt.Printf("\n$ cat .manager/told # notifications\n%s", told)
	events := w.manager(ctx, 0, "logs", "--json")
	before, err := w.states(ctx)
	if err != nil {
		return err
	}
	w.show(ctx, "blockers", "answer", "B1", answer)
	w.show(ctx, "resume", "--quiet")
	w.show(ctx, "land", "--files")
	after, err := w.states(ctx)
	if err != nil {
		return err
	}
	fmt.Println()
	w.checkModels()
	w.checkSubTasks(before, after, events)
	w.checkTold(status, report, receipt, string(told))
	w.say(len(w.codes) == 0, "all commands ended as documented: the night with 4, the morning with 0", strings.Join(w.codes, "; "))
	if w.failed > 0 {
		return fmt.Errorf("%d of the checks failed", w.failed)
	}
	return nil
}

// say prints the outcome of a check.
func (w *world) say(ok bool, what string, found ...any) {
	mark := "✓"
	if !ok {
		mark = "✗"
		w.failed++
	}
	fmt.Println(mark, strings.TrimSuffix(what+": "+strings.TrimSuffix(fmt.Sprintln(found...), "\n"), ": "))
}

// checkModels is about what the providers saw.
func (w *world) checkModels() {
	n := w.night
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.mishaps {
		w.say(n.refused[m.what] > 0, "it happened: "+m.what, n.refused[m.what], "refused")
		if m.until < w.ended {
			w.say(n.back[m.what] > 0, m.model+" was used again afterwards", n.back[m.what], "answers")
		}
	}
	reached := false
	for _, model := range models() {
		reached = reached || n.most[model] == limits[model]
		w.say(n.most[model] <= limits[model], model+" never had more requests at once than its limit", n.most[model], "of", limits[model])
	}
	w.say(reached, "a limit was reached")
	twice := 0
	for _, times := range n.paid {
		twice += times - 1
	}
	w.say(twice == 0, "no prompt was paid twice", len(n.paid), "answers to agents,", twice, "twice;", n.cut, "were broken off, by the crash among others")
	var several []string
	for id, sessions := range n.at {
		if len(sessions) > 1 && id != asks {
			several = append(several, id)
		}
	}
	w.say(len(n.at) == len(plan) && len(several) == 0 && len(n.at[asks]) == 2, // before the question and after the answer
		"each sub-task stayed in its session, whatever its model", strings.Join(several, ", "))
	w.say(!n.began.Before(w.startAt), "nothing was asked before the start", n.began.Sub(w.startAt).Seconds(), "seconds after it")
}

// checkSubTasks is about what became of the work.
func (w *world) checkSubTasks(before, after []state, events string) {
	var left, lost []string
	done := 0
	for _, t := range before {
		switch {
		case t.Status == "completed":
			done++
		case t.Status == "blocked" && strings.Contains(t.Reason, question):
			left = append(left, t.ID+": "+t.Reason)
		default:
			left = append(left, fmt.Sprintf("%s is %s, which it should not: %s", t.ID, t.Status, t.Reason))
		}
		if t.Attempts != 1 || t.Tries > 1 {
			lost = append(lost, fmt.Sprintf("%s: %d attempts, %d tries", t.ID, t.Attempts, t.Tries))
		}
	}
	w.say(done == len(plan)-1 && len(left) == 1, "at the end of the night all is completed but what waits for the user", strings.Join(left, "; "))
	w.say(len(lost) == 0 && !strings.Contains(events, `"type":"retry"`), "no attempt was lost to a quota, a key or the crash", strings.Join(lost, "; "))
	w.say(strings.Contains(events, `"type":"resumed"`), "the crash was noticed")
	open := slices.DeleteFunc(slices.Clone(after), func(t state) bool { return t.Status == "completed" })
	missing := slices.DeleteFunc(slices.Clone(plan), func(t subTask) bool {
		_, err := os.Stat(filepath.Join(w.project, "shop", t.id+".txt"))
		return err == nil
	})
	w.say(len(open)+len(missing) == 0, "after the answer all is completed, and its files have landed")
}

// checkTold is about what the user reads.
func (w *world) checkTold(status, report, receipt, told string) {
	order := []string{"\nNext\n", "\nWaiting for an answer\n", question, "\nDecided for you\n", "\nNot done, and why\n", "\nDone, and how it was verified\n"}
	at := 0
	for _, part := range order {
		i := strings.Index(report[at:], part)
		if i < 0 {
			w.say(false, "the report begins with what the user must do, then says what was decided", "it has no", strings.TrimSpace(part), "there")
			return
		}
		at += i
	}
	w.say(true, "the report begins with what the user must do, then says what was decided")
	for _, switched := range []string{
		"south/large instead of north/large", "south/small instead of south/large", "the ledgers: south/judge instead of north/judge",
		"north/small instead of south/small",
	} {
		w.say(strings.Contains(report, switched), "the report says: "+switched)
	}
	_, decided, _ := strings.Cut(report, "\nDecided for you\n")
	w.say(strings.Contains(decided, chosen), "the report says what an agent chose for itself")
	next, _, _ := strings.Cut(report, "\nWaiting for an answer\n")
	w.say(strings.Contains(next, "cannot be used: the key was refused"), "the report begins with the refused key, too")
	w.say(strings.Contains(receipt, "south/large instead of north/large"), "the receipt says which model did the work of another")
	w.say(strings.Contains(status, "north/large") && strings.Contains(status, "south/small"), "status says which model did what")
	w.say(strings.Contains(status, "south/large cannot be used"), "status says which model cannot be used")
	w.say(strings.Count(told, "blocked: ") == 2, "the user was told of the question, and of the end", strings.Count(told, "\n"), "notifications")
}
