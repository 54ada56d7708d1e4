package cli

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
)

func TestLook(t *testing.T) {
	t.Parallel()
	checkLooks(t, interrupted(t), map[string][]string{
		"list.txt": {"list"}, "show.txt": {"show", "01k3"}, "logs.txt": {"logs", "sample"},
		"logs_subtask.txt": {"logs", "toggle"}, "status_stored.txt": {"status"},
		"list.json": {"list", "--json"}, "show.json": {"show", "--json"}, "logs.json": {"logs", "--json"},
	})
}

// checkLooks compares output with golden files. Off a terminal it has no ANSI codes, whatever a record contains.
func checkLooks(t *testing.T, project string, all map[string][]string) {
	t.Helper()
	for name, args := range all {
		stdout, stderr, code := command(project, args...)
		if code != exitOK || stderr != "" {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
		golden(t, name, stdout)
		checkHarmless(t, stdout)
	}
}

func TestLookRefuses(t *testing.T) {
	t.Parallel()
	checkRefusals(t, interrupted(t), []refusedLine{
		{[]string{"show", "nosuch"}, `no such boulder: "nosuch"`},
		{[]string{"show", "--why", "x", "--receipt"}, "[receipt why] were all set"},
		{[]string{"show", "--why", "nosuch"}, `has no sub-task "nosuch": it has toggle, theme, icons`},
		{[]string{"show", "--why", ""}, `has no sub-task ""`},
		{[]string{"show", "nosuch", "--why", "toggle"}, `no such boulder: "nosuch"`},
		{[]string{"logs", sampleID, "nosuch"}, `has no sub-task "nosuch": it has toggle, theme, icons`},
		{[]string{"logs", "nosuch"}, "see `manager list`; and boulder " + shortID + ` has no sub-task "nosuch": it has toggle`},
		{[]string{"logs", "a", "b", "c"}, `not "a b c"`},
		{[]string{"status", "a", "b"}, `takes one BOULDER, not "a b"`},
		{[]string{"list", "a"}, "takes no arguments"},
		{[]string{"status", "--nosuch"}, "unknown flag"},
		{[]string{"report", "nosuch"}, `no such boulder: "nosuch"`},
		{[]string{"report", "--json", "--format", "text"}, "--json and --format contradict each other"},
	})
}

// Without a run there is nothing to show, and looking creates nothing.
func TestLookWhereNothingWasRun(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	for _, line := range []string{"status", "status --json", "list", "list --json"} {
		stdout, stderr := expect(t, project, exitOK, strings.Fields(line))
		if stdout != "" || line != "list --json" && !strings.Contains(stderr, "Nothing has been run here yet") {
			t.Errorf("%s: stdout %q, stderr %q", line, stdout, stderr)
		}
	}
	const says = "nothing has been run here yet"
	checkRefusals(t, project, []refusedLine{
		{[]string{"status", "01k"}, says}, {[]string{"show"}, says}, {[]string{"logs", "01k"}, says}, {[]string{"report"}, says},
	})
	if names := entries(t, project); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

type refusedLine struct {
	args []string
	says string
}

// checkRefusals checks that command lines print nothing but why they are refused.
func checkRefusals(t *testing.T, project string, all []refusedLine) {
	t.Helper()
	for _, test := range all {
		stdout, stderr, code := command(project, test.args...)
		if code != exitUsage || !strings.Contains(stderr, test.says) || stdout != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", test.args, code, stdout, stderr)
		}
	}
}

// While a process holds the database, others see the same through its socket, and which process that is.
func TestLookWhileItRuns(t *testing.T) {
	t.Parallel()
	project := interrupted(t)
	before, _, _ := command(project, "show", "--json")
	whyBefore, _, _ := command(project, "show", "--why", "theme")
	hold(t, project, false)
	during, _ := expect(t, project, exitOK, []string{"show", "--json"})
	if diff := cmp.Diff(before, during); diff != "" {
		t.Errorf("what is shown differs (-alone +held):\n%s", diff)
	}
	why, _ := expect(t, project, exitOK, []string{"show", "--why", "theme"})
	now := "now: left in turn 1 of attempt 1; no process runs it: manager resume " + shortID
	want := strings.Replace(whyBefore, now, "now: at work: 2 of 5 todos · read theme.css", 1)
	if diff := cmp.Diff(want, why); diff != "" {
		t.Errorf("the chain differs (-alone +held):\n%s", diff)
	}
	expect(t, project, exitOK, []string{"status"}, "run by process 42", "read theme.css")
	expect(t, project, exitOK, []string{"list", "--json"}, `"running":true`)
	expect(t, project, exitOK, []string{"report"}, "Boulder "+shortID+": running, at work", "manager status "+shortID,
		"!manager resume")
}

// logs -f prints what is stored, then what comes, and ends with the boulder, even if that is already over.
func TestFollow(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.Play()
	project := s.store()
	db, server := holdAs(t, project, processAt{PID: 42})
	printed, done := follow(Env{Args: []string{"logs", "-f", "--json", "-C", project}, Stderr: io.Discard})
	for range s.Events {
		printed.Scan()
	}
	stored := len(s.Events) // it follows now
	s.Finish()
	s.commit(db)
	server.Notify()
	for printed.Scan() {
		stored++
	}
	if code := <-done; code != exitOK || stored != len(s.Events) {
		t.Errorf("exit code %d, %d events, want %d", code, stored, len(s.Events))
	}
	stdout, _, code := command(project, "logs", "-f", "--json")
	if n := strings.Count(stdout, "\n"); code != exitOK || n != len(s.Events) {
		t.Errorf("after the end: exit code %d, %d events, want %d", code, n, len(s.Events))
	}
}

// follow runs a command line and returns its stdout by lines, and its exit code.
func follow(env Env) (printed *bufio.Scanner, done chan int) {
	out, in := io.Pipe()
	env.Stdout, done = in, make(chan int, 1)
	go func() {
		done <- Main(env)
		in.Close()
	}()
	return bufio.NewScanner(out), done
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Records may come from anywhere: paths outside of .manager/runs are not read.
func TestTranscriptPaths(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	const transcript = `{"type":"text","text":"It is done."}`
	writeFile(t, filepath.Join(project, "secret.jsonl"), transcript)
	writeFile(t, filepath.Join(project, view.RunsDir, "b", "s", "1.jsonl"), transcript)
	if err := os.Symlink("../../../../secret.jsonl", filepath.Join(project, view.RunsDir, "b", "s", "2.jsonl")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		view.RunsDir + "/b/s/1.jsonl": 1, view.RunsDir + "/b/../b/s/1.jsonl": 1, view.RunsDir + "/b/s/3.jsonl": 0, // no error
		view.RunsDir + "/b/s/2.jsonl": -1, view.RunsDir + "/../../secret.jsonl": -1, "secret.jsonl": -1, "": -1,
		filepath.Join(project, "secret.jsonl"): -1, view.RunsDir: -1,
	} {
		lines, err := view.ReadTranscript(project, name)
		switch {
		case want < 0 && (err == nil || len(lines) > 0):
			t.Errorf("%q was read: %d lines, %v", name, len(lines), err)
		case want >= 0 && (err != nil || len(lines) != want):
			t.Errorf("%q: %d lines, %v; want %d", name, len(lines), err, want)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	build := &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"},
	}}
	v := newVersionInfo(build, true)
	v.Go, v.Platform, v.OpenCode = "go1.26", "linux/amd64", "1.18.33"
	want := "manager v1.2.3 (go1.26, linux/amd64, commit 0123456789 with changes)\ntested with OpenCode 1.18.33\n"
	var shown strings.Builder
	v.Print(page.Out{Writer: &shown})
	if diff := cmp.Diff(want, shown.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v := newVersionInfo(nil, false); v.Version != "(devel)" {
		t.Errorf("without build information the version is %q", v.Version)
	}
}

// Help names the program as the user calls it.
func TestHelpNamesTheProgram(t *testing.T) {
	t.Parallel()
	for executable, want := range map[string]string{"": "manager wait", "/opt/manager": "manager wait", "/opt/manager-temporal": "manager-temporal wait"} {
		var out strings.Builder
		code := Main(Env{Args: []string{"wait", "--help"}, Stdout: &out, Stderr: io.Discard, Executable: executable})
		if code != exitOK || !strings.Contains(out.String(), "\n  "+want+" [") {
			t.Errorf("%q: exit code %d, it says %s", executable, code, out.String())
		}
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	project := interrupted(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		expect(t, project, exitOK, []string{"completion", shell}, "manager")
	}
	expect(t, project, exitUsage, []string{"completion", "powershell"}, "has no command \"powershell\"")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"status", ""}, sampleID + "\trunning: Add dark mode with a toggle in the settings\n:36\n"},
		{[]string{"status", sampleID, ""}, ":36\n"},
		// All of them: the shell filters.
		{[]string{"logs", sampleID, "th"}, "toggle\tAdd the settings toggle\ntheme\tCreate the theme 主题\n" +
			"icons\tDraw the icons\ndocs\tWrite it down\nsite\tPublish the icons\nlang\tTranslate it\n:36\n"},
		{[]string{"graph", ""}, sampleID + "\trunning: "},
		{[]string{"graph", "--format", ""}, "text\nmermaid\ndot\nsvg\n"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"__complete", "-C", project}, test.args...)
		code := Main(Env{Args: args, Stdout: &out, Stderr: &errs, Environ: os.Environ()})
		if code != exitOK || !strings.HasPrefix(out.String(), test.want) {
			t.Errorf("%v: exit code %d, %q, want %q: %s", test.args, code, out.String(), test.want, errs.String())
		}
	}
}
