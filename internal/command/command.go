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

const drainTime = time.Second // for a process outside of the command's group that keeps the output open

// Shell returns a shell command for [Run], which kills its process group when ctx ends. A nil env: this process's. The
// command gets it as [Environ] returns it.
func Shell(ctx context.Context, dir string, env []string, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", "--", line)
	if env == nil {
		env = os.Environ()
	}
	cmd.Dir, cmd.Env = dir, Environ(env)
	return cmd
}

// Run runs a command, made with a context, in a process group of its own, and copies its stdout and stderr to output.
// Its background processes are killed when it exits, and do not change the result. The error is an [*exec.ExitError] if
// it failed or was killed; any other error says why it could not start.
func Run(cmd *exec.Cmd, output io.Writer) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	killGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// With a file as output, Wait returns when the command has exited, even if others hold the pipe.
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel, cmd.WaitDelay = killGroup, drainTime // in case its stdin is not drained
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
