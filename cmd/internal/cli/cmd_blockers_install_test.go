package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Install depends on what is there: nothing, its own file, one of an older version, or a file of the user's.
func TestSlashInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, ".opencode", "command", "blockers.md")
	for _, step := range []struct{ program, outcome, holds string }{
		{"", "absent", ""},
		{"manager", "installed", "!`manager -C " + dir + " blockers"},
		{"manager", "installed", "!`manager -C "},
		{"/opt/it's here/manager", "installed", `'/opt/it'\''s here/manager' -C `},
		{"", "removed", ""},
		{"", "absent", ""},
	} {
		done, err := changeSlashFile(dir, ".opencode", step.program, dir)
		if err != nil || done.Outcome != step.outcome || done.File != file {
			t.Errorf("%+v: %+v, %v", step, done, err)
		}
		text, err := os.ReadFile(file)
		if (err == nil) != (step.holds != "") || !strings.Contains(string(text), step.holds) {
			t.Errorf("%+v: wrote %q, %v", step, text, err)
		}
		if err == nil && len(entries(t, filepath.Dir(file))) != 1 {
			t.Errorf("left behind: %q", entries(t, filepath.Dir(file)))
		}
	}
	if names := entries(t, filepath.Join(dir, ".opencode")); len(names) != 0 {
		t.Errorf("left behind: %q", names)
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		names = append(names, e.Name())
	}
	return names
}

// Files that are not ours are neither replaced nor removed. Links are not followed.
func TestSlashInstallLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	ours, err := slashFile("manager", "/p")
	if err != nil {
		t.Fatal(err)
	}
	const command = "command/blockers.md"
	for what, test := range map[string]struct{ name, text, link string }{
		"a file of the user's":     {command, "Say hello.\n", ""},
		"one in the other place":   {"commands/blockers.md", "Say hello.\n", ""},
		"a directory of that name": {command + "/x", "x", ""},
		"a large file":             {command, strings.Repeat("x", maxSlash+1), ""},
		"a link to a file of ours": {command, "", "../../../elsewhere/victim"},
		"a link to nothing":        {command, "", "../../../elsewhere/nothing"},
		"a link for the directory": {"command", "", "../../elsewhere"},
		"a file for the directory": {"command", "x", ""},
	} {
		root := t.TempDir()
		dir := filepath.Join(root, "project")
		path := filepath.Join(dir, ".opencode", test.name)
		writeFile(t, filepath.Join(root, "elsewhere", "victim"), ours)
		writeFile(t, path, test.text)
		if test.link != "" {
			if err := errors.Join(os.Remove(path), os.Symlink(test.link, path)); err != nil {
				t.Fatal(err)
			}
		}
		before := snapshot(t, root)
		for _, program := range []string{"", "manager"} {
			done, err := changeSlashFile(dir, ".opencode", program, dir)
			if err == nil && (program != "" || done.Outcome != "absent") {
				t.Errorf("%s, for %q: %+v", what, program, done)
			}
		}
		if after := snapshot(t, root); after != before {
			t.Errorf("%s: before:\n%s\nafter:\n%s", what, before, after)
		}
	}
}

// snapshot lists every name below a directory with the content of files and the target of links.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	const list = `cd "$0" && find . | sort && find . -type l -exec ls -l {} + && find . -type f -exec cksum {} +`
	out, err := exec.Command("sh", "-c", list, dir).CombinedOutput()
	if err != nil {
		t.Fatal(err, string(out))
	}
	return string(out)
}

// The file for all projects is in the user's configuration of OpenCode, and names no project.
func TestSlashInstallForAllProjects(t *testing.T) {
	t.Parallel()
	home, project := t.TempDir(), t.TempDir()
	env := append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME=")
	file := filepath.Join(home, ".config", "opencode", "command", "blockers.md")
	step := func(outcome string, args ...string) {
		t.Helper()
		code, stdout, stderr := run(t, project, env, append(args, "--global", "--json")...)
		want := fmt.Sprintf("{\"type\":\"blockers-command\",\"file\":%q,\"outcome\":%q}\n", file, outcome)
		if code != 0 || stdout != want {
			t.Errorf("%q: %d\n%s%s", args, code, stdout, stderr)
		}
	}
	step("absent", "blockers", "uninstall")
	if names := entries(t, home); len(names) != 0 {
		t.Errorf("removing nothing has made %q", names)
	}
	step("installed", "blockers", "install")
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), "!`manager blockers slash <<") {
		t.Errorf("wrote %q, %v", text, err)
	}
	step("installed", "blockers", "install")
	step("removed", "blockers", "uninstall")
	if names := entries(t, project); len(names) != 0 {
		t.Errorf("the project has %q", names)
	}
}

// A path that the file cannot hold literally is refused.
func TestSlashFileRefusesPaths(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/a`b", "/a$1", "/$ARGUMENTS", "/a\nb"} {
		if text, err := slashFile("manager", path); err == nil {
			t.Errorf("%q was taken: %s", path, text)
		}
	}
}

func TestSlashWords(t *testing.T) {
	t.Parallel()
	typed := func(s string) string { return s + "\n" + slashEnd + "\n" }
	for _, c := range []struct {
		typed string
		want  []string
	}{
		{"", nil},
		{"  list --all ", []string{"list", "--all"}},
		{"help", []string{"--help"}},
		{"answer B7 don't use \"that\"; $(rm x)", []string{"answer", "--", "B7", `don't use "that"; $(rm x)`}},
		{`answer B7 "Use bcrypt, cost 12"`, []string{"answer", "--", "B7", "Use bcrypt, cost 12"}},
		{`answer B7 'a' or 'b'`, []string{"answer", "--", "B7", `'a' or 'b'`}},
		{"answer --allow B8", []string{"answer", "--allow", "--", "B8"}},
		{"answer B8 --allow", []string{"answer", "--allow", "--", "B8"}},
		{"answer B8 --allow once", []string{"answer", "--allow", "--", "B8", "once"}},
		{"answer B8 --allowed", []string{"answer", "--", "B8", "--allowed"}},
		{"answer B9 two\n  lines", []string{"answer", "--", "B9", "two\n  lines"}},
		{"answer", []string{"answer", "--", ""}},
		{"answer -- B9 -- a b", []string{"answer", "--", "B9", "-- a b"}},
	} {
		if got, err := slashWords(typed(c.typed)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, %v", c.typed, got, err)
		}
	}
	for _, bad := range []string{
		"list\n", "answer B7 use the \n", "", // cut off
		typed("run x"), typed("slash"), typed("install"), typed("--config x"), typed("answer B7 -"), typed("answer B7 \"-\""),
	} {
		if got, err := slashWords(bad); err == nil {
			t.Errorf("%q was read as %q", bad, got)
		}
	}
}

// Any input is refused, or becomes one of the commands with nothing in front.
func TestSlashWordsStayWithinTheCommands(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.SampledFrom(append([]string{"-", "--", "-C", "\"", "'", slashEnd, "B1"}, slashCommands...)),
			rapid.String())
		text := strings.Join(rapid.SliceOf(word).Draw(t, "words"), " ") + "\n" + slashEnd
		args, err := slashWords(text)
		if err != nil || len(args) == 0 || args[0] == "--help" {
			return
		}
		if !slices.Contains(slashCommands, args[0]) {
			t.Fatalf("%q was read as %q", text, args)
		}
		if args[0] == "answer" && slices.Index(args, "--") < len(args)-3 {
			t.Fatalf("an answer of several words: %q", args)
		}
	})
}
