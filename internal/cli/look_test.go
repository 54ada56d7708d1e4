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

	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/store"
)

func TestLookWhereNothingWasRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"status"}, exitOK, "Nothing has been run here yet"},
		{[]string{"status", "--json"}, exitOK, "Nothing has been run here yet"},
		{[]string{"list"}, exitOK, "Nothing has been run here yet"},
		{[]string{"list", "--json"}, exitOK, ""},
		{[]string{"status", "01k"}, exitUsage, "nothing has been run here yet"},
		{[]string{"show"}, exitUsage, "nothing has been run here yet"},
		{[]string{"logs", "01k"}, exitUsage, "nothing has been run here yet"},
	} {
		project := t.TempDir()
		stdout, stderr, code := command(project, test.args...)
		if code != test.code || !strings.Contains(stderr, test.says) || stdout != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", test.args, code, stdout, stderr)
		}
		if entries, err := os.ReadDir(project); err != nil || len(entries) > 0 {
			t.Errorf("%v left something behind: %v %v", test.args, entries, err)
		}
	}
}

func TestShowTakesOneView(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := command(t.TempDir(), "show", "--why", "x", "--receipt")
	if code != exitUsage || stdout != "" || !strings.Contains(stderr, "--why and --receipt cannot be used together") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.Play()
	project := s.store()
	checkLooks(t, project, map[string][]string{
		"list.txt": {"list"}, "show.txt": {"show", "01k3"}, "logs.txt": {"logs", "sample"},
		"logs_subtask.txt": {"logs", sampleID, "toggle"}, "status_stored.txt": {"status"},
		"list.json": {"list", "--json"}, "show.json": {"show", "--json"}, "logs.json": {"logs", "--json"},
	})
}

// checkLooks compares what command lines print with golden files.
func checkLooks(t *testing.T, project string, all map[string][]string) {
	t.Helper()
	for name, args := range all {
		stdout, stderr, code := command(project, args...)
		if code != exitOK || stderr != "" {
			t.Errorf("%v: exit code %d, stderr %q", args, code, stderr)
		}
		golden(t, name, stdout)
	}
}

func TestLookRefuses(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.Play()
	checkRefusals(t, s.store(), []refusedLine{
		{[]string{"show", "nosuch"}, `no such boulder: "nosuch"`},
		{[]string{"logs", sampleID, "nosuch"}, `has no sub-task "nosuch": it has toggle, theme, icons`},
		{[]string{"logs", "a", "b", "c"}, "not 3 arguments"},
		{[]string{"status", "a", "b"}, "takes one BOULDER, not 2"},
		{[]string{"list", "a"}, "takes no arguments"},
		{[]string{"status", "--nosuch"}, "unknown flag"},
	})
}

// refusedLine is a command line that cannot be carried out, and what is said about it.
type refusedLine struct {
	args []string
	says string
}

// checkRefusals checks that command lines print nothing but why they cannot be carried out.
func checkRefusals(t *testing.T, project string, all []refusedLine) {
	t.Helper()
	for _, test := range all {
		stdout, stderr, code := command(project, test.args...)
		if code != exitUsage || !strings.Contains(stderr, test.says) || stdout != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", test.args, code, stdout, stderr)
		}
	}
}

// While a process holds the database, the others see the same through its socket, and who it is.
func TestLookWhileItRuns(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.Play()
	project := s.store()
	before, _, _ := command(project, "show", "--json")
	whyBefore, _, _ := command(project, "show", "--why", "theme")
	hold(t, project, false)
	during, _, code := command(project, "show", "--json")
	if diff := cmp.Diff(before, during); diff != "" || code != exitOK {
		t.Errorf("exit code %d, what is shown differs (-alone +held):\n%s", code, diff)
	}
	why, _, code := command(project, "show", "--why", "theme")
	now := "now: left in turn 1 of attempt 1; no process runs it: manager resume " + sampleID
	want := strings.Replace(whyBefore, now, "now: at work: 2 of 5 todos · read theme.css", 1)
	if diff := cmp.Diff(want, why); diff != "" || code != exitOK {
		t.Errorf("exit code %d, the chain differs (-alone +held):\n%s", code, diff)
	}
	stdout, _, _ := command(project, "status")
	if !strings.Contains(stdout, "run by process 42") || !strings.Contains(stdout, "read theme.css") {
		t.Errorf("status does not say who runs it and what is done:\n%s", stdout)
	}
	stdout, _, _ = command(project, "list", "--json")
	if !strings.Contains(stdout, `"running":true`) {
		t.Errorf("the list does not say that it runs: %s", stdout)
	}
}

// logs -f prints what is there, then what comes, and ends with the boulder, also if that is over from the start.
func TestFollow(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.Play()
	project := s.store()
	db, server := holdAs(t, project, control.Holder{PID: 42})
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

// follow runs a command line whose stdout is read line by line, and gives its exit code when that is over.
func follow(env Env) (printed *bufio.Scanner, done chan int) {
	out, in := io.Pipe()
	env.Stdout, done = in, make(chan int, 1)
	go func() {
		done <- Main(env)
		in.Close()
	}()
	return bufio.NewScanner(out), done
}

// A process that has the database and does not answer is named, with exit code 5.
func TestLookWhileItIsHeldSilently(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	project := s.store()
	db, err := store.Open(filepath.Join(project, store.DirName, store.FileName), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, stderr, code := command(project, "status"); code != exitHeld || !strings.Contains(stderr, "another process") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
}

const sampleTranscript = `{"time":"2026-03-04T10:00:10Z","type":"prompt","text":"# Sub-task\nDo it."}
{"time":"2026-03-04T10:00:11Z","type":"tool","tool":"edit","call_id":"c1","state":"completed","input":{"filePath":"settings.go"},"output":"ok"}

not JSON
{"time":"2026-03-04T10:00:12Z","type":"text","text":"It is \u001b[31mdone."}
{"time":"2026-03-04T10:00:12Z","type":"end","finish":"stop"}
`

func TestLogsWithTranscript(t *testing.T) {
	t.Parallel()
	project := transcriptSample(t, func(s *sample) { s.Play() }, sampleTranscript)
	stdout, stderr, code := command(project, "logs", sampleID, "toggle", "--verbose")
	if code != exitOK {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	golden(t, "logs_transcript.txt", stdout)
	stdout, _, _ = command(project, "logs", sampleID, "toggle", "--json")
	if n := strings.Count(stdout, `"type":"transcript"`); n != 4 {
		t.Errorf("%d lines of the transcript were printed, want 4:\n%s", n, stdout)
	}
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

// Records may come from anywhere: what they name outside of .manager/runs is not read.
func TestTranscriptPaths(t *testing.T) {
	t.Parallel()
	project := t.TempDir()
	writeFile(t, filepath.Join(project, "secret.jsonl"), sampleTranscript)
	writeFile(t, filepath.Join(project, runsDir, "b", "s", "1.jsonl"), sampleTranscript)
	if err := os.Symlink("../../../../secret.jsonl", filepath.Join(project, runsDir, "b", "s", "2.jsonl")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		runsDir + "/b/s/1.jsonl": 4, runsDir + "/b/../b/s/1.jsonl": 4, runsDir + "/b/s/3.jsonl": 0, // gone: no error
		runsDir + "/b/s/2.jsonl": -1, runsDir + "/../../secret.jsonl": -1, "secret.jsonl": -1, "": -1,
		filepath.Join(project, "secret.jsonl"): -1, runsDir: -1,
	} {
		lines, err := readTranscript(project, name)
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
	v := newVersionInfo(build)
	v.Go, v.Platform, v.OpenCode = "go1.26", "linux/amd64", "1.18.33"
	want := "manager v1.2.3 (go1.26, linux/amd64, commit 0123456789 with changes)\ntested with OpenCode 1.18.33\n"
	if diff := cmp.Diff(want, v.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v := newVersionInfo(nil); v.Version != "(devel)" {
		t.Errorf("without build information the version is %q", v.Version)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.Play()
	project := s.store()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		stdout, stderr, code := command(project, "completion", shell)
		if code != exitOK || !strings.Contains(stdout, "manager") {
			t.Errorf("completion %s: exit code %d, stderr %q", shell, code, stderr)
		}
	}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"status", ""}, sampleID + "\trunning: Add dark mode with a toggle in the settings\n:36\n"},
		{[]string{"status", sampleID, ""}, ":36\n"},
		// All of them: it is the shell that compares.
		{[]string{"logs", sampleID, "th"}, "toggle\tAdd the settings toggle\ntheme\tCreate the theme 主题\n" +
			"icons\tDraw the icons\ndocs\tWrite it down\nsite\tPublish the icons\nlang\tTranslate it\n:36\n"},
	} {
		if diff := cmp.Diff(test.want, completion(t, project, test.args...)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.args, diff)
		}
	}
}

// completion is what a shell is told to offer for the last of the arguments.
func completion(t *testing.T, project string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"__complete", "-C", project}, args...)
	if code := Main(Env{Args: args, Stdout: &out, Stderr: &errs, Environ: os.Environ()}); code != exitOK {
		t.Errorf("%v: exit code %d, %s", args, code, errs.String())
	}
	return out.String()
}
