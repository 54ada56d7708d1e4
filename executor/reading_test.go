package executor

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// Three turns, read one by one, leave what the whole session gives; whatever happens to the transcript.
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
	for i, prompt := range []string{"", "second", "third"} {
		if i > 0 {
			a.Turn = boulder.Turn{AttemptRef: a.Turn.AttemptRef, Number: i + 1, Kind: boulder.TurnContinuation, Prompt: prompt}
		}
		var err error
		if e, err = a.run(t.Context(), w); err != nil {
			t.Fatal(err)
		}
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
		{"a torn line", func() error { return os.WriteFile(path, []byte(want+`{"time":"20`), 0o600) }},
		{"gone", func() error { return os.Remove(path) }},
		{"directory gone", func() error { return os.RemoveAll(filepath.Dir(path)) }},
		{"another file", func() error {
			return errors.Join(os.WriteFile(elsewhere, []byte("theirs"), 0o600), os.Remove(path), os.Symlink(elsewhere, path))
		}},
	} {
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
	}
	if data, _ := os.ReadFile(elsewhere); string(data) != "theirs" {
		t.Errorf("the file behind the link is %q", data)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*.tmp")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
