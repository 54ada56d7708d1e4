//go:build !linux

package store

import (
	"os"
	"testing"
)

// faultyRoles is empty: only Linux is known to let every user cause the faults.
func faultyRoles() map[string]func(string) error { return nil }

// asPlainUser skips the test for root, to whom permissions do not apply.
func asPlainUser(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("permissions do not apply to root")
	}
	test(t)
}
