// Package command runs what users configure: gates, tests, linters and notifications.
package command

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// drainTime is how long a process that left the command's group may keep the output open.
const drainTime = time.Second

// Shell is a shell command that [Run] kills with its process group when ctx ends. env nil: that of this process.
func Shell(ctx context.Context, dir string, env []string, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", "--", line)
	cmd.Dir, cmd.Env = dir, env
	return cmd
}

// Run runs a command, made with a context, in a process group of its own, and gives its stdout and stderr to output. What
// it leaves in the background is ended when the command itself has exited, and does not change how it ended. The error
// is an [*exec.ExitError] if the command failed or was killed; any other error says why it could not be started.
func Run(cmd *exec.Cmd, output io.Writer) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	killGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// With files for its output, Wait returns when the command has exited, whoever else holds the pipe.
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel, cmd.WaitDelay = killGroup, drainTime // for stdin that nobody reads
	err = cmd.Start()
	write.Close()
	if err != nil {
		return err
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(output, read)
	}()
	_ = cmd.Wait() // of what can go wrong here, only the command's own status counts
	_ = killGroup()
	_ = read.SetReadDeadline(time.Now().Add(drainTime))
	<-drained
	if !cmd.ProcessState.Success() {
		return &exec.ExitError{ProcessState: cmd.ProcessState}
	}
	return nil
}
