package workspace_test

import (
	"fmt"
	"testing"
)

// Two snapshots and a diff are what an attempt costs. Compare with a `git status` of the same repository.
func BenchmarkSnapshot(b *testing.B) {
	for _, files := range []int{50, 5000} {
		r := newRepo(b)
		for i := range files {
			r.write(fmt.Sprintf("d%d/f%d", i%50, i), fmt.Sprintln(i))
		}
		r.commit()
		r.write("new", "1")
		w := r.open("")
		b.Run(fmt.Sprintf("files=%d", files), func(b *testing.B) {
			for b.Loop() {
				snapshot(b, w)
			}
		})
		b.Run(fmt.Sprintf("files=%d/git-status", files), func(b *testing.B) {
			for b.Loop() {
				r.git("status", "--porcelain")
			}
		})
	}
}

func BenchmarkDiff(b *testing.B) {
	r := newRepo(b)
	r.write("a", "1\n")
	r.commit()
	w := r.open("")
	before := snapshot(b, w)
	r.write("a", "2\n")
	after := snapshot(b, w)
	for b.Loop() {
		if _, err := w.Diff(b.Context(), before, after, nil); err != nil {
			b.Fatal(err)
		}
	}
}
