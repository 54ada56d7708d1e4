// Package awake keeps the machine from going to sleep by itself.
package awake

import (
	"context"
	"os/exec"
	"runtime"
)

// program returns the command line that runs another with the machine kept awake, or nil.
func program(lookPath func(string) (string, error)) []string {
	switch runtime.GOOS {
	case "darwin":
		if path, err := lookPath("caffeinate"); err == nil {
			return []string{path, "-i"}
		}
	case "linux":
		if path, err := lookPath("systemd-inhibit"); err == nil {
			return []string{path, "--what=idle:sleep", "--who=manager", "--why=Agents are at work.", "--mode=block"}
		}
	}
	return nil
}

// By returns the program that keeps this machine awake, tried out, or "".
func By(ctx context.Context) string {
	with := program(exec.LookPath)
	if with == nil || exec.CommandContext(ctx, with[0], append(with[1:], "true")...).Run() != nil {
		return ""
	}
	return with[0]
}

// Keep keeps the machine awake until release is called or this process ends, where that is possible.
func Keep() (release func()) {
	with := program(exec.LookPath)
	if with == nil {
		return func() {}
	}
	cmd := exec.Command(with[0], append(with[1:], "cat")...)
	end, err := cmd.StdinPipe() // which ends cat, however this process ends
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return func() {}
	}
	return func() {
		_ = end.Close()
		_ = cmd.Wait() // it may have failed at once, as without systemd
	}
}
