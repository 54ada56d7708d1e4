package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

func (a *app) blockersInstallCommand() *cobra.Command {
	var global bool
	cmd := &cobra.Command{
		Use:   "install [flags]",
		Short: "Make /blockers a command of OpenCode",
		Long: `Writes a file with which /blockers becomes a command inside OpenCode: /blockers list, /blockers answer B7 Use
bcrypt, /blockers off, … do what ` + "`manager blockers`" + ` does, and /blockers clarify has the agent ask one
question after another. OpenCode sees it when it is started the next time.

The file is .opencode/command/blockers.md of the project. It leads back to this directory, so it is not for others: keep
it out of git. With --global it is written for all projects, into the directory of OpenCode's configuration; it then
works on the directory in which OpenCode was started.

A file of that name that is not of this command, or was changed by hand, is left alone.`,
		Example: `  manager blockers install
  manager blockers install --global`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			path, below, root, err := a.slashDir(global)
			if err == nil && global {
				err = os.MkdirAll(path, 0o755)
			}
			if err != nil {
				return err
			}
			return a.changeSlash(path, below, root, a.installSlash)
		},
	}
	cmd.Flags().BoolVar(&global, "global", false, "for all projects")
	return cmd
}

func (a *app) blockersUninstallCommand() *cobra.Command {
	var global bool
	cmd := &cobra.Command{
		Use:   "uninstall [flags]",
		Short: "Take /blockers away from OpenCode",
		Long: `Removes the file that ` + "`manager blockers install`" + ` has written. One that was changed by hand is left
alone. OpenCode sees it when it is started the next time.`,
		Example:           `  manager blockers uninstall`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			path, below, root, err := a.slashDir(global)
			if err != nil {
				return err
			}
			return a.changeSlash(path, below, root, (*slashPlace).remove)
		},
	}
	cmd.Flags().BoolVar(&global, "global", false, "the one for all projects")
	return cmd
}

// slashChange is what install and uninstall print with --json.
type slashChange struct {
	Type    string       `json:"type"` // blockers-command
	File    string       `json:"file"`
	Outcome slashOutcome `json:"outcome"`
}

// changeSlash does something to a command file, and says what came of it.
func (a *app) changeSlash(path, below, root string, do func(*slashPlace) (slashOutcome, error)) error {
	file, outcome := filepath.Join(path, below, slashDirs[0], slashName), slashAbsent
	place, err := openSlashPlace(path, below, root)
	if err == nil {
		defer place.close()
		outcome, err = do(place)
		file = place.file()
	} else if missing(err) { // there is no such directory, and so no file
		err = nil
	}
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(slashChange{"blockers-command", file, outcome})
	}
	switch outcome {
	case slashInstalled, slashUpdated:
		a.tell(fmt.Sprintf("Wrote %s. OpenCode has the command /blockers when it is started the next time.", file))
	case slashUnchanged:
		a.tell(fmt.Sprintf("%s is there already.", file))
	case slashRemoved:
		a.tell(fmt.Sprintf("Removed %s.", file))
	case slashAbsent:
		a.tell(fmt.Sprintf("There is no %s.", file))
	}
	return nil
}

// slashDir is a directory of OpenCode's configuration: path of the project, and what is below it, or the user's own,
// which may be a link to wherever they keep it. project is what the command works on, if that does not depend.
func (a *app) slashDir(global bool) (path, below, root string, err error) {
	if !global {
		root, err = a.project()
		return root, ".opencode", root, err
	}
	base := a.Getenv("XDG_CONFIG_HOME")
	if base == "" && a.Getenv("HOME") != "" {
		base = filepath.Join(a.Getenv("HOME"), ".config")
	}
	if base == "" {
		return "", "", "", usagef("neither HOME nor XDG_CONFIG_HOME is set, so that OpenCode's configuration cannot be found")
	}
	return filepath.Join(base, "opencode"), "", "", nil
}

// installSlash writes the command file.
func (a *app) installSlash(p *slashPlace) (slashOutcome, error) {
	program, err := a.slashProgram()
	if err != nil {
		return "", err
	}
	return p.install(program)
}

// slashProgram is how a shell of OpenCode's finds this program: by its name where that leads to it, which then may be
// updated or moved, or else by its path.
func (a *app) slashProgram() (string, error) {
	found, err := exec.LookPath("manager")
	if err == nil && (a.Executable == "" || sameFile(found, a.Executable)) {
		return "manager", nil
	}
	if a.Executable == "" {
		return "", errors.New("it cannot be found out where this program is: put manager into a directory of $PATH")
	}
	return filepath.Abs(a.Executable)
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// missing reports whether an error says that something is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
