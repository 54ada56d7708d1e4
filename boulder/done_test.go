package boulder

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// decomposeDone starts a boulder of two sub-tasks with these completion criteria.
func decomposeDone(settings Settings, plan []string, first, second Spec) (*State, error) {
	s := NewState()
	first.ID, second.ID = "first", "second"
	rev := PlanRevision{Number: 1, Plan: Plan{DoneWhen: plan, SubTasks: []Spec{first, second}}}
	for _, body := range []Body{
		Created{Boulder: Boulder{ID: "b1", Settings: settings}}, Planned{Plan: rev}, Decomposed{Plan: rev, GatesApproved: true},
	} {
		if _, err := s.Apply(Event{Time: epoch, BoulderID: "b1", Body: body}); err != nil {
			return s, err
		}
	}
	return s, s.Check()
}

// TestDoneWhen: criteria of the sub-task override those of the plan, which override those of the run. Commands behind a
// criterion become gates of the sub-tasks that have it, once each.
func TestDoneWhen(t *testing.T) {
	t.Parallel()
	checks := Checks{Tests: []string{"go test ./...", "npm test"}, Lint: []string{"go vet ./...", "make lint"}}
	for name, test := range map[string]struct {
		run, plan, own []string
		spec           Spec
		byDefault      bool
		want           []string
		noWorse, lint  []string
	}{
		"nothing said": {},
		"the run":      {run: []string{"tests"}, want: []string{"tests"}, noWorse: checks.Tests},
		"the plan":     {run: []string{"tests"}, plan: []string{"todos"}, want: []string{"todos"}},
		"nobody names any": {
			run: []string{"diagnostics", "tests"}, byDefault: true, spec: Spec{Gates: []string{"make lint"}},
			want: []string{"diagnostics", "tests"}, noWorse: []string{"go test ./...", "npm test", "go vet ./..."},
		},
		"by the plan not by default": {
			run: []string{"diagnostics", "tests"}, byDefault: true, plan: []string{"diagnostics"}, want: []string{"diagnostics"}, lint: checks.Lint,
		},
		"the sub-task": {
			run: []string{"tests"}, plan: []string{"todos"}, own: []string{"diagnostics", "judge"},
			want: []string{"diagnostics", "judge"}, lint: checks.Lint,
		},
		"commands that are gates already": {
			own: []string{"tests", "diagnostics"}, want: []string{"tests", "diagnostics"},
			spec:    Spec{Gates: []string{"npm test"}, NoWorse: []string{"make lint"}},
			noWorse: []string{"make lint", "go test ./..."}, lint: []string{"go vet ./..."},
		},
	} {
		test.spec.DoneWhen, checks.Default = test.own, test.byDefault
		s, err := decomposeDone(Settings{DoneWhen: test.run, Checks: checks}, test.plan, test.spec, Spec{DoneWhen: []string{"judge"}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, other := s.SubTask("first"), s.SubTask("second")
		if !slices.Equal(got.DoneWhen, test.want) || !slices.Equal(got.NoWorse, test.noWorse) || !slices.Equal(got.Lint, test.lint) {
			t.Errorf("%s: done when %v, no worse %v, lint %v", name, got.DoneWhen, got.NoWorse, got.Lint)
		}
		strict := slices.Contains(test.want, "diagnostics") && len(test.plan)+len(test.own) > 0
		if inherits := len(got.Spec().DoneWhen) > 0; got.DoneNeeds(DoneDiagnostics) != strict || inherits != (len(test.want) > 0 && !test.byDefault || strict) {
			t.Errorf("%s: the language server decides: %v; a replan takes the criteria over: %v", name, got.DoneNeeds(DoneDiagnostics), inherits)
		}
		if len(other.NoWorse)+len(other.Lint) > 0 {
			t.Errorf("%s: one that only the judge decides about has %v and %v", name, other.NoWorse, other.Lint)
		}
	}
}

func TestDoneWhenRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		settings Settings
		words    []string
		want     string
	}{
		"tests without a command": {words: []string{"tests"}, want: "no command is known"},
		"an unknown word":         {words: []string{"green"}, want: `"green"`},
		"a loop without a turn":   {settings: Settings{Loop: &Loop{}}, want: "at least one iteration"},
		"a loop with bounds below zero": {
			settings: Settings{Loop: &Loop{Iterations: 1, Cooldown: -time.Second}}, want: "below zero",
		},
	} {
		_, err := decomposeDone(test.settings, nil, Spec{DoneWhen: test.words}, Spec{})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
