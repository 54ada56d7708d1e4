package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// hold opens a project's database as a run does, and serves it.
func hold(t *testing.T, project string, steered bool) (*store.DB, *control.Server) {
	t.Helper()
	db, server := holdAs(t, project, control.Holder{
		PID: 42, BoulderID: sampleID, Command: "manager run", Since: sampleStart,
	})
	if steered {
		server.SetSteerer(onDisk{db})
	}
	return db, server
}

func holdAs(t *testing.T, project string, holder control.Holder) (*store.DB, *control.Server) {
	t.Helper()
	dir := filepath.Join(project, store.DirName)
	db, err := store.Open(filepath.Join(dir, store.FileName), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := control.Serve(t.Context(), filepath.Join(dir, control.SocketName), holder, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(server.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return db, server
}

func interrupted(t *testing.T) (project string) {
	t.Helper()
	s := newSample(t)
	s.Play()
	return s.store()
}

// An order comes to the same whether a process holds the database or none does; only who carried it out differs.
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
		var printed [2]map[string]any
		var said [2]string
		for i, project := range []string{alone, held} {
			stdout, stderr, code := command(project, append(test.args, "--json")...)
			if code != test.code {
				t.Errorf("%q in %s: exit code %d, want %d: %s", test.args, project, code, test.code, stderr)
			}
			if err := json.Unmarshal([]byte(stdout), &printed[i]); err != nil && code == exitOK {
				t.Errorf("%q prints %q: %v", test.args, stdout, err)
			}
			said[i] = stderr
		}
		whose := cmpopts.IgnoreMapEntries(func(k string, _ any) bool { return k == "run_by" || k == "at_work" || k == "left" }) // a process stops its agents itself
		if diff := cmp.Diff(printed[0], printed[1], whose); diff != "" || said[0] != said[1] {
			t.Errorf("%q: alone (-), held (+):\n%s%s%s", test.args, diff, said[0], said[1])
		}
		by, _ := printed[1]["run_by"].(map[string]any)
		over := printed[1]["status"] == string(boulder.Cancelled)
		if printed[1]["type"] == "order" && (printed[0]["run_by"] != nil || by["pid"] != 42.0 && !over) {
			t.Errorf("%q was carried out by %v and %v", test.args, printed[0]["run_by"], by)
		}
	}
}

// While a process runs the boulder, a pause says what is still at work, and a resume is an order to that process.
func TestPauseAndResumeThere(t *testing.T) {
	t.Parallel()
	project := interrupted(t)
	_, server := hold(t, project, true)
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"resume"}, exitHeld, "process 42, `manager run`"}, // it is not paused
		{[]string{"pause"}, exitOK, "Paused. Still at work, to the end of the turn: \"theme\"; nothing new starts. " +
			"Continue with: manager resume " + sampleID + "\n"},
		{[]string{"status"}, exitOK, "paused by a person\nContinue with: manager resume " + sampleID + "\n"},
		{[]string{"skip", "docs"}, exitOK, "The boulder is paused; continue with: manager resume " + sampleID + "\n"},
		{[]string{"resume", "--budget", "cost=1"}, exitUsage, "process 42 runs boulder " + sampleID},
	} {
		stdout, stderr, code := command(project, test.args...)
		if code != test.code || !strings.Contains(stdout+stderr, test.says) {
			t.Errorf("%q: exit code %d, %s%s; want %d, %s", test.args, code, stdout, stderr, test.code, test.says)
		}
	}
	resumes := &resumer{}
	server.SetSteerer(resumes)
	stdout, stderr, code := command(project, "resume", "--json")
	want := []boulder.Order{{Do: boulder.OrderResume}}
	if diff := cmp.Diff(want, resumes.orders); diff != "" || code != exitOK || !strings.Contains(stdout, `"do":"resume"`) {
		t.Errorf("resume: exit code %d, %s%s, orders (-want +got):\n%s", code, stdout, stderr, diff)
	}
}

// resumer takes orders and does nothing: what a resume comes to needs a process that runs something.
type resumer struct{ orders []boulder.Order }

func (r *resumer) Order(_ context.Context, _ string, o boulder.Order) error {
	r.orders = append(r.orders, o)
	return nil
}

// Who has the database and takes no orders is named, with exit code 5.
func TestOrdersAreNotTaken(t *testing.T) {
	t.Parallel()
	t.Run("not begun", func(t *testing.T) {
		t.Parallel()
		project := interrupted(t)
		hold(t, project, false)
		_, stderr, code := command(project, "pause")
		if code != exitHeld || !strings.Contains(stderr, "try again") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
	})
	t.Run("about to begin something else", func(t *testing.T) {
		t.Parallel()
		project := interrupted(t)
		db, server := holdAs(t, project, control.Holder{PID: 42, Command: "manager run"})
		server.SetSteerer(onDisk{db})
		_, stderr, code := command(project, "cancel")
		if code != exitHeld || !strings.Contains(stderr, "try again") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
		if _, stderr, code := command(project, "cancel", "-b", sampleID); code != exitOK {
			t.Errorf("by its name: exit code %d, %s", code, stderr)
		}
	})
	t.Run("no answer", func(t *testing.T) {
		t.Parallel()
		project := interrupted(t)
		dir := filepath.Join(project, store.DirName)
		db, err := store.Open(filepath.Join(dir, store.FileName), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		l, err := net.Listen("unix", filepath.Join(dir, control.SocketName))
		if err != nil {
			t.Fatal(err)
		}
		broken := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		})}
		go broken.Serve(l)
		defer broken.Close()
		for _, args := range [][]string{{"pause"}, {"status"}, {"list"}, {"serve", "--stop"}} {
			_, stderr, code := command(project, args...)
			if code != exitHeld || !strings.Contains(stderr, "the state is held by another process") {
				t.Errorf("%q: exit code %d, %s", args, code, stderr)
			}
		}
	})
	t.Run("no socket", func(t *testing.T) {
		t.Parallel()
		project := interrupted(t)
		db, err := store.Open(filepath.Join(project, store.DirName, store.FileName), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		_, stderr, code := command(project, "pause")
		who := ""
		if runtime.GOOS == "linux" {
			who = fmt.Sprintf("process %d, ", os.Getpid())
		}
		held := strings.Contains(stderr, "the state is held by another process")
		if code != exitHeld || !held || !strings.Contains(stderr, who) {
			t.Errorf("exit code %d, %s", code, stderr)
		}
	})
}

// The socket of a process that was killed is in nobody's way.
func TestDeadSocketIsNoObstacle(t *testing.T) {
	t.Parallel()
	project := interrupted(t)
	l, err := net.Listen("unix", filepath.Join(project, store.DirName, control.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	stdout, stderr, code := command(project, "pause")
	if code != exitOK || !strings.Contains(stdout, "No process runs it") {
		t.Errorf("pause: exit code %d, %s%s", code, stdout, stderr)
	}
	hold(t, project, true) // the next one finds the place free
	stdout, stderr, code = command(project, "note", "while it lives")
	if code != exitOK || strings.Contains(stdout, "No process") {
		t.Errorf("while it lives: exit code %d, %s%s", code, stdout, stderr)
	}
}

// Whoever is asked and says no has cancelled nothing; nothing is held while the question stands.
func TestCancelAsks(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{"yes\n": "", "what?\nno\n": "nothing was cancelled", "": "nothing was cancelled"} {
		project := interrupted(t)
		a, _, _ := testApp()
		a.dir = project
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

// lookingReader checks, before a person answers, that the database is free.
type lookingReader struct {
	io.Reader
	t       *testing.T
	project string
	looked  bool
}

func (r *lookingReader) Read(p []byte) (int, error) {
	r.looked = true
	db, err := store.Open(filepath.Join(r.project, store.DirName, store.FileName), store.Options{})
	if err != nil {
		r.t.Errorf("while a person is asked: %v", err)
	} else {
		db.Close()
	}
	return r.Reader.Read(p)
}

// onDisk carries orders out as the process that has the database does while it runs nothing.
type onDisk struct{ db *store.DB }

func (s onDisk) Order(ctx context.Context, boulderID string, o boulder.Order) error {
	return orchestrator.Obey(ctx, s.db, boulderID, o, time.Now())
}
