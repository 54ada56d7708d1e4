package session

import (
	"slices"
	"testing"

	"github.com/bouldermgr/manager/boulder"
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

type listener struct {
	Diverter
	calls int
}

func (l *listener) Called(boulder.BlockerCall) { l.calls++ }

// Only a running call waits for its session: an ended one that is shown again must not be matched to another call.
func TestCalled(t *testing.T) {
	t.Parallel()
	for state, want := range map[opencode.ToolState]int{
		opencode.ToolPending: 0, opencode.ToolRunning: 1, opencode.ToolCompleted: 0, opencode.ToolError: 0,
	} {
		l := &listener{}
		p := opencode.Part{Tool: &opencode.ToolCall{Tool: boulder.BlockerTool, State: state}}
		ended, err := (&StandIn{Diverter: l}).Called(t.Context(), p)
		if err != nil || ended != state.Ended() || l.calls != want {
			t.Errorf("%s: %v, %v, announced %d times", state, ended, err, l.calls)
		}
	}
}
