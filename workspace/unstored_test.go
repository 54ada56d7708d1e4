package workspace_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// What git cannot store of a slot is named, holds nothing up, and is not removed with the slot.
func TestWhatASlotCannotStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work  func(in repo)
		names string   // what the error has; empty: all is stored
		has   []string // files of the commit, with what they contain
		kept  bool     // the slot has files that are nowhere else
	}{
		"a file as a repository": {
			work: func(in repo) { in.remove("f"); in.write("f/x", "x"); repo{t, in.path("f")}.git("init", "-q") },
			has:  []string{"f/x", "x"},
		},
		"a link as a repository": {
			work: func(in repo) { in.remove("l"); in.write("l/x", "x"); repo{t, in.path("l")}.git("init", "-q") },
			has:  []string{"l/x", "x"},
		},
		"a name of git's": {
			work:  func(in repo) { in.write("a/.GIT/x", "x"); in.write("fine", "fine") },
			names: "a/.GIT/x (git accepts no such name)", has: []string{"fine", "fine"}, kept: true,
		},
		"a name of git's in a repository": {
			work: func(in repo) {
				in.write("v/git~1", "x")
				in.write("v/z", "z")
				repo{t, in.path("v")}.git("init", "-q")
				in.write("fine", "fine")
			},
			names: "v/ (a repository", has: []string{"fine", "fine"}, kept: true,
		},
		"an encoding that does not fit": {
			work: func(in repo) {
				in.write(".gitattributes", "*.u working-tree-encoding=UTF-16\n")
				in.write("a.u", "no mark")
				in.write("fine", "fine")
			},
			names: "a.u (working-tree-encoding=UTF-16", has: []string{"fine", "fine", "a.u", "no mark"},
		},
		"a filter that fails": {
			work: func(in repo) {
				in.write(".gitattributes", "* filter=broken\n")
				in.write("f", "2") // of the size that it had
				in.write("v/a.u", "raw")
				repo{t, in.path("v")}.git("init", "-q")
			},
			names: "v/a.u (filter=broken", has: []string{"f", "2", "v/a.u", "raw"},
		},
		"a directory that cannot be read": {
			work: func(in repo) {
				in.write("d/closed/x", "x")
				in.write("fine", "fine")
				must(t, os.Chmod(in.path("d/closed"), 0))
			},
			names: "d/closed/ (permission denied)", has: []string{"fine", "fine"}, kept: true,
		},
		"nothing but a directory that cannot be read": {
			work:  func(in repo) { in.write("closed/x", "x"); must(t, os.Chmod(in.path("closed"), 0)) },
			names: "closed/ (permission denied)", has: []string{"f", "1"}, kept: true,
		},
		"a huge file": {
			work: func(in repo) {
				in.write("data/huge", "")
				must(t, os.Truncate(in.path("data/huge"), 60<<30))
				in.write("fine", "fine")
			},
			names: "data/huge (61440 MiB", has: []string{"fine", "fine"}, kept: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() == 0 && strings.Contains(name, "cannot be read") {
				t.Skip("root can read all")
			}
			l := newLine(t, "f", "1")
			t.Cleanup(func() { _, _ = command("chmod", "-R", "u+rwx", l.dir) })
			must(t, os.Symlink("f", l.path("l")))
			l.commit()
			for key, value := range map[string]string{"clean": "false", "smudge": "false", "required": "true"} {
				l.git("config", "filter.broken."+key, value)
			}
			base := strings.TrimSpace(l.git("rev-parse", "HEAD"))
			l.git("config", "core.trustctime", "false")
			s, in := l.prepare(1, "x", 1, base)
			moment := time.Now().Add(-time.Hour).Truncate(time.Second)
			must(t, os.Chtimes(in.path("f"), moment, moment))
			refresh := exec.Command("git", "update-index", "--refresh")
			refresh.Env = append(os.Environ(), "GIT_DIR="+l.path(".git"), "GIT_WORK_TREE="+in.dir, "GIT_INDEX_FILE="+in.dir+".index")
			must(t, refresh.Run())
			c.work(in)
			// All in one moment: git then has to compare the contents.
			if _, err := os.Stat(in.path("f")); err == nil {
				must(t, os.Chtimes(in.path("f"), moment, moment))
			}
			must(t, os.Chtimes(in.dir+".index", moment, moment))
			commit, _, err := s.Capture(t.Context(), "")
			switch _, partly := errors.AsType[*boulder.UnstoredError](err); {
			case c.names == "":
				must(t, err)
			case !partly || !strings.Contains(err.Error(), c.names):
				t.Errorf("the error is %v, and names no %s", err, c.names)
			}
			for i := 0; i < len(c.has); i += 2 {
				if got := l.git("show", commit+":"+c.has[i]); got != c.has[i+1] {
					t.Errorf("%s is captured as %q", c.has[i], got)
				}
			}
			var kept []string
			l.slots.OnKept = func(dir string, _ []string) { kept = append(kept, dir) }
			if _, next := l.prepare(1, "x", 1, commit); next.read(c.has[0]) != c.has[1] { // also what a filter refuses
				t.Errorf("the sub-task goes on with %s as %q", c.has[0], next.read(c.has[0]))
			}
			if _, next := l.prepare(1, "y", 1, base); next.read("f") != "1" || next.git("status", "--porcelain") != "" {
				t.Errorf("the next sub-task has %q, %s", next.read("f"), next.git("status", "--porcelain"))
			}
			must(t, l.slots.Free(t.Context(), "b", base, false, func(string) bool { return true }))
			left := l.slots.KeptAside()
			if c.kept != (len(left) == 1) || len(left) != len(kept) {
				t.Errorf("kept: %v, told: %v", left, kept)
			}
		})
	}
}
