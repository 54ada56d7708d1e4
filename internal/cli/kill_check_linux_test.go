package cli

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/bouldermgr/manager/opencode"
)

// check looks at what has come of it all.
func (w *killWorld) check() {
	w.t.Helper()
	w.nothingLeft("at the end")
	for _, id := range killIDs {
		wantFile(w.t, w.dir, id+".txt", id+"\n")
		wantFile(w.t, w.dir, id+".log", id+"\n")
	}
	w.checkStatus()
	w.checkSessions()
	sent, resumes := w.checkLog()
	w.checkPrompts(sent, resumes)
}

func (w *killWorld) checkStatus() {
	w.t.Helper()
	code, stdout, stderr := run(w.t, w.dir, w.env, "status", "--json")
	var status struct {
		Status           string
		Completed, Total int
		Resumable        bool
		RunBy            any `json:"run_by"`
		SubTasks         []struct {
			ID, Status string
			Attempt    int
			SessionID  string `json:"session_id"`
		} `json:"sub_tasks"`
	}
	if err := json.Unmarshal([]byte(stdout), &status); code != 0 || err != nil {
		w.t.Fatalf("status: exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
	if status.Status != "completed" || status.Completed != len(killIDs) || status.Total != len(killIDs) ||
		status.Resumable || status.RunBy != nil {
		w.t.Errorf("status:\n%s", stdout)
	}
	for _, s := range status.SubTasks {
		if s.Status != "completed" || s.Attempt != 1 || !slices.Equal(w.seen[s.ID], []string{s.SessionID}) {
			w.t.Errorf("status of %q, whose sessions at the model were %q: %+v", s.ID, w.seen[s.ID], s)
		}
	}
}

// checkSessions asks OpenCode for the sessions of attempts, also those that nobody ever prompted: a kill between the
// creation of one and the commit of its id must not lead to a second.
func (w *killWorld) checkSessions() {
	w.t.Helper()
	address := w.attach
	if address == "" {
		address = serve(w.t, w.dir, w.env)
	}
	client, err := opencode.Attach(w.t.Context(), address, opencode.AttachConfig{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	found, err := client.In(w.dir).Sessions(w.t.Context(), opencode.SessionFilter{Title: "[manager:"})
	if err != nil || len(found) != len(killIDs) {
		w.t.Errorf("%d sessions for %d attempts (%v)", len(found), len(killIDs), err)
		for _, s := range found {
			w.t.Logf("  session %s: %s", s.ID, s.Title)
		}
	}
}

// sentTurn is a turn of the one attempt of a sub-task.
type sentTurn struct {
	id   string
	turn int
}

// checkLog checks the order of the events, and counts what they say was sent.
func (w *killWorld) checkLog() (sent, resumes map[sentTurn]int) {
	w.t.Helper()
	sent, resumes = map[sentTurn]int{}, map[sentTurn]int{}
	done := map[string]bool{}
	all := w.events()
	for i, e := range all {
		if e.Seq != i+1 {
			w.t.Fatalf("event %d has the number %d", i+1, e.Seq)
		}
		switch {
		case e.SubTaskID != "" && done[e.SubTaskID] && !e.Final:
			w.t.Errorf("event %d (%s) is about %q, which is done", e.Seq, e.Type, e.SubTaskID)
		case e.Type == "subtask-done":
			done[e.SubTaskID] = e.Completed
		case e.Type == "turn-sent" && e.Resume:
			resumes[sentTurn{e.SubTaskID, e.Turn}]++
		case e.Type == "turn-sent":
			sent[sentTurn{e.SubTaskID, e.Turn}]++
		case e.Type == "trouble":
			w.t.Logf("  trouble of %s: %.150s", e.SubTaskID, e.Reason)
		}
	}
	if last := all[len(all)-1]; len(done) != len(killIDs) || last.Type != "task-complete" || !last.AllCompleted {
		w.t.Errorf("%d sub-tasks are done, and the last event is %+v", len(done), last)
	}
	return sent, resumes
}

// checkPrompts compares what reached the model with what was meant to.
func (w *killWorld) checkPrompts(sent, resumes map[sentTurn]int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, counts := range []map[sentTurn]int{sent, resumes} {
		for ref, n := range counts {
			if n != 1 {
				w.t.Errorf("turn %d of %q was prompted %d times", ref.turn, ref.id, n)
			}
		}
	}
	prompts := map[bool]map[string]int{true: {}, false: {}}
	again := map[int]int{} // resume prompts that the model was asked to answer more than once, by how often it did
	for key, seen := range w.prompts {
		prompts[key.resume()][key.session]++
		if len(seen.servers) == 1 {
			continue
		}
		again[seen.answered]++
		// The one resume prompt of a turn is sent again if its server was killed before it kept a word of the answer.
		slices.Sort(seen.servers)
		if !key.resume() || len(slices.Compact(slices.Clone(seen.servers))) != len(seen.servers) {
			w.t.Errorf("a prompt reached the model %d times, from %q:\n%.300s", len(seen.servers), seen.servers, key.text)
		}
	}
	turns, resumed := perSubTask(sent), perSubTask(resumes)
	if w.attach != "" && len(resumes) > 0 {
		w.t.Errorf("resume prompts %v, although no turn was cut off", resumed)
	}
	for _, id := range killIDs {
		for _, session := range w.seen[id] {
			if prompts[false][session] > turns[id] || prompts[true][session] > resumed[id] {
				w.t.Errorf("%d prompts and %d resume prompts of %q at the model; %d and %d were sent",
					prompts[false][session], prompts[true][session], id, turns[id], resumed[id])
			}
		}
	}
	w.t.Logf("%.1fs: %d kills; turns %v, resume prompts %v, again %v, tools and gates %v",
		time.Since(w.began).Seconds(), w.struck, turns, resumed, again, w.steps)
}

func perSubTask(counts map[sentTurn]int) map[string]int {
	sum := map[string]int{}
	for ref := range counts {
		sum[ref.id]++
	}
	return sum
}
