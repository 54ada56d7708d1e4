package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

// Three turns, read one by one, leave what the whole session gives; whatever happened to the file in between.
func TestTurnsAreReadOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, script(t, `
rules:
  - when: {last_user: "third"}
    replies: [{tool_calls: [{name: read, args: {filePath: a.txt}}]}, {text: Third.}]
  - when: {last_user: "second"}
    replies: [{tool_calls: [{name: bash, args: {command: "echo b > b.txt", description: b}}]}, {text: Second.}]
  - when: {first_user: "first"}
    replies: [{tool_calls: [{name: write, args: {filePath: a.txt, content: "a\n"}}]}, {text: First.}]
`))
	a := w.newAttempt("go", "first")
	a.Alone = func() bool { return false } // then it is told who wrote what, and by what
	var e boulder.Evidence
	var files []os.FileInfo
	for i, prompt := range []string{"", "second", "third"} {
		if i > 0 {
			a.Turn = boulder.Turn{AttemptRef: a.Turn.AttemptRef, Number: i + 1, Kind: boulder.TurnContinuation, Prompt: prompt}
		}
		var err error
		if e, err = a.run(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		files = append(files, w.stat(e.Transcript))
	}
	if !os.SameFile(files[0], files[1]) || !os.SameFile(files[1], files[2]) {
		t.Error("the transcript was written anew with a later turn")
	}
	if !e.Diff.Commands || len(e.Diff.Files) != 2 || e.ToolCount != 1 || e.FinalMessage != "Third." {
		t.Errorf("turn 3: %+v", e)
	}
	read := w.file(e.Transcript)

	turns := w.exec
	var err error
	if w.exec, err = New(turns.cfg); err != nil { // as after a start of the manager
		t.Fatal(err)
	}
	whole, err := a.again(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	want := w.file(e.Transcript)
	if read != want {
		t.Errorf("turn by turn the transcript is\n%s\nread as a whole\n%s", read, want)
	}
	e.Duration, whole.Duration = 0, 0 // of a turn that nobody watched it is known less exactly
	if !reflect.DeepEqual(e, whole) {
		t.Errorf("turn by turn the evidence is\n%+v\nread as a whole\n%+v", e, whole)
	}
	checkDamage(t, w, a, filepath.Join(w.project, e.Transcript), want)
}

// checkDamage has the last turn looked at again with a transcript that is not as it was left.
func checkDamage(t *testing.T, w *world, a *attempt, path, want string) {
	t.Helper()
	elsewhere := filepath.Join(t.TempDir(), "file")
	for _, test := range []struct {
		name   string
		damage func() error
	}{
		{"none", func() error { return nil }},
		{"a torn line", func() error { return os.WriteFile(path, []byte(want+`{"time":"20`), 0o600) }},
		{"cut", func() error { return os.Truncate(path, int64(len(want)-10)) }},
		{"overwritten", func() error { return os.WriteFile(path, []byte(strings.Repeat("x", len(want))), 0o600) }},
		{"gone", func() error { return os.Remove(path) }},
		{"directory gone", func() error { return os.RemoveAll(filepath.Dir(path)) }},
		{"another file", func() error {
			at := w.stat(path).ModTime()
			return errors.Join(os.WriteFile(elsewhere, []byte(want), 0o600), os.Chtimes(elsewhere, at, at),
				os.Remove(path), os.Symlink(elsewhere, path))
		}},
	} {
		before := w.stat(path)
		if err := test.damage(); err != nil {
			t.Fatal(err)
		}
		e, err := a.again(t.Context(), w)
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if e.FinalMessage != "Third." || e.ToolCount != 1 || !e.Diff.Commands {
			t.Errorf("%s: %+v", test.name, e)
		}
		after, err := os.Lstat(path)
		if data, _ := os.ReadFile(path); err != nil || string(data) != want || !after.Mode().IsRegular() {
			t.Errorf("%s: the transcript is (%v)\n%s", test.name, err, data)
		}
		if test.name == "none" && !os.SameFile(before, after) {
			t.Error("an undamaged transcript was written anew")
		}
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A session grows by turns; some are not read to their end. After each that is, transcript and account are those of the
// whole; after each that is not, nothing that was there before is gone.
func TestReadingOnGivesTheWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		tu := &turn{Executor: &Executor{cfg: Config{Project: dir, RunsDir: dir, Redact: asItIs{}}}}
		const name = "t.jsonl"
		path := filepath.Join(dir, name)
		tu.job.Attempt.SessionID = "s"
		var session []opencode.Message
		readAll := func(name string) *reading {
			w, err := tu.newTranscript(name)
			must(t, err)
			return takeAll(t, &reading{transcript: w}, session)
		}
		must(t, tu.keep(readAll(name)))
		for range rapid.IntRange(1, 6).Draw(t, "turns") {
			n, late := len(session), rapid.Bool().Draw(t, "late")
			if n > 0 && late {
				session[n-1] = drawMessage(t, n-1)
			}
			for range rapid.IntRange(0, 4).Draw(t, "messages") {
				session = append(session, drawMessage(t, len(session)))
			}
			r := (*reading)(nil)
			m, ok := tu.marks.take("s")
			if ok && m.last != "" {
				w := tu.continueTranscript(m)
				if w == nil {
					t.Fatal("the file is as it was left, and was not taken for it")
				}
				r = takeAll(t, &reading{transcript: w, before: m.before}, session[index(session, m.last):])
			} else {
				r = readAll(name)
			}
			if rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
				was := content(t, path)
				must(t, r.transcript.w.Flush())
				r.transcript.discard()
				there := was
				if ok && late {
					there = was[:m.lastAt] // what changed is another text now
				}
				if now := content(t, path); !strings.HasPrefix(now, there) {
					t.Fatalf("a crash made\n%s\nof\n%s", now, was)
				}
				continue
			}
			must(t, tu.keep(r))
			whole := readAll("whole.jsonl")
			_, err := whole.transcript.save()
			must(t, err)
			if got, want := content(t, path), content(t, filepath.Join(dir, "whole.jsonl")); got != want {
				t.Fatalf("turn by turn:\n%s\nas a whole:\n%s", got, want)
			}
			if got, want := r.session(), whole.session(); !reflect.DeepEqual(got, want) {
				t.Fatalf("turn by turn: %+v\nas a whole: %+v", got, want)
			}
		}
	})
}

func takeAll(t *rapid.T, r *reading, messages []opencode.Message) *reading {
	for _, m := range messages {
		must(t, r.take(m))
	}
	return r
}

func drawMessage(t *rapid.T, i int) opencode.Message {
	m := opencode.Message{Info: opencode.MessageInfo{ID: fmt.Sprint(i), Role: opencode.RoleAssistant}}
	m.Parts = append(m.Parts, opencode.Part{Type: opencode.PartText, Text: rapid.StringN(0, 40, -1).Draw(t, "text")})
	if tool := rapid.SampledFrom([]string{"", "read", "bash", "edit"}).Draw(t, "tool"); tool != "" {
		file := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "file")
		m.Parts = append(m.Parts, opencode.Part{Type: opencode.PartTool, Tool: &opencode.ToolCall{
			Tool: tool, State: opencode.ToolCompleted, Input: json.RawMessage(`{"filePath":"` + file + `"}`),
			Metadata: json.RawMessage(`{"diagnostics":{"` + file + `":[{"severity":1,"message":"` + fmt.Sprint(i) + `"}]}}`),
		}})
	}
	if rapid.Bool().Draw(t, "ended") {
		m.Info.Finish = opencode.FinishStop
	}
	return m
}

func must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func content(t *rapid.T, path string) string {
	data, err := os.ReadFile(path)
	must(t, err)
	return string(data)
}

func (w *world) stat(name string) fs.FileInfo {
	w.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(w.project, name)
	}
	info, err := os.Lstat(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return info
}
