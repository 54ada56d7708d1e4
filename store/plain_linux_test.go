package store

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// asPlainUser runs a test whose files are not those of its user, and to whom permissions apply: root becomes nobody, as far
// as files go, on one thread that ends with the test.
func asPlainUser(t *testing.T, test func(*testing.T)) {
	t.Helper()
	if os.Geteuid() != 0 {
		test(t)
		return
	}
	const nobody = 65534
	dir := t.TempDir()
	for d := dir; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("nobody", func(t *testing.T) {
		runtime.LockOSThread() // and never unlocked: the thread must not be used again
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
		test(t)
	})
}
