package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/store"
)

// pieces remembers what was written at once.
type pieces []string

func (p *pieces) Write(text []byte) (int, error) {
	*p = append(*p, string(text))
	return len(text), nil
}

// A long list is written in pieces. None of them ends within a line, where a secret would not be found.
func TestLongListIsWrittenInWholeLines(t *testing.T) {
	t.Parallel()
	var all pieces
	a := &app{Env: Env{Stdout: &all}}
	items := make([]store.Item, 2000)
	for i := range items {
		items[i].BoulderID = fmt.Sprint("boulder", i)
	}
	if err := view.List(a.on(a.Stdout), items, nil, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Errorf("it was written in %d pieces", len(all))
	}
	for _, p := range all {
		if !strings.HasSuffix(p, "\n") {
			t.Errorf("a piece ends with %q", p[max(0, len(p)-20):])
		}
	}
	lines := strings.Split(strings.TrimSuffix(strings.Join(all, ""), "\n"), "\n")
	if len(lines) != len(items) {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		if fields := strings.Fields(line); fields[0] != items[i].BoulderID {
			t.Fatalf("line %d is %q", i, line)
		}
	}
}
