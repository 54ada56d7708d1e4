//go:build !linux

package store

import (
	"os"
	"testing"
)

// asPlainUser skips a test that root would pass through.
func asPlainUser(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if os.Geteuid() == 0 {
		t.Skip("permissions do not apply to root")
	}
	test(t)
}
