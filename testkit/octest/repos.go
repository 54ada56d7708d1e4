package octest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

// Repos is a pool of repositories: the first session in one costs OpenCode two seconds of CPU.
type Repos struct {
	Home  string            // parent directory, with symbolic links resolved
	Files map[string]string // content of the one commit, by path

	mu   sync.Mutex
	made int
	free []string
}

// Take returns a repository that no other test uses meanwhile.
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

// Give returns a repository to the pool: it deletes the sessions and resets the files.
func (r *Repos) Give(ctx context.Context, tb testing.TB, d *opencode.Directory) {
	tb.Helper()
	all, err := d.Sessions(ctx, opencode.SessionFilter{})
	for _, s := range all {
		err = errors.Join(err, d.Abort(ctx, s.ID))
		if deleteErr := d.DeleteSession(ctx, s.ID); !errors.Is(deleteErr, opencode.ErrNotFound) { // with its parent
			err = errors.Join(err, deleteErr)
		}
	}
	if err != nil {
		tb.Errorf("cannot clear the repository: %v", err)
		return
	}
	dir := d.Path()
	Git(tb, dir, "reset", "--quiet", "--hard")
	Git(tb, dir, "clean", "--quiet", "-fdx")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.free = append(r.free, dir)
}
