package octest_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/bouldermgr/manager/testkit/octest"
)

// leaveVar makes the test binary start a long process and die, as at go test's time limit.
const leaveVar = "OCTEST_LEAVE"

func TestMain(m *testing.M) {
	octest.Guard()
	if os.Getenv(leaveVar) == "" {
		os.Exit(m.Run())
	}
	left := exec.Command("sleep", "600")
	left.Stdout = os.Stdout
	if err := left.Start(); err != nil {
		panic(err)
	}
	panic("test timed out")
}

// TestGuard would fail if what a test binary started outlived it.
func TestGuard(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), leaveVar+"=1")
	out, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout = inherited
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inherited.Close()
	deadline, _ := ctx.Deadline()
	if err := out.SetReadDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil { // until no process holds the other end
		t.Errorf("what the dead test binary started is alive: %v", err)
	}
	if exit := cmd.Wait(); !errors.As(exit, new(*exec.ExitError)) {
		t.Errorf("the test binary ended with %v", exit)
	}
}
