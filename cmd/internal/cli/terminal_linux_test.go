package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// shows waits until the terminal has shown a text.
func (p *pty) shows(text string) {
	p.t.Helper()
	await(p.t, func() bool { return strings.Contains(p.text(), text) })
}

// status --follow draws what the run would draw, with what needs the user on top, and ends with the boulder.
func TestStatusFollow(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.Play()
	project := s.store()
	db, server := hold(t, project, false)
	p := openPTY(t)
	done := make(chan int)
	go func() {
		done <- Main(Env{
			Args: []string{"status", "--follow", "-C", project}, Stdout: io.Discard, Stderr: p.slave,
			Environ: []string{"TERM=xterm", "HOME=" + t.TempDir()},
		})
	}()
	p.shows("manager retry icons")
	before := p.text()
	for _, want := range []string{
		"Needs you", "Draw the icons: not complete after 5 turns", "Creating the theme", "read theme.css",
	} {
		if !strings.Contains(before, want) {
			t.Errorf("the picture does not have %q:\n%s", want, before)
		}
	}
	s.Apply(boulder.SubTaskProgress{
		AttemptRef: boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}, Activity: "JJJJJJJJ",
	})
	s.commit(db)
	server.Notify()
	p.shows("JJJJJJJJ") // only cells that differ are drawn
	s.Finish()
	s.commit(db)
	server.Notify()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	p.drain()
	if !p.sane() || !p.cursor() {
		t.Error("the terminal is not as it was")
	}
}

// While the model makes a plan, the terminal shows which model is asked and for how long.
func TestPlanningIsSeen(t *testing.T) {
	t.Parallel()
	p := openPTY(t)
	a, _, _ := testApp(t, t.TempDir(), "TERM=xterm")
	a.Stderr = p.slave
	told, done := a.planning("openai/thinker")
	p.shows("Planning with openai/thinker")
	told(boulder.PlanTrouble{Reason: "connection refused"})
	p.shows("No plan yet: connection refused. Asked again at ")
	done()
	p.drain()
	if !p.cursor() {
		t.Error("the cursor stays hidden")
	}
}
