package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/orphan"
	"github.com/bouldermgr/manager/store"
)

// processes are those that this command line starts and that must not outlive it. The zero value is ready to use.
type processes struct {
	mu           sync.Mutex
	registration *orphan.Registration // nil before the first start
}

// marked is the environment for what is started in a project: with the mark by which it is found if this process dies.
// Only where there is no state directory, and none is made (`doctor`, `plan -o`), is there no mark; neither of them has
// an agent run tools.
func (a *app) marked(project string) ([]string, error) {
	p := &a.processes
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.registration == nil {
		dir := filepath.Join(project, store.DirName)
		if !exists(dir) {
			return a.Environ, nil
		}
		r, err := orphan.Register(dir)
		if err != nil {
			return nil, err
		}
		p.registration = r
	}
	return append(a.Environ[:len(a.Environ):len(a.Environ)], p.registration.Env()), nil
}

// release ends what was started and still runs.
func (a *app) release() {
	p := &a.processes
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.registration == nil {
		return
	}
	if err := p.registration.Release(); err != nil {
		fmt.Fprintf(a.Stderr, "manager: %v\n", err)
	}
}

// sweep ends what a manager left behind in this project that was killed, before the command itself begins. It is no
// reason to refuse the command if that fails.
func (a *app) sweep(cmd *cobra.Command) {
	if strings.HasPrefix(cmd.Name(), "__") { // the shell asks for completions while a person types
		return
	}
	project, err := a.project()
	if err != nil {
		return // the command says so itself, if it needs one
	}
	swept, err := orphan.Sweep(filepath.Join(project, store.DirName))
	if err != nil {
		fmt.Fprintf(a.Stderr, "manager: %v\n", err)
	}
	if swept.Managers == 0 {
		return
	}
	if f, ok := fileOf(a.Stderr); ok && terminal(f) {
		fmt.Fprint(f, ansi.ShowCursor) // a live view that was killed has left it hidden
	}
	if swept.Processes > 0 {
		a.note("A manager was killed here and left %s running; ended now.", countOf(swept.Processes, "process", "processes"))
	}
}

func countOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
