// Evening plays an evening of a new user: evening.sh drives manager in a terminal (tmux) and in a browser, in a project with
// what projects have, and keeps each screen, for a maintainer to look at. The model is that of `manager demo`.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

const demo = "cmd/internal/cli/demo"

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "evening:", err)
		os.Exit(1)
	}
}

// run is called in the repository, with the directory of the screens as the only argument.
func run() error {
	if len(os.Args) != 2 {
		return errors.New("use `make evening`")
	}
	repository, err := os.Getwd()
	if err != nil {
		return err
	}
	screens, err := filepath.Abs(os.Args[1])
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(repository, demo, "script.yaml"))
	if err != nil {
		return err
	}
	script, err := scriptmodel.ParseScript(data)
	if err != nil {
		return err
	}
	model, err := scriptmodel.Start(script.Reply)
	if err != nil {
		return err
	}
	defer model.Close()
	root, err := os.MkdirTemp("", "manager-evening-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(root) }() // what remains is in the system's temporary directory
	tools := filepath.Join(repository, "tools", "node_modules", ".bin")
	env := scriptmodel.OpenCodeEnv(os.Environ(), filepath.Join(root, "home"), model.URL())
	cmd := exec.Command(filepath.Join(repository, "bench", "evening", "evening.sh"), repository, root, screens)
	cmd.Env = append(slices.Clip(env), "PATH="+filepath.Join(repository, "bin")+":"+tools+":"+os.Getenv("PATH"),
		"MANAGER_OPENCODE="+filepath.Join(tools, "opencode"), "CLONE_HOME="+os.Getenv("HOME"), "MANAGER_EVENING_CACHE="+os.Getenv("GOCACHE"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
