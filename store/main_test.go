package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// roleEnv makes the test binary act as another process: only that shows the effects of a umask and a lock.
const roleEnv = "MANAGER_STORE_TEST_ROLE"

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

// play is the main function of that process.
func play(role, project string) error {
	if play := faultyRoles()[role]; play != nil {
		return play(project)
	}
	if role == "create-umask-777" {
		syscall.Umask(0o777)
	} else {
		syscall.Umask(0)
	}
	dir, err := EnsureDir(project)
	if err != nil {
		return err
	}
	db, err := Open(filepath.Join(dir, FileName), Options{})
	if err != nil {
		return err
	}
	_, err = db.Listing(context.Background())
	if err == nil {
		err = db.Close()
	}
	return err
}
