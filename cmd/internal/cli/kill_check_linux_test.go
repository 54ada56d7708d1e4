package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// reply is a good agent and a judge that believes everything: manager itself has to notice a cut turn.
func (w *killWorld) reply(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
	if req.IsCheck() {
		w.happens("request: the check of the whole")
		return scriptmodel.Reply{} // the server says that all is met
	}
	if req.Kind() == scriptmodel.KindStructured {
		w.asked("the judge", subTaskOf(req.Text()))
		return acceptAll
	}
	id := subTaskOf(req.FirstUser())
	w.begins(id, req)
	w.asked(fmt.Sprintf("step %d", req.AssistantTurns()), id)
	steps, conflicts := 0, 0
	for _, m := range req.Messages {
		switch {
		case m.Role == "tool" && strings.Contains(m.Text, "The step of "+id+" is done."):
			steps++
		case m.Role == "user" && strings.Contains(m.Text, "does not fit what others have done") && !(prompt{text: m.Text}).resumes():
			conflicts++
		}
	}
	reply := scriptmodel.Reply{Delay: rand.N(40 * time.Millisecond)}
	switch {
	case !toolSaid(req, "Wrote file"):
		reply.Text, reply.ToolCalls = "I begin with the file.", writes(id+".txt", id+"\n").ToolCalls
	case steps <= conflicts:
		reply.ToolCalls = shell("bash ./step.sh " + id).ToolCalls
	default:
		reply.Text = "Finished with " + id + ".txt."
	}
	return reply
}

// asked checks that the model is not asked about a completed sub-task.
func (w *killWorld) asked(what, id string) {
	w.mu.Lock()
	done := w.done[id]
	w.mu.Unlock()
	if done || !slices.Contains(killIDs, id) {
		w.t.Errorf("the model was asked for %q (%s), which is done, or is none", id, what)
	}
	w.happens("request: " + what + " of " + id)
}

// begins counts a request that begins a turn of an agent.
func (w *killWorld) begins(id string, req scriptmodel.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.seen[id], req.SessionID) {
		w.seen[id] = append(w.seen[id], req.SessionID)
	}
	if req.TurnsSinceUser() > 0 {
		return
	}
	p := prompt{subTask: id, session: req.SessionID, text: req.LastUser()}
	for _, m := range req.Messages {
		if m.Role == "user" {
			p.place++
		}
	}
	w.prompts[p] = append(w.prompts[p], req.Key)
}

// begun reports when the first piece of an answer was sent, to kill in the middle of it.
type begun struct {
	http.ResponseWriter
	happens func(what string)
	told    bool
}

func (b *begun) Write(data []byte) (int, error) {
	n, err := b.ResponseWriter.Write(data)
	if !b.told {
		b.told = true
		_ = http.NewResponseController(b.ResponseWriter).Flush()
		b.happens("a piece of an answer was sent")
	}
	return n, err
}

func (b *begun) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// runs is called by a tool or a gate, which continues when it is answered. If its server or manager is killed here, it
// waits forever, unless it is ended.
func (w *killWorld) runs(_ http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	w.mu.Lock()
	pid, ends := w.pid, w.ends
	if w.done[id] {
		w.t.Errorf("a tool runs for %q, which is done", id)
	}
	w.mu.Unlock()
	w.happens("tool or gate: " + id)
	w.mu.Lock()
	orphaned := w.ends != ends
	if id == "gate" {
		orphaned = w.pid != pid
	}
	w.mu.Unlock()
	if orphaned {
		<-r.Context().Done() // until it is ended
	}
}

func (w *killWorld) check() {
	w.t.Helper()
	for _, id := range killIDs {
		wantFile(w.t, w.dir, id+".txt", id+"\n")
		wantFile(w.t, w.dir, id+".log", id+"\n")
	}
	if w.users != "" {
		w.checkLanded()
	}
	w.checkStatus()
	w.checkPrompts(w.checkLog())
}

// usersFiles hashes all that is the user's: files, index, HEAD, refs, stash, configuration, hooks. Objects,
// refs/manager and OpenCode's id of the project in .git/opencode are not.
func (w *killWorld) usersFiles() string {
	w.t.Helper()
	sum := sha256.New()
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(w.dir, path)
		switch {
		case err != nil:
			return err
		case slices.Contains([]string{".manager", ".git/objects", ".git/refs/manager"}, rel):
			return filepath.SkipDir
		case d.IsDir(), rel == ".git/opencode":
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s\x00%s\x00", rel, data)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func (w *killWorld) checkUsers() {
	w.t.Helper()
	if w.users != "" && w.users != w.usersFiles() {
		w.t.Errorf("the user's side of the repository has changed before anything landed")
	}
}

// emptyPool removes the slots that stay for the next run, and checks that nothing else is left to remove.
func (w *world) emptyPool() {
	w.t.Helper()
	stdout, _ := w.run(0, "gc", "--json")
	var gc view.GC
	if err := json.Unmarshal([]byte(stdout), &gc); err != nil {
		w.t.Fatal(err)
	}
	for _, left := range gc.Found {
		if left.Kind != "pool" {
			w.t.Errorf("left is %+v", left)
		}
	}
}

// checkLanded checks what an isolated boulder landed and left.
func (w *killWorld) checkLanded() {
	w.t.Helper()
	w.gone("after landing", w.processes("\x00"+orphan.Variable+"="))
	wantFile(w.t, w.dir, "list.txt", "first\njoin\nleft\nright\ntail\n")
	wantFile(w.t, w.dir, "untracked.txt", "the user's")
	refs := exec.Command("git", "for-each-ref", "--format=%(refname)")
	refs.Dir = w.dir
	if out, err := refs.Output(); err != nil || string(out) != "refs/heads/main\n" {
		w.t.Errorf("refs that are left: %q, %v", out, err)
	}
	w.emptyPool()
	left, err := filepath.Glob(filepath.Join(w.dir, ".manager", "[ls]*")) // land-*, slots
	for _, pattern := range []string{"*.lock", "refs/*/*.lock"} {
		locks, globErr := filepath.Glob(filepath.Join(w.dir, ".git", pattern))
		left, err = append(left, locks...), cmp.Or(err, globErr)
	}
	if len(left) > 0 || err != nil {
		w.t.Errorf("it has left %q, %v", left, err)
	}
}

func (w *killWorld) checkStatus() {
	w.t.Helper()
	stdout, _ := w.run(0, "status", "--json")
	whole := regexp.MustCompile(`"status":"completed",.*"run_by":null,"resumable":false,"completed":6,"total":6,`)
	if !whole.MatchString(stdout) {
		w.t.Errorf("status:\n%s", stdout)
	}
	_, subTasks, _ := strings.Cut(stdout, `"sub_tasks":[`)
	for _, id := range killIDs {
		one := regexp.MustCompile(fmt.Sprintf(
			`"id":%q,[^}]*"status":"completed",[^}]*"attempt":1,[^}]*"session_id":%q[,}]`, id, strings.Join(w.seen[id], " "),
		))
		if !one.MatchString(subTasks) {
			w.t.Errorf("status of %q, whose sessions at the model were %q:\n%s", id, w.seen[id], stdout)
		}
	}
}

// checkSessions counts the sessions of attempts in OpenCode, with those never prompted: a kill between the creation of
// one and the commit of its id must not lead to a second. On a server that outlives the manager a late one is allowed
// if it stays empty: its request was in flight when the manager died, and the next manager looked before it arrived.
func (w *killWorld) checkSessions() {
	w.t.Helper()
	address, password := w.attach, sharedPassword
	if address == "" {
		address, password = serve(w.t, w.dir, w.env), ""
	}
	client, err := opencode.Attach(w.t.Context(), address, opencode.AttachConfig{Password: password})
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	cache := project.Getenv(w.env, "XDG_CACHE_HOME")
	dirs, err := filepath.Glob(filepath.Join(cache, "manager", filepath.Base(w.dir)+"-*", "*", "[1-9]"))
	if err != nil || len(dirs) == 0 {
		dirs = []string{w.dir}
	}
	var found []opencode.Session
	for _, dir := range dirs {
		in, err := client.In(dir).Sessions(w.t.Context(), opencode.SessionFilter{Title: "[manager:"})
		if err != nil {
			w.t.Error(err)
		}
		found = append(found, in...)
	}
	if w.attach != "" {
		found = slices.DeleteFunc(found, func(s opencode.Session) bool {
			return s.Tokens == (opencode.Tokens{}) && slices.ContainsFunc(found, func(other opencode.Session) bool {
				return other.Title == s.Title && other.Created.After(s.Created)
			})
		})
	}
	if len(found) != len(killIDs) {
		w.t.Errorf("%d sessions for %d attempts in %q: %+v", len(found), len(killIDs), dirs, found)
	}
}

type storedEvent struct {
	Type         string
	Seq          int
	SubTaskID    string `json:"sub_task_id"`
	Turn         int
	Resume       bool
	Completed    bool
	AllCompleted bool `json:"all_completed"`
	Final        bool // a gate on the final files
	Reason       string
	Source       string // of usage
}

func (w *killWorld) events() (all []storedEvent) {
	w.t.Helper()
	stdout, _ := w.run(0, "logs", "--json")
	for line := range strings.Lines(stdout) {
		var e storedEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			w.t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// sent names the prompts of a sub-task that begin its turns, or those that resume them.
type sent struct {
	subTask string
	resume  bool
}

// checkLog checks the order of events and that each turn was prompted once. Returns the number of prompts sent.
func (w *killWorld) checkLog() map[sent]int {
	w.t.Helper()
	turns, counts, done := map[string]bool{}, map[sent]int{}, map[string]bool{}
	all := w.events()
	for i, e := range all {
		switch turn := fmt.Sprint(e.SubTaskID, " ", e.Turn, " resumed ", e.Resume); {
		case e.Seq != i+1:
			w.t.Fatalf("event %d has the number %d", i+1, e.Seq)
		case e.SubTaskID != "" && done[e.SubTaskID] && !e.Final:
			w.t.Errorf("event %d (%s) is about %q, which is done", e.Seq, e.Type, e.SubTaskID)
		case e.Type == "subtask-done":
			done[e.SubTaskID] = e.Completed
		case e.Type == "turn-sent" && turns[turn]:
			w.t.Errorf("turn %s was prompted twice", turn)
		case e.Type == "turn-sent":
			turns[turn] = true
			counts[sent{e.SubTaskID, e.Resume}]++
		case e.Type == "trouble":
			w.t.Logf("  trouble of %s: %.150s", e.SubTaskID, e.Reason)
		}
	}
	if w.users != "" {
		all = all[:len(all)-1] // the landing
	}
	if last := all[len(all)-1]; len(done) != len(killIDs) || last.Type != "task-complete" || !last.AllCompleted {
		w.t.Errorf("%d sub-tasks are done, and the last event is %+v", len(done), last)
	}
	return counts
}

func (w *killWorld) checkPrompts(turns map[sent]int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	got := map[sent]int{}
	for p, servers := range w.prompts {
		got[sent{p.subTask, p.resumes()}]++
		// A resume prompt is sent again if its server was killed before it stored anything of the answer.
		slices.Sort(servers)
		if n := len(servers); n > 1 && (!p.resumes() || len(slices.Compact(slices.Clone(servers))) != n) {
			w.t.Errorf("a prompt reached the model %d times, from %q:\n%.300s", n, servers, p.text)
		}
	}
	for what, n := range got {
		if n > turns[what] {
			w.t.Errorf("%d prompts of %+v at the model; %d were sent", n, what, turns[what])
		}
	}
	for what := range turns {
		if w.attach != "" && what.resume {
			w.t.Errorf("%+v was prompted, although no turn was cut off", what)
		}
	}
	w.t.Logf("%.1fs: %d kills; turns %v", time.Since(w.began).Seconds(), w.struck, turns)
}
