//go:build !linux

package store

import (
	"os"
	"testing"
)

// faultyRoles are the roles of which only Linux is known to show the fault to everybody.
func faultyRoles() map[string]func(string) error { return nil }

// asPlainUser skips a test that root would pass through.
func asPlainUser(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("permissions do not apply to root")
	}
	test(t)
}
