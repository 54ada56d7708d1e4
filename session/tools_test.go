package session

import (
	"slices"
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

// Agents get the blocker tool while diverted, and a todo list only where OpenCode has none.
func TestWanted(t *testing.T) {
	t.Parallel()
	with, without := opencode.Caps{Todos: true}, opencode.Caps{}
	const blocker = "manager_blocker"
	for _, test := range []struct {
		diverter Diverter
		caps     opencode.Caps
		diverted bool
		want     []string
	}{
		{&ruler{}, with, false, nil},
		{&ruler{}, with, true, []string{blocker}},
		{&ruler{}, without, false, []string{opencode.TodoTool}},
		{&ruler{}, without, true, []string{blocker, opencode.TodoTool}},
		{nil, without, false, nil},
	} {
		if got := Wanted(test.diverter, test.caps, test.diverted); !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
