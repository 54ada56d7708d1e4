package store

import (
	"errors"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

// A loop without bounds would never end.
func TestImportRefusesALoopWithoutBounds(t *testing.T) {
	t.Parallel()
	db := openTemp(t)
	w := newWorld(t, "id", epoch, spec("a"))
	w.commit(t, db)
	x, err := db.Export(t.Context(), "id")
	if err != nil {
		t.Fatal(err)
	}
	for loop, want := range map[boulder.Loop]bool{{}: false, {Iterations: 1}: true, {Iterations: 1, Failures: -1}: false} {
		x.Boulder.Loop = &loop
		if err := x.Check(); (err == nil) != want || err != nil && !errors.Is(err, ErrBadExport) {
			t.Errorf("%+v: %v", loop, err)
		}
	}
}
