package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/projecttest"
	"github.com/bouldermgr/manager/store"
)

// processAt is here because a variable project hides the package.
type processAt = project.Holder

// hold opens a project's database as a run does, and serves it.
func hold(t *testing.T, project string, steered bool) (*store.DB, *projecttest.Server) {
	t.Helper()
	db, server := holdAs(t, project, processAt{
		PID: 42, Running: []string{sampleID}, Command: "manager run", Since: sampleStart,
	})
	if steered {
		server.SetSteerer(onDisk{db})
	}
	return db, server
}

func holdAs(t *testing.T, project string, holder processAt) (*store.DB, *projecttest.Server) {
	t.Helper()
	db := openState(t, project)
	return db, projecttest.Serve(t, project, holder, db)
}

// An order has the same effect with and without a process that holds the database; only who carried it out differs.
func TestOrdersWhileItRunsAndWhileNot(t *testing.T) {
	t.Parallel()
	alone, held := interrupted(t), interrupted(t)
	hold(t, held, true)
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"pause"}, exitOK},
		{[]string{"pause"}, exitError},
		{[]string{"note", "Mind the gap"}, exitOK},
		{[]string{"note", "--sub-task", "theme", "Dark", "is", "dark"}, exitOK},
		{[]string{"note", "--sub-task", "toggle", "it is over"}, exitError},
		{[]string{"note", strings.Repeat("x", 4_001)}, exitUsage},
		{[]string{"retry", "icons"}, exitOK},
		{[]string{"skip", "site"}, exitOK},
		{[]string{"cancel", "theme"}, exitOK},
		{[]string{"cancel", "theme"}, exitError},
		{[]string{"skip", "tehme"}, exitUsage},
		{[]string{"retry", "docs"}, exitError},
		{[]string{"wait"}, exitWaiting},
		{[]string{"cancel"}, exitOK},
		{[]string{"cancel", "-b", sampleID}, exitUsage},
	} {
		printed := sameInBoth(t, alone, held, test.code, test.args)
		by, _ := printed[1]["run_by"].(map[string]any)
		over := printed[1]["status"] == string(boulder.Cancelled)
		if printed[1]["type"] == "order" && (printed[0]["run_by"] != nil || by["pid"] != 42.0 && !over) {
			t.Errorf("%q was carried out by %v and %v", test.args, printed[0]["run_by"], by)
		}
	}
}

// While a process runs the boulder, pause lists what is still running, and resume is an order to that process.
func TestPauseAndResumeThere(t *testing.T) {
	t.Parallel()
	project := interrupted(t)
	_, server := hold(t, project, true)
	for _, test := range []answerCase{
		{[]string{"resume", "nonsense"}, exitUsage, `no such boulder: "nonsense"`},
		{[]string{"resume"}, exitHeld, "process 42, `manager run`"}, // it is not paused
		{[]string{"resume"}, exitHeld, "!Waiting up to"},            // no longer than other commands
		{[]string{"pause"}, exitOK, "Paused. Still at work, to the end of the turn: \"theme\"; nothing new starts. " +
			"Continue with: manager resume " + shortID + "\n"},
		{[]string{"status"}, exitOK, "paused by the user\nContinue with: manager resume " + shortID + "\n"},
		{[]string{"skip", "docs"}, exitOK, "The boulder is paused; continue with: manager resume " + shortID + "\n"},
		{[]string{"resume", "--budget", "cost=1"}, exitUsage, "process 42 runs boulder " + shortID},
	} {
		expect(t, project, test.code, test.args, test.says)
	}
	resumes := &resumer{}
	server.SetSteerer(resumes)
	expect(t, project, exitOK, []string{"resume", "--json"}, `"do":"resume"`)
	if diff := cmp.Diff([]boulder.Order{{Do: boulder.OrderResume}}, resumes.orders); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
}

// A process that runs a boulder stops its agents itself. After an order that ends the boulder nothing can be continued.
func TestOrderThatEndsTheBoulderThere(t *testing.T) {
	t.Parallel()
	const left, over = "may still be at work", " Boulder " + shortID + " is over: cancelled.\n"
	alone := interrupted(t)
	expect(t, alone, exitOK, []string{"cancel", "-y"}, left)
	expect(t, alone, exitOK, []string{"status"}, left)
	for line, says := range map[string]string{"cancel -y": "Cancelled boulder", "cancel icons": over} {
		project := interrupted(t)
		db, server := hold(t, project, false)
		server.SetSteerer(ender{db})
		expect(t, project, exitOK, strings.Fields(line), says, "!"+left, "!manager resume")
		expect(t, project, exitOK, []string{"status"}, "!"+left)
		expect(t, project, exitOK, []string{"show"}, "!"+left)
	}
}

// ender cancels the boulder at every order.
type ender struct{ db *store.DB }

func (e ender) Order(ctx context.Context, id string, _ boulder.Order) error {
	return orchestrator.Obey(ctx, e.db, id, boulder.Order{Do: boulder.OrderCancel}, time.Now())
}

// resumer only records orders: the effect of a resume needs a process that runs something.
type resumer struct{ orders []boulder.Order }

func (r *resumer) Order(_ context.Context, _ string, o boulder.Order) error {
	r.orders = append(r.orders, o)
	return nil
}

// A holder that takes no orders, or is about to start another boulder, is named with exit code 5.
func TestOrdersAreNotTaken(t *testing.T) {
	t.Parallel()
	project := interrupted(t)
	hold(t, project, false)
	beginning := interrupted(t)
	db, server := holdAs(t, beginning, processAt{PID: 42, Command: "manager run"})
	server.SetSteerer(onDisk{db})
	var both sync.WaitGroup // each retries for a while
	both.Go(func() { expect(t, project, exitHeld, []string{"pause"}, "try again") })
	both.Go(func() { expect(t, beginning, exitHeld, []string{"cancel"}, "try again") })
	both.Wait()
	expect(t, beginning, exitOK, []string{"cancel", "-b", sampleID})
}

// A holder that does not answer is named with exit code 5, and nothing changes.
func TestHeldSilently(t *testing.T) {
	t.Parallel()
	for _, socket := range []bool{false, true} {
		project := overSample(t)
		dir := filepath.Join(project, store.DirName)
		file := filepath.Join(t.TempDir(), "export.json")
		expect(t, project, exitOK, []string{"export", "-o", file})
		before, err := os.ReadFile(filepath.Join(dir, store.FileName))
		if err != nil {
			t.Fatal(err)
		}
		openState(t, project)
		who := ""
		if socket {
			l, err := net.Listen("unix", projecttest.Socket(project))
			if err != nil {
				t.Fatal(err)
			}
			broken := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
			})}
			go broken.Serve(l)
			defer broken.Close()
		} else if runtime.GOOS == "linux" {
			who = fmt.Sprintf("process %d, ", os.Getpid())
		}
		lines := []string{"pause", "status", "list", "archive", "archive --undo 01k", "import " + file}
		if socket {
			lines = append(lines, "serve --stop")
		}
		var all sync.WaitGroup // each retries for a while
		for _, line := range lines {
			all.Go(func() {
				stdout, _ := expect(t, project, exitHeld, strings.Fields(line), "the state is held by another process", who)
				if stdout != "" {
					t.Errorf("%s prints %q", line, stdout)
				}
			})
		}
		all.Wait()
		if after, err := os.ReadFile(filepath.Join(dir, store.FileName)); string(after) != string(before) || err != nil {
			t.Errorf("the database was changed, %v", err)
		}
	}
}

func overSample(t *testing.T) (project string) {
	t.Helper()
	s := newSample(t)
	s.Play()
	s.Finish()
	return s.store()
}

func TestDeadSocketIsNoObstacle(t *testing.T) {
	t.Parallel()
	project := interrupted(t)
	l, err := net.Listen("unix", projecttest.Socket(project))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	expect(t, project, exitOK, []string{"pause"}, "No process runs it")
	hold(t, project, true) // the address is free
	expect(t, project, exitOK, []string{"note", "while it lives"}, "!No process")
}

// A no cancels nothing, and the database is not held during the question.
func TestCancelAsks(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"yes\n": "", "what?\nno\n": "nothing was cancelled", "": "nothing was cancelled"} {
		project := interrupted(t)
		a, _, _ := testApp(t, project)
		look := &lookingReader{Reader: strings.NewReader(answer), t: t, project: project}
		a.Stdin = look
		id, err := a.confirm(t.Context(), "", boulder.Order{Do: boulder.OrderCancel})
		if (err == nil) != (want == "") || err != nil && err.Error() != want || id != sampleID {
			t.Errorf("%q: %q, %v", answer, id, err)
		}
		if !look.looked {
			t.Error("nobody was asked")
		}
	}
}

// lookingReader checks that the database is free before the user answers.
type lookingReader struct {
	io.Reader
	t       *testing.T
	project string
	looked  bool
}

func (r *lookingReader) Read(p []byte) (int, error) {
	r.looked = true
	openState(r.t, r.project).Close()
	return r.Reader.Read(p)
}

// onDisk carries orders out as a holder does while it runs nothing.
type onDisk struct{ db *store.DB }

func (s onDisk) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	return orchestrator.Obey(ctx, s.db, boulderID, o, time.Now())
}
