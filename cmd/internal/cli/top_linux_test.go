package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// top shows another process's boulder live, takes an answer, and restores the terminal.
func TestTop(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	db, _ := hold(t, project, true)
	p := openPTY(t)
	done := make(chan int)
	go func() {
		done <- Main(Env{
			Args: []string{"top", "-C", project}, Stdin: p.slave, Stdout: p.slave, Stderr: p.slave,
			Environ: []string{"TERM=xterm", "NO_COLOR=1", "HOME=" + t.TempDir()},
		})
	}()
	types := func(keys, shown string) {
		t.Helper()
		before := len(p.text())
		if _, err := p.master.WriteString(keys); err != nil {
			t.Fatal(err)
		}
		await(t, func() bool { return strings.Contains(p.text()[before:], shown) })
	}
	p.shows("blockers") // single words: only cells that differ are drawn
	types("?", "Ctrl-B")
	types("?", "Boulders")
	types("a", "signs")
	types("the release key\r", "Answered")
	if got := statusOf(t, project)["B1"]; got != "answered: the release key" {
		t.Errorf("B1 is %q", got)
	}
	progress := boulder.SubTaskProgress{AttemptRef: boulder.AttemptRef{SubTaskID: "lang", Attempt: 1}, Activity: "JJJJJJJJ"}
	d, err := db.Get(t.Context(), sampleID)
	if err != nil {
		t.Fatal(err)
	}
	state, err := boulder.Restore(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Apply(boulder.Event{Time: time.Now(), BoulderID: sampleID, Body: progress}); err != nil {
		t.Fatal(err)
	}
	if err := db.Commit(t.Context(), state, state.TakeEvents()); err != nil {
		t.Fatal(err)
	}
	p.shows("JJJJJJJJ")
	types("p", "Paused.")
	types("q", "\x1b[?1049l")
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	p.drain()
	if !p.sane() || !p.cursor() || strings.LastIndex(p.text(), "\x1b[?1049l") < strings.LastIndex(p.text(), "\x1b[?1049h") {
		t.Error("the terminal is not as it was")
	}
}

func TestTopWithoutTerminal(t *testing.T) {
	t.Parallel()
	_, stderr := expect(t, blockedSample(t), exitUsage, []string{"top"})
	for _, want := range []string{"manager status", "manager list"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("it does not name %s: %s", want, stderr)
		}
	}
}
