package project

import (
	"sync"
	"testing"
)

// The user's git is opened again for each landing and redo, while other goroutines ask what it can do.
func TestFilesAreReopenedWhileTheyAreRead(t *testing.T) {
	t.Parallel()
	p, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.OpenWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if p.NoDiffs() == "" {
					t.Error("there are diffs outside of git")
				}
			}
		})
		all.Go(func() {
			if err := p.lockFiles(t.Context()); err != nil {
				t.Error(err)
				return
			}
			p.filesMu.Unlock()
		})
	}
	all.Wait()
}
