package view

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/testkit/golden"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

func console() (c Console, stdout, stderr *bytes.Buffer) {
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	return Console{
		Stdout: page.Out{Writer: stdout}, Stderr: page.Out{Writer: stderr}, Limits: orchestrator.DefaultLimits(),
	}, stdout, stderr
}

// shown prints for a terminal of width columns (0: a file). It fails on lines that do not fit and on escape sequences.
func shown(t *testing.T, width int, write func(page.Out)) string {
	t.Helper()
	var out strings.Builder
	write(page.Out{Writer: &out, Columns: width})
	for line := range strings.Lines(out.String()) {
		if w := ansi.StringWidthWc(strings.TrimSuffix(line, "\n")); width > 0 && w >= width {
			t.Errorf("a line for %d columns has %d: %q", width, w, line)
		}
	}
	if strings.ContainsRune(out.String(), '\x1b') {
		t.Errorf("what agents wrote reaches the terminal as it is: %q", out.String())
	}
	return out.String()
}

var (
	stamps = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? [A-Z+0-9]+`)
	clocks = regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`) // local times
)

func compare(t *testing.T, name, got string) {
	t.Helper()
	golden.Compare(t, filepath.Join("golden", name), clocks.ReplaceAllString(stamps.ReplaceAllString(got, "DATE TIME ZONE"), "TIME"))
}

func holder() *project.Holder {
	return &project.Holder{PID: 42, Command: "manager run", Since: sample.Began, Running: []string{sample.ID}}
}

func readingOf(s *sample.Boulder, holder *project.Holder) *project.Reading {
	return &project.Reading{Snapshot: s.State.Snapshot(), Events: s.Events, Holder: holder, Limits: orchestrator.DefaultLimits(), Now: s.Now}
}

func statusText(t *testing.T, s *sample.Boulder, holder *project.Holder) string {
	t.Helper()
	status := NewStatus(readingOf(s, holder))
	if status.Total != s.State.Boulder.Tally.Planned {
		t.Errorf("the status counts %d sub-tasks, the plan has %d", status.Total, s.State.Boulder.Tally.Planned)
	}
	return shown(t, 80, status.Print)
}

// lineOf returns the line of a sub-task (a mark, then the id) and the line below it.
func lineOf(t *testing.T, text, id string) string {
	t.Helper()
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == id {
			return line + "\n" + lines[i+1]
		}
	}
	t.Fatalf("there is no line of %s:\n%s", id, text)
	return ""
}

func liveSample(s *sample.Boulder) *Run {
	c, _, _ := console()
	c.Limits.Global = 1
	v := &Run{Console: c, drawn: true, now: func() time.Time { return s.Now }, progress: NewProgress(nil)}
	for _, e := range s.Events {
		v.take(e)
	}
	return v
}

// linesOf returns the permanent output of a run, as plain lines and above the live view.
func linesOf(s *sample.Boulder) map[string]string {
	c, _, stderr := console()
	playTo(s, NewRun(c, NewProgress(nil), ""))
	return map[string]string{"lines": stderr.String(), "live": strings.Join(liveSample(s).printed, "\n")}
}

func playTo(s *sample.Boulder, v *Run) {
	for _, e := range s.Events {
		v.Event(e)
	}
	v.Close()
}

func after(t *testing.T, plays ...func(*sample.Boulder)) *sample.Boulder {
	t.Helper()
	s := sample.New(t, sample.ID)
	for _, play := range plays {
		play(s)
	}
	return s
}

func frameOf(s *sample.Boulder, width int) string {
	return liveSample(s).frame(page.Size{Width: width, Height: 30}, 0)
}

// says checks that text contains each word, and none of the words after "NOT ".
func says(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if word, not := strings.CutPrefix(w, "NOT "); strings.Contains(text, word) == not {
			t.Errorf("%q is in it: %v, in:\n%s", word, not, text)
		}
	}
}

func ref(id string) boulder.AttemptRef { return boulder.AttemptRef{SubTaskID: id, Attempt: 1} }
