package blockers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A place outside of the project, or among git's and manager's own files, is refused before anything is written.
func TestPlacesThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"/etc/passwd", "../blockers.md", "a/../../blockers.md", "..", ".", "./", "notes/", "a\x00b", "a\nb", ".git/hooks/pre-push",
		"a/.git/config", ".GIT/config", ".manager/blockers.md", "./.manager/x",
	} {
		cfg := newProject(t).config()
		cfg.File = name
		if _, err := Open(cfg); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("open blockers: the list %q: ", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, missing := range []func(*Config){func(c *Config) { c.Path = "" }, func(c *Config) { c.Root = "" }} {
		cfg := newProject(t).config()
		missing(&cfg)
		if _, err := Open(cfg); err == nil {
			t.Error("opened without a place")
		}
	}
}

// A place in a directory of the project is made.
func TestListInADirectory(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	for _, name := range []string{"notes/night/list.md", "./notes/night/../night/list.md"} {
		raise(t, p.desk(t, func(c *Config) { c.File = name }), hardInput("For "+name+"?"))
	}
	data, err := os.ReadFile(filepath.Join(p.dir, "notes", "night", "list.md"))
	if err != nil || strings.Count(string(data), "- [ ] ") != 2 || p.file(t) != "" {
		t.Errorf("%v, %s", err, data)
	}
}

// What is put in the list's place does not lead the text elsewhere and does not stop anything: links to files in and
// outside of the project, dangling ones, links on the way, and what is no file. The item waits, and is written when the
// place is free.
func TestWhatLiesInThePlace(t *testing.T) {
	t.Parallel()
	const name = "notes/" + DefaultFile
	for what, put := range map[string]func(dir, outside string) error{
		"a link out of the project": func(dir, outside string) error {
			return os.Symlink(filepath.Join(outside, "victim"), filepath.Join(dir, name))
		},
		"a link within the project": func(dir, _ string) error { return os.Symlink("../victim", filepath.Join(dir, name)) },
		"a dangling link":           func(dir, _ string) error { return os.Symlink("../made", filepath.Join(dir, name)) },
		"a link to a directory":     func(dir, _ string) error { return os.Symlink("..", filepath.Join(dir, name)) },
		"a directory":               func(dir, _ string) error { return os.Mkdir(filepath.Join(dir, name), 0o700) },
		"a pipe":                    func(dir, _ string) error { return makePipe(filepath.Join(dir, name)) },
		"a pipe that is read": func(dir, _ string) error {
			if err := makePipe(filepath.Join(dir, name)); err != nil {
				return err
			}
			reader, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
			if err == nil {
				t.Cleanup(func() { reader.Close() })
			}
			return err
		},
		"a link on the way": func(dir, outside string) error {
			if err := os.Remove(filepath.Join(dir, "notes")); err != nil {
				return err
			}
			return os.Symlink(outside, filepath.Join(dir, "notes"))
		},
		"a link on the way, within": func(dir, _ string) error {
			if err := os.Remove(filepath.Join(dir, "notes")); err != nil {
				return err
			}
			return os.Symlink(".", filepath.Join(dir, "notes"))
		},
		"a file on the way": func(dir, _ string) error {
			if err := os.Remove(filepath.Join(dir, "notes")); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, "notes"), nil, 0o600)
		},
		"too large a file": func(dir, _ string) error {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(filepath.Join(dir, name), maxFile+1)
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			p, outside := newProject(t), t.TempDir()
			d := p.desk(t, func(c *Config) { c.File = name })
			victims := []string{filepath.Join(p.dir, "victim"), filepath.Join(outside, "victim"), filepath.Join(outside, DefaultFile)}
			for _, v := range victims {
				if err := os.WriteFile(v, []byte("mine\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(filepath.Join(p.dir, "notes"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := put(p.dir, outside); err != nil {
				t.Skip("this system has no such thing: ", err)
			}
			raise(t, d, hardInput("Which?"))
			if s := status(t, d); s.Unwritten != 1 || s.Trouble == "" || strings.Contains(s.Trouble, FileName) {
				t.Errorf("what is wrong with the list is not told as such: %+v", s)
			}
			for _, v := range victims {
				if data, err := os.ReadFile(v); err != nil || string(data) != "mine\n" {
					t.Errorf("%s: %q, %v", v, data, err)
				}
			}
			for _, made := range []string{filepath.Join(p.dir, "made"), filepath.Join(p.dir, DefaultFile)} {
				if _, err := os.Lstat(made); err == nil {
					t.Errorf("%s was made", made)
				}
			}
			if err := os.RemoveAll(filepath.Join(p.dir, "notes")); err != nil {
				t.Fatal(err)
			}
			if s := status(t, d); s.Unwritten != 0 || s.Trouble != "" {
				t.Errorf("in the end: %+v", s)
			}
		})
	}
}

// A link that is put there at any moment, also between the look and the opening, is not followed.
func TestListIsReplacedWhileItIsOpened(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"committed 1", "appending 1", "looked 1"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			p := newProject(t)
			path, victim := filepath.Join(p.dir, DefaultFile), filepath.Join(p.dir, "victim")
			if err := os.WriteFile(victim, []byte("mine\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			d := p.desk(t)
			times := map[string]int{}
			d.failpoint = func(step string) {
				times[step]++
				if step == "committed" { // it is a file, until it is none
					if err := os.RemoveAll(path); err != nil {
						t.Error(err)
					}
					p.write(t, "# Mine\n")
				}
				if fmt.Sprint(step, " ", times[step]) != at {
					return
				}
				if err := errors.Join(os.Remove(path), os.Symlink("victim", path)); err != nil {
					t.Error(err)
				}
			}
			for range 2 {
				clear(times)
				raise(t, d, hardInput("Which?"))
				if data, err := os.ReadFile(victim); err != nil || string(data) != "mine\n" {
					t.Errorf("%q, %v", data, err)
				}
				p.clock.pass(time.Minute)
			}
			if s := status(t, p.desk(t)); s.Unwritten != 2 || s.Trouble == "" {
				t.Errorf("%+v", s)
			}
		})
	}
}
