// Command manager splits a task into sub-tasks and gets them done by OpenCode sessions.
package main

import (
	"os"

	"github.com/bouldermgr/manager/cmd/internal/cli"
)

func main() {
	program, _ := os.Executable() // if empty, commands that start a background process report it
	os.Exit(cli.Main(cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Environ(), Signals: cli.Signals(), Executable: program,
	}))
}
