package control

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// roleEnv makes the test binary act as another process that serves, with the umask that it names.
const roleEnv = "MANAGER_CONTROL_TEST_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := play(role, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// play serves until its input ends.
func play(role, path string) error {
	switch role {
	case "umask-777":
		syscall.Umask(0o777)
	case "umask-0":
		syscall.Umask(0)
	}
	s, err := Serve(context.Background(), path, Holder{PID: os.Getpid(), Command: role}, &fake{}, nil)
	if err != nil {
		return err
	}
	fmt.Println("served")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return s.Close()
}

// otherProcess starts one that serves path, and returns a function that kills it.
func otherProcess(t *testing.T, role, path string) (kill func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], path)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = stdin.Close()
	}
	t.Cleanup(kill)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "served\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return kill
}
