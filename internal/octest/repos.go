package octest

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Repos are repositories that tests use one after the other: OpenCode takes two seconds of a processor for the first
// session in one.
type Repos struct {
	Home  string            // where they are made; symbolic links are resolved in it
	Files map[string]string // of their one commit

	mu   sync.Mutex
	made int
	free []string
}

// Take gives a repository that no other test uses at the same time.
func (r *Repos) Take(tb testing.TB) string {
	tb.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.free); n > 0 {
		dir := r.free[n-1]
		r.free = r.free[:n-1]
		return dir
	}
	r.made++
	dir := filepath.Join(r.Home, fmt.Sprint("project", r.made))
	if err := os.Mkdir(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	commit(tb, dir, r.Files)
	return dir
}

// Give takes a repository back in which nothing runs any more; its files are as they were.
func (r *Repos) Give(tb testing.TB, dir string) {
	tb.Helper()
	Git(tb, dir, "reset", "--quiet", "--hard")
	Git(tb, dir, "clean", "--quiet", "-fdx")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = append(r.free, dir)
}
