// Command manager splits a task into sub-tasks and gets them done by OpenCode sessions.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/bouldermgr/manager/internal/cli"
)

func main() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A reader of stdout or stderr that goes away (`manager run | head`) must not take the run with it.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(cli.Main(cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Environ(), Signals: signals,
	}))
}
