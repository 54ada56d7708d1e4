package limiter

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// world is a limiter in the SDK's test environment: no server, and time jumps to the next timer.
type world struct {
	*testsuite.TestWorkflowEnvironment
	t       *testing.T
	mu      sync.Mutex // signals are sent concurrently
	granted []string   // <boulder><id>, in order
	over    []Permit   // permits whose boulder has ended
}

func newWorld(t *testing.T, f found) *world {
	suite := new(testsuite.WorkflowTestSuite)
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	w := &world{TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t}
	w.RegisterWorkflowWithOptions(run, workflow.RegisterOptions{Name: workflowType})
	w.RegisterActivity(rebuild)
	w.OnActivity(rebuild, mock.Anything, "m").Return(f, nil).After(time.Second).Maybe()
	w.OnActivity(ended, mock.Anything, mock.Anything).Return(func(context.Context, []Permit) ([]Permit, error) {
		return w.over, nil
	}).Maybe()
	w.OnSignalExternalWorkflow(mock.Anything, "gone", "", mock.Anything, mock.Anything).Return(errors.New("not found")).Maybe()
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, "", mock.Anything, mock.Anything).Return(
		func(_, boulder, _, signal string, _ any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.granted = append(w.granted, boulder+strings.TrimPrefix(signal, grantSignal("")))
			return nil
		}).Maybe()
	return w
}

func p(name string) Permit { return Permit{Boulder: name[:1], Run: "r", ID: name[1:]} }

// at sends requests ("a1") and releases ("-a1") at a time after the start.
func (w *world) at(after time.Duration, limit int, names ...string) {
	w.RegisterDelayedCallback(func() {
		for _, name := range names {
			if name, release := strings.CutPrefix(name, "-"); release {
				w.SignalWorkflow(releaseSignal, p(name))
			} else {
				w.SignalWorkflow(requestSignal, request{p(name), limit})
			}
		}
	}, after)
}

func (w *world) expect(after time.Duration, granted string) {
	w.RegisterDelayedCallback(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if got := strings.Join(w.granted, " "); got != granted {
			w.t.Errorf("granted after %s: %q; want %q", after, got, granted)
		}
	}, after)
}

func (w *world) run(s State) {
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Hour)
	w.ExecuteWorkflow(workflowType, s)
}

func TestBouldersTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, found{})
	w.at(0, 1, "a1", "a2", "a3", "b1", "a2", "b2") // during the rebuild
	w.expect(500*time.Millisecond, "")
	w.expect(2*time.Second, "a1")
	w.at(3*time.Second, 1, "a1") // repeated: granted again, still held once
	w.at(4*time.Second, 1, "-a1")
	w.at(5*time.Second, 1, "-a3") // withdrawn while waiting: both turns go to b
	w.at(6*time.Second, 1, "-a2")
	w.at(7*time.Second, 1, "-b1")
	w.expect(8*time.Second, "a1 a1 a2 b1 b2")
	w.at(9*time.Second, 1, "-b2", "a4")
	w.run(State{Model: "m"})
	if got := strings.Join(w.granted, " "); got != "a1 a1 a2 b1 b2 a4" {
		t.Errorf("granted: %q", got)
	}
}

// A set cap applies at once. Before it, and after Unset, the cap is that of the boulders' configuration.
func TestSetCap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, found{})
	w.at(2*time.Second, 1, "a1", "a2", "a3", "b1")
	w.expect(3*time.Second, "a1")
	w.RegisterDelayedCallback(func() { w.UpdateWorkflowNoRejection(setCapUpdate, "", t, 2, time.Time{}) }, 3*time.Second)
	w.expect(4*time.Second, "a1 a2")
	w.RegisterDelayedCallback(func() { w.UpdateWorkflowNoRejection(setCapUpdate, "", t, 3, time.Time{}) }, 4*time.Second)
	w.expect(5*time.Second, "a1 a2 b1")
	w.at(5*time.Second, 9, "b2")
	w.RegisterDelayedCallback(func() {
		w.UpdateWorkflow(setCapUpdate, "", &testsuite.TestUpdateCallback{
			OnAccept: func() { t.Error("a cap of -2 is accepted") }, OnReject: func(error) {}, OnComplete: func(any, error) {},
		}, -2, time.Time{})
	}, 6*time.Second)
	w.expect(7*time.Second, "a1 a2 b1")
	w.RegisterDelayedCallback(func() { w.UpdateWorkflowNoRejection(setCapUpdate, "", t, Unset, time.Time{}) }, 7*time.Second)
	w.run(State{Model: "m"})
	if got := strings.Join(w.granted, " "); got != "a1 a2 b1 a3 b2" {
		t.Errorf("granted: %q", got)
	}
}

// A boulder that ended without a release loses its permits. One that cannot be signalled gets none.
func TestHoldersThatEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, found{})
	w.over = []Permit{p("a1")}
	w.at(2*time.Second, 1, "a1")
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(requestSignal, request{Permit{Boulder: "gone", ID: "1"}, 1})
		w.SignalWorkflow(requestSignal, request{p("b1"), 1})
	}, 3*time.Second)
	w.expect(SweepEvery, "a1")
	w.expect(SweepEvery+5*time.Second, "a1 b1")
	w.run(State{Model: "m"})
	if len(w.granted) != 2 {
		t.Errorf("granted: %q", w.granted)
	}
}

// After a rebuild the permits of the terminated limiter count, and its waiting requests are granted.
func TestRebuild(t *testing.T) {
	t.Parallel()
	set := 2
	w := newWorld(t, found{
		Cap: &set, Held: []Permit{p("a1"), p("b1")}, Waiting: []request{{p("b2"), 9}}, Unasked: []string{"c"},
	})
	w.at(0, 9, "a2")
	w.RegisterDelayedCallback(func() {
		var s Status
		answer, err := w.QueryWorkflow(statusQuery)
		if err != nil || answer.Get(&s) != nil {
			t.Fatal(err)
		}
		if s.Cap != 2 || len(s.Held) != 2 || !slices.Equal(s.Waiting, []Permit{p("b2"), p("a2")}) || s.Unasked[0] != "c" {
			t.Errorf("after it was rebuilt: %+v", s)
		}
	}, 2*time.Second)
	w.expect(2*time.Second, "")
	w.at(3*time.Second, 9, "-a1")
	w.expect(4*time.Second, "b2")
	w.run(State{Model: "m"})
	if len(w.granted) != 1 {
		t.Errorf("granted: %q", w.granted)
	}
}

// A long history continues as a new run, which has the whole state and asks no boulder.
func TestContinueAsNew(t *testing.T) {
	t.Parallel()
	first := newWorld(t, found{})
	first.at(2*time.Second, 1, "a1", "a2", "b1", "a3")
	first.RegisterDelayedCallback(func() { first.SetContinueAsNewSuggested(true) }, 3*time.Second)
	first.at(4*time.Second, 1, "-a1")
	first.run(State{Model: "m"})
	next, ok := errors.AsType[*workflow.ContinueAsNewError](first.GetWorkflowError())
	if !ok {
		t.Fatalf("it ends with %v", first.GetWorkflowError())
	}
	var s State
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &s); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, found{Held: []Permit{p("x1")}}) // a rebuild would take this over
	w.at(time.Second, 1, "-a2")
	w.at(2*time.Second, 1, "-b1")
	w.run(s)
	if got := strings.Join(append(first.granted, w.granted...), " "); got != "a1 a2 b1 a3" {
		t.Errorf("granted: %q", got)
	}
}
