package workspace

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
)

// modes are the permissions of files, by their paths from the top of the work tree. git knows only whether one may be executed.
type modes map[string]fs.FileMode

// modesTrailer has the modes of files before a landing, in the commit that an undo begins with.
const modesTrailer = "Manager-Modes"

// executable is what git knows of a mode.
const executable fs.FileMode = 0o100

// modesIn returns the modes of the files that changes replace or remove.
func modesIn(root *os.Root, changes []Change) modes {
	all := modes{}
	for _, c := range changes {
		if info := look(root, c.Path); info != nil && info.Mode().IsRegular() {
			all[c.Path] = info.Mode().Perm()
		}
	}
	return all
}

func (m modes) String() string {
	line, _ := json.Marshal(m) // a map of strings and numbers
	return string(line)
}

// modesOf reads the modes in a commit; none if it has none.
func (s *Slots) modesOf(ctx context.Context, commit string) (m modes, err error) {
	line, err := s.project.git.line(ctx, "log", "-1", "--no-show-signature", "--no-color",
		"--format=%(trailers:key="+modesTrailer+",valueonly,unfold)", commit)
	if err == nil && line != "" {
		err = json.Unmarshal([]byte(line), &m)
	}
	return m, err
}

// mode returns the mode of a file that is written: as it is there, or was before if it comes back, as far as git's says the same
// of whether it may be executed.
func (p *placing) mode(name string, staged fs.FileInfo) fs.FileMode {
	is := staged.Mode().Perm()
	was, there := p.found[name]
	there = there && was != nil && was.Mode().IsRegular()
	if there && was.Mode()&executable == is&executable {
		return was.Mode().Perm()
	}
	if before, known := p.modes[name]; known && before&executable == is&executable {
		return before.Perm()
	}
	switch {
	case !there:
		return is
	case is&executable == 0:
		return was.Mode().Perm() &^ 0o111
	default:
		perm := was.Mode().Perm()
		return perm | perm&0o444>>2
	}
}
