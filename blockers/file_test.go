package blockers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A path outside of the project, or among the files of git and manager, is refused before anything is written.
func TestPlacesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"/etc/passwd", "../blockers.md", "a/../../blockers.md", "..", ".", "./", "notes/", "a\x00b", "a\nb", ".git/hooks/pre-push",
		"a/.git/config", ".GIT/config", ".manager/manager.db", "./.manager/x",
	} {
		cfg := newProject(t).config()
		cfg.File = name
		if _, err := Open(cfg); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("open blockers: the list %q: ", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := Open(Config{}); err == nil {
		t.Error("opened without a place")
	}
}

// A missing directory of the list is created.
func TestListInADirectory(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	for _, name := range []string{"notes/night/list.md", "./notes/night/../night/list.md"} {
		raise(t, p.register(t, func(c *Config) { c.File = name }), hardInput("For "+name+"?"))
	}
	data, err := os.ReadFile(filepath.Join(p.dir, "notes", "night", "list.md"))
	if err != nil || strings.Count(string(data), "- [ ] ") != 2 || p.file(t) != "" {
		t.Errorf("%v, %s", err, data)
	}
}

// Links, directories, pipes and other things in place of the list neither redirect its text nor stop anything. The item
// waits, and is written once the path is free.
func TestWhatLiesInThePlace(t *testing.T) {
	t.Parallel()
	const name = "notes/list.md"
	at := func(put func(path, outside string) error) func(dir, outside string) error {
		return func(dir, outside string) error { return put(filepath.Join(dir, name), outside) }
	}
	link := func(to string) func(dir, outside string) error {
		return at(func(path, _ string) error { return os.Symlink(to, path) })
	}
	onTheWay := func(put func(path, outside string) error) func(dir, outside string) error {
		return func(dir, outside string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "notes")), put(filepath.Join(dir, "notes"), outside))
		}
	}
	for what, put := range map[string]func(dir, outside string) error{
		"a link out of the project": at(func(path, outside string) error {
			return os.Symlink(filepath.Join(outside, "victim"), path)
		}),
		"a link within the project": link("../victim"), "a dangling link": link("../made"),
		"a directory": at(func(path, _ string) error { return os.Mkdir(path, 0o700) }),
		"a pipe":      at(func(path, _ string) error { return syscall.Mkfifo(path, 0o600) }),
		"too large a file": at(func(path, _ string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxFile+1))
		}),
		"a link on the way":         onTheWay(func(path, outside string) error { return os.Symlink(outside, path) }),
		"a link on the way, within": onTheWay(func(path, _ string) error { return os.Symlink(".", path) }),
		"a file on the way":         onTheWay(func(path, _ string) error { return os.WriteFile(path, nil, 0o600) }),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p, outside := newProject(t), t.TempDir()
			d := p.register(t, func(c *Config) { c.File = name })
			victims := []string{filepath.Join(p.dir, "victim"), filepath.Join(outside, "victim"), filepath.Join(outside, "list.md")}
			for _, v := range victims {
				check(t, os.WriteFile(v, []byte("mine\n"), 0o600))
			}
			check(t, errors.Join(os.Mkdir(filepath.Join(p.dir, "notes"), 0o700), put(p.dir, outside)))
			raise(t, d, hardInput("Which?"))
			if s := status(t, d); s.Unwritten != 1 || s.Trouble == "" {
				t.Errorf("what is wrong with the list is not told: %+v", s)
			}
			for _, v := range victims {
				if data, err := os.ReadFile(v); err != nil || string(data) != "mine\n" {
					t.Errorf("%s: %q, %v", v, data, err)
				}
			}
			for _, made := range []string{"made", "list.md"} {
				if _, err := os.Lstat(filepath.Join(p.dir, made)); err == nil {
					t.Errorf("%s was made", made)
				}
			}
			check(t, os.RemoveAll(filepath.Join(p.dir, "notes")))
			if s := status(t, d); s.Unwritten != 0 || s.Trouble != "" {
				t.Errorf("in the end: %+v", s)
			}
		})
	}
}

// A link is not followed, at whatever moment it is put there, even between the check and the opening.
func TestListIsReplacedWhileItIsOpened(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"committed", "adding", "made", "read", "written"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			path, victim := filepath.Join(p.dir, DefaultFile), filepath.Join(p.dir, "victim")
			check(t, os.WriteFile(victim, []byte("mine\n"), 0o600))
			d := p.register(t)
			d.failpoint = func(step string) {
				if step == "committed" { // it is a file, up to this step
					_ = os.Remove(path)
					p.write(t, "# Mine\n")
				}
				if step == at {
					check(t, errors.Join(os.Remove(path), os.Symlink("victim", path)))
				}
			}
			for i := range 2 {
				raise(t, d, hardInput(fmt.Sprintf("Which of %d?", i)))
				if data, err := os.ReadFile(victim); err != nil || string(data) != "mine\n" {
					t.Errorf("%q, %v", data, err)
				}
			}
			if s := status(t, p.register(t)); s.Unwritten != 2 || s.Trouble == "" {
				t.Errorf("%+v", s)
			}
		})
	}
}

// editors has ways in which programs save a file. Each gets the text to save.
var editors = map[string]func(path, text string) error{
	"in place": func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) },
	"by renaming": func(path, text string) error {
		return errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path))
	},
	"cut at the end": func(path, text string) error {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		return errors.Join(err, f.Truncate(int64(len(text))), f.Close())
	},
}

// An editor that saves a stale text at the worst moment loses nothing of what the user wrote.
func TestEditorsThatSaveOldText(t *testing.T) {
	t.Parallel()
	for name, save := range editors {
		for _, step := range []string{"committed", "adding", "made", "read", "written", "added"} {
			t.Run(name+"/"+step, func(t *testing.T) {
				t.Parallel()
				p := newProject(t)
				d := p.register(t)
				raise(t, d, hardInput("The first?"))
				const note = "  - We have to talk about it on Monday.\n"
				old := strings.Replace(p.file(t), "[ ]", "[x]", 1) + note
				saved := false
				d.failpoint = func(at string) {
					if at == step && !saved {
						saved = true
						check(t, save(filepath.Join(p.dir, DefaultFile), old))
					}
				}
				raise(t, d, softInput("The second?"))
				listed(t, p.register(t), Filter{}) // as any process does
				got := p.file(t)
				if !saved || !strings.Contains(got, "[x] **W1**") || !strings.Contains(got, note) {
					t.Errorf("saved: %v; what the person wrote is lost:\n%s", saved, got)
				}
				if n := strings.Count(got, "**W2**"); step != "added" && n != 1 {
					t.Errorf("the second is there %d times:\n%s", n, got)
				}
			})
		}
	}
}

// Items that the user deletes are not written again.
func TestWhatPeopleTakeOut(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	d := p.register(t)
	raise(t, d, hardInput("The first?"))
	p.write(t, "# Mine\n")
	raise(t, d, hardInput("The second?"))
	if got := p.file(t); strings.Contains(got, "The first?") ||
		!strings.HasPrefix(got, "# Mine\n\n## Hard blockers\n\n- [ ] **W2**") {
		t.Errorf("%s", got)
	}
	check(t, os.Remove(filepath.Join(p.dir, DefaultFile)))
	raise(t, d, hardInput("The third?"))
	if got := p.file(t); !strings.HasPrefix(got, "# Blockers\n") || strings.Count(got, "- [ ] ") != 1 {
		t.Errorf("a new file: %s", got)
	}
}

// What cannot be written is reported, survives restarts, and is written by the next operation of any kind (seed 003,
// SC-009, allows three tries; this takes one). Nothing else depends on it.
func TestUnwritableList(t *testing.T) {
	t.Parallel()
	for name, operation := range map[string]func(*Register) error{
		"reading":  func(d *Register) error { _, err := d.List(t.Context(), Filter{}); return err },
		"changing": func(d *Register) error { return d.EndWait(t.Context(), scope, "W1", true) },
		"making":   func(d *Register) error { return d.Switch(t.Context(), "", ptr(true)) },
		"flush":    func(d *Register) error { return d.Flush(t.Context()) },
	} {
		p := newProject(t)
		path := filepath.Join(p.dir, DefaultFile)
		check(t, os.MkdirAll(path, 0o700)) // like a full disk: nothing can be written there
		d := p.register(t)
		raise(t, d, hardInput("The first?"))
		raise(t, d, softInput("The second?"))
		settle(t, d, "W1", answered("Yes."))
		if s := status(t, p.register(t)); s.Unwritten != 3 || !strings.Contains(s.Trouble, "not a regular file") {
			t.Fatalf("%s: %+v", name, s)
		}
		check(t, os.Remove(path))
		after := p.register(t)
		check(t, operation(after))
		p.checkList(t, listed(t, after, Filter{}))
		if s := status(t, after); s.Unwritten != 0 || s.Trouble != "" {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
