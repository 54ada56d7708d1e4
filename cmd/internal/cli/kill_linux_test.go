package cli

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

var (
	kills    = flag.Int("kills", 2, "how many kills TestKill9 makes")
	killSeed = flag.Uint64("kill-seed", 1, "the seed of TestKill9's first run; 0: a random one")
)

// An undisturbed run of killPlan has about 130 steps, see [killWorld.happens].
const (
	killsPerRun = 6
	maxGap      = 40 // steps between two kills, at most
	// A sub-task waits for the user after three consecutive faults in one process.
	maxServerKills = 2
	killDeadline   = 10 * time.Minute // of one process, which alone needs half a minute: it hangs
)

// killPlan is a diamond with a tail.
const killPlan = `
task: Six files, some of them side by side
isolation: off
model: scripted/agent
sub_tasks:
  - {id: first, description: Write first.txt, expects_changes: true}
  - {id: left, description: Write left.txt, depends_on: [first], expects_changes: true}
  - {id: middle, description: Write middle.txt, depends_on: [first], expects_changes: true}
  - {id: right, description: Write right.txt, depends_on: [first], expects_changes: true}
  - id: join
    description: Write join.txt
    depends_on: [left, middle, right]
    expects_changes: true
    gates: [bash ./gate.sh]
  - {id: tail, description: Write tail.txt, depends_on: [join], expects_changes: true}
`

// isolatedPlan is killPlan in slots. All sub-tasks but middle change list.txt, so that of parallel ones two conflict, and the third
// can come onto the tip with either.
var isolatedPlan = "integration_gates: ['! grep \"<<<<<<<\" list.txt']\n" +
	strings.NewReplacer("isolation: off", "isolation: always", "expects_changes: true}", "gates: [test -s list.txt]}").Replace(killPlan)

var killIDs = []string{"first", "left", "middle", "right", "join", "tail"}

// tellScript reports to the test that a script runs, and waits for the test's answer.
const tellScript = `
exec 3<>/dev/tcp/ADDRESS
printf 'GET /runs/%s HTTP/1.0\r\n\r\n' "$1" >&3
read -r go <&3
`

// listStep adds a line to what both sides of a conflict have.
const listStep = `
if test $1 != middle; then
	grep -v '^[<=>]\{7\}' list.txt > list.all
	echo $1 >> list.all
	sort -u list.all > list.txt
	rm list.all
fi
`

// namedServer starts OpenCode with a model key that names its process.
const namedServer = `#!/bin/sh
config=$(printf %s "$OPENCODE_CONFIG_CONTENT" | sed "s/\"apiKey\":\"[a-z]*\"/\"apiKey\":\"process-$$\"/")
export OPENCODE_CONFIG_CONTENT="$config"
exec OPENCODE "$@"
`

// kill -9 of the manager, of OpenCode, or of both, at random moments until the boulder is complete: nothing is done
// twice, no prompt reaches the model twice, and nothing is left. A seed draws the same victims at the same distances,
// but parallel work races, so it does not replay exactly.
//
// Every third boulder uses a server that outlives the manager, so that turns continue unobserved. Half of the boulders
// are isolated: their results conflict, and the last kill comes during landing. Before that the user's files stay
// unchanged; afterwards no slot, ref, lock or process is left.
func TestKill9(t *testing.T) {
	t.Parallel()
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64N(1 << 32)
	}
	for left := *kills; left > 0 && !t.Failed(); seed++ {
		n := min(left, killsPerRun)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the same again: go test ./cmd/internal/cli -run 'TestKill9$' -kills=%d -kill-seed=%d -v", n, seed)
				}
			})
			w := newKillWorld(t, seed, n)
			w.toTheEnd()
			w.gone("at the end", w.ours())
			w.checkSessions()
			w.land()
			w.check()
			left -= w.struck
			if *bouldersDir != "" {
				keepBoulders(t, "kill", w.dir)
			}
		})
	}
}

type victim string

const (
	theManager victim = "manager"
	theServer  victim = "OpenCode"
	bothOfThem victim = "both"
	theAnswer  victim = "the command that answers"
)

type kill struct {
	after  int // steps
	delay  time.Duration
	victim victim
}

// killWorld is a boulder under kills.
type killWorld struct {
	*world
	routes *http.ServeMux // of the server that scripts report to
	server string         // its address
	attach string         // address of a server that is never killed; empty: the manager has its own
	users  string         // hash of the user's files at the start of an isolated boulder
	stored bool           // the boulder is known to be stored
	began  time.Time
	reads  func(storedEvent) // if set, is called for each event that a manager prints

	mu      sync.Mutex
	kills   *rand.Rand
	pid     int // of the manager; 0: none to kill
	answers int // pid of the command that answers a blocker; 0: none
	next    kill
	armed   bool // a delayed kill is pending
	left    int
	struck  int
	servers int             // kills of the server alone since the manager's start
	ends    int             // of servers
	over    bool            // the boulder's last event was seen
	done    map[string]bool // sub-tasks whose end is known to be stored
	prompts map[prompt][]string
	seen    map[string][]string // sessions by sub-task
}

// prompt is a prompt as the model sees it. killWorld maps it to the names of the servers that asked for its answer.
type prompt struct {
	subTask, session string
	place            int // index among the user messages of its session
	text             string
}

func (p prompt) resumes() bool {
	return strings.HasPrefix(p.text, "[manager] This session was interrupted")
}

// bareKillWorld has no project yet.
func bareKillWorld(t *testing.T, seed uint64, kills int) *killWorld {
	return &killWorld{
		world: &world{t: t}, left: kills, began: time.Now(), kills: rand.New(rand.NewPCG(seed, 1)),
		done: map[string]bool{}, prompts: map[prompt][]string{}, seen: map[string][]string{},
	}
}

// listen starts the server of the model and of what scripts report, and returns the model's URL. The environment names it.
func (w *killWorld) listen(reply scriptmodel.Handler) (url string) {
	routes, model := http.NewServeMux(), scriptmodel.Routes(reply)
	routes.HandleFunc("/v1/", func(rw http.ResponseWriter, r *http.Request) {
		model.ServeHTTP(&begun{ResponseWriter: rw, happens: w.happens}, r)
		w.happens("all of an answer was sent")
	})
	routes.HandleFunc("/runs/{id}", w.runs)
	server := httptest.NewServer(routes)
	w.t.Cleanup(server.Close)
	w.routes, w.server = routes, server.Listener.Addr().String()
	w.env = testEnv(w.t, server.URL+"/v1")
	w.t.Cleanup(func() { // a failed test may leave processes
		for _, pid := range w.ours() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return server.URL + "/v1"
}

func newKillWorld(t *testing.T, seed uint64, kills int) *killWorld {
	t.Helper()
	w := bareKillWorld(t, seed, kills)
	model := w.listen(w.reply)
	isolated, plan, step := seed/2%2 == 0, killPlan, "echo $1 > $1.log\necho \"The step of $1 is done.\"\n"
	if isolated {
		plan, step = isolatedPlan, listStep+step
	}
	tell := strings.ReplaceAll(tellScript, "ADDRESS", strings.ReplaceAll(w.server, ":", "/"))
	w.dir = octest.Repo(t, map[string]string{
		"plan.yaml": plan, "list.txt": "",
		"step.sh": tell + step,
		"gate.sh": strings.ReplaceAll(tell, "$1", "gate") + "test -s left.log && test -s right.log && test -s join.txt\n",
	})
	if seed%2 == 1 { // else the ledgers go through OpenCode, too
		w.env = direct(t, w.env, model, "any")
	}
	if seed%3 == 0 {
		address, err := shared.lead(model, w.dir, project.Getenv(w.env, "HOME")) // where its slots are
		if err != nil {
			t.Fatal(err)
		}
		w.attach, w.env = address, append(w.env, sharedLogin)
	} else {
		path := filepath.Join(t.TempDir(), "opencode")
		script := strings.ReplaceAll(namedServer, "OPENCODE \"", octest.Binary(t)+" \"")
		if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		w.env = append(w.env, "MANAGER_OPENCODE="+path)
	}
	if isolated {
		if err := os.WriteFile(filepath.Join(w.dir, "untracked.txt"), []byte("the user's"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.users = w.usersFiles()
		w.left-- // one comes during landing
	}
	w.draw()
	return w
}

// draw chooses the next kill. Call it with the lock held.
func (w *killWorld) draw() {
	victims := []victim{theManager, bothOfThem, theServer}
	switch {
	case w.attach != "":
		victims = victims[:1]
	case w.servers == maxServerKills:
		victims = victims[:2]
	}
	w.next = kill{after: 1 + w.kills.IntN(maxGap), victim: victims[w.kills.IntN(len(victims))]}
	if w.kills.IntN(2) == 0 { // between two steps
		w.next.delay = time.Duration(w.kills.Int64N(int64(150 * time.Millisecond)))
	}
}

// happens is called at each step that can be observed: the manager was started or printed an event; a request reached
// the model, or the first piece or all of its answer was sent; a tool or a gate runs. It kills if it is time to. The
// step continues when it returns.
func (w *killWorld) happens(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.target() == 0 || w.left <= 0 || w.armed {
		return
	}
	if w.next.after--; w.next.after > 0 {
		return
	}
	if w.next.delay == 0 {
		w.strike(what)
		return
	}
	w.armed = true
	time.AfterFunc(w.next.delay, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.armed = false
		if w.left > 0 {
			w.strike(fmt.Sprintf("%v after: %s", w.next.delay.Round(time.Millisecond), what))
		}
	})
}

// target is the process without which there is nothing to kill, or 0. Call it with the lock held.
func (w *killWorld) target() int {
	if w.next.victim == theAnswer {
		return w.answers
	}
	return w.pid
}

// strike kills, unless the victim does not run: then the next step tries again. Call it with the lock held.
func (w *killWorld) strike(when string) {
	servers := servers(w.t, w.pid)
	ofServers := w.next.victim == theServer || w.next.victim == bothOfThem
	if w.target() == 0 || ofServers && len(servers) == 0 {
		return
	}
	if ofServers {
		for _, pid := range servers {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		w.servers++
	}
	if w.next.victim == theManager || w.next.victim == bothOfThem {
		_ = syscall.Kill(w.pid, syscall.SIGKILL)
		w.pid, w.servers = 0, 0
	}
	if w.next.victim == theAnswer {
		_ = syscall.Kill(w.answers, syscall.SIGKILL)
	} else if w.attach == "" {
		w.ends++ // the server ends with its manager
	}
	w.struck++
	w.left--
	w.t.Logf("%6.1fs kill %d: %s; %s", time.Since(w.began).Seconds(), w.struck, w.next.victim, when)
	w.draw()
}

func (w *killWorld) toTheEnd() {
	w.t.Helper()
	for {
		args := []string{"resume", "--json"}
		if !w.stored {
			args = []string{"run", "plan.yaml", "--json"}
		}
		if w.attach != "" {
			args = append(args, "--attach", w.attach)
		}
		killed, code, stderr := w.manage(args)
		w.checkUsers()
		switch {
		case code == 0:
			return
		case !killed:
			w.t.Fatalf("manager %s: exit code %d\n%s", args[0], code, stderr)
		case w.ended():
			return
		}
	}
}

// land lands the results of an isolated boulder, with one kill on the way.
func (w *killWorld) land() {
	w.t.Helper()
	if w.users == "" {
		return
	}
	w.mu.Lock()
	w.left, w.next = 1, kill{after: 1, delay: time.Duration(w.kills.Int64N(int64(300 * time.Millisecond))), victim: theManager}
	w.mu.Unlock()
	for {
		switch killed, code, stderr := w.manage([]string{"land", "--files", "--json"}); {
		case code == 0, code == exitUsage && strings.Contains(stderr, "have landed"): // the killed one had stored that
			return
		case !killed:
			w.t.Fatalf("manager land: exit code %d\n%s", code, stderr)
		}
	}
}

// manage runs a manager until its end, and reports whether it was killed.
func (w *killWorld) manage(args []string) (killed bool, code int, stderr string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), killDeadline)
	defer cancel()
	p := startManager(w.t, w.dir, w.env, args...)
	defer context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })()
	w.mu.Lock()
	w.pid, w.servers = p.cmd.Process.Pid, 0
	w.mu.Unlock()
	w.happens("manager " + args[0] + " was started")
	for p.events.Scan() {
		var e storedEvent
		if err := json.Unmarshal(p.events.Bytes(), &e); err != nil {
			break // the last line of a killed manager
		}
		w.stored = true
		w.note(e)
		if w.reads != nil {
			w.reads(e)
		}
		w.happens(fmt.Sprintf("event %d: %s %s", e.Seq, e.Type, e.SubTaskID))
	}
	w.mu.Lock()
	killed, w.pid = w.pid == 0, 0
	w.mu.Unlock()
	_ = p.cmd.Wait()
	if ctx.Err() != nil {
		w.t.Fatalf("manager %s did not end within %v\n%s", args[0], killDeadline, p.stderr.String())
	}
	return killed, p.cmd.ProcessState.ExitCode(), p.stderr.String()
}

func (w *killWorld) note(e storedEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[e.SubTaskID] = w.done[e.SubTaskID] || e.Type == "subtask-done"
	w.over = w.over || e.Type == "task-complete"
}

// ended checks what a killed manager left, but not always: the next command may as well be the resume. Reports whether
// the boulder is complete.
func (w *killWorld) ended() bool {
	w.t.Helper()
	if w.stored && !w.over && rand.IntN(2) == 0 {
		return false
	}
	stdout, _ := w.run(0, "list", "--json")
	w.gone("after a kill and `manager list`", w.ours())
	if stdout == "" {
		return false
	}
	w.stored = true
	for _, e := range w.events() {
		w.note(e)
	}
	return w.over
}

// ours lists the processes of this boulder: they have its home and, on the shared server, the manager's mark. A git
// command of a killed manager is not among them, as it ends by itself.
func (w *killWorld) ours() []int {
	also := ""
	if w.attach != "" {
		also = "\x00" + orphan.Variable + "="
	}
	return slices.DeleteFunc(w.processes(also), func(pid int) bool {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || strings.Contains(string(line), "\x00core.hooksPath=/dev/null\x00")
	})
}
