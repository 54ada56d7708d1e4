package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// roundTrip sends an error through JSON twice.
func roundTrip(t *testing.T, err error) error {
	t.Helper()
	for range 2 {
		data, failed := json.Marshal(Of(err))
		var f *Fault
		if failed == nil {
			failed = json.Unmarshal(data, &f)
		}
		if failed != nil {
			t.Fatal(failed)
		}
		err = f.Err()
	}
	return err
}

// TestCarried: a carried error has the same message, and errors.Is and errors.As find the same in it.
func TestCarried(t *testing.T) {
	t.Parallel()
	if err := roundTrip(t, nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	gate := boulder.Gate{Command: "npm ci", ExitCode: 1, Output: "no network", Duration: time.Second, Failing: []string{"a"}}
	all := []error{
		errors.New("of nothing that is known"),
		&boulder.TroubleError{Kind: boulder.TroubleRateLimit, Model: "p/m", RetryAfter: time.Minute, Err: errors.New("429")},
		&boulder.TroubleError{Kind: boulder.TroubleJudge, Err: boulder.ErrSessionLost},
		&orchestrator.BudgetError{SubTaskID: "a", Reason: "too dear"}, &orchestrator.BudgetError{Reason: "too long"},
		&boulder.SetUpError{Gate: gate},
		errors.Join(boulder.ErrRefused, &boulder.SetUpError{Gate: gate}, &orchestrator.BudgetError{SubTaskID: "b"}),
	}
	for _, s := range sentinels {
		all = append(all, s.err)
	}
	for _, sent := range all {
		sent = fmt.Errorf("around it: %w", sent)
		got := roundTrip(t, sent)
		if got.Error() != sent.Error() {
			t.Errorf("%q became %q", sent, got)
		}
		for _, s := range sentinels {
			if errors.Is(got, s.err) != errors.Is(sent, s.err) {
				t.Errorf("%q: is %s: %t", sent, s.name, errors.Is(got, s.err))
			}
		}
		if d := cmp.Diff(of[boulder.TroubleError](sent), of[boulder.TroubleError](got), cmp.Comparer(func(_, _ error) bool { return true })); d != "" {
			t.Errorf("%q: %s", sent, d)
		}
		if a, b := of[orchestrator.BudgetError](sent), of[orchestrator.BudgetError](got); (a == nil) != (b == nil) || a != nil && a.SubTaskID != b.SubTaskID {
			t.Errorf("%q: %+v became %+v", sent, a, b)
		}
		if d := cmp.Diff(of[boulder.SetUpError](sent), of[boulder.SetUpError](got)); d != "" {
			t.Errorf("%q: %s", sent, d)
		}
	}
}

func of[E any, P interface {
	*E
	error
}](err error) P {
	e, _ := errors.AsType[P](err)
	return e
}

// TestSentinels fails if the core declares a sentinel that is not in the list.
func TestSentinels(t *testing.T) {
	t.Parallel()
	declared := map[string]bool{}
	for _, dir := range []string{"boulder", "orchestrator"} {
		files, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range regexp.MustCompile(`(?m)^(?:var |\t)(Err[A-Z]\w+) += (?:errors|fmt)\.`).FindAllSubmatch(source, -1) {
				declared[string(match[1])] = true
			}
		}
	}
	if len(declared) != len(sentinels) {
		t.Errorf("%d sentinels are carried, and the core has %d: %v", len(sentinels), len(declared), declared)
	}
}
