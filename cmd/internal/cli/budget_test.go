package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
)

func TestBudgetFlag(t *testing.T) {
	var f budgetFlag
	for _, text := range []string{"tokens=2M, cost=5", "time=8h,attempts=20", "toggle:tokens=1.5k", "calls=500"} {
		if err := f.Set(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	want := boulder.Budget{Tokens: 2_000_000, Cost: 5, Time: boulder.Duration(8 * time.Hour), Attempts: 20, Calls: 500}
	if f.run == nil || *f.run != want {
		t.Errorf("the run's budget is %+v, want %+v", f.run, want)
	}
	if got := f.subTasks["toggle"]; got != (boulder.Budget{Tokens: 1500}) {
		t.Errorf("the sub-task's budget is %+v", got)
	}
	if got := view.Budget(&want); got != "2.0M tokens, $5.00, 8h00m, 20 attempts, 500 model calls" {
		t.Errorf("in words: %q", got)
	}
}

func TestBudgetFlagRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"":            "is not NAME=LIMIT",
		"5":           "is not NAME=LIMIT",
		"tokens=":     "is not NAME=LIMIT",
		"money=5":     `no key "money"`,
		"cost=0":      "more than 0",
		"cost=NaN":    "more than 0",
		"tokens=-3":   "at least 1",
		"tokens=1e30": "at least 1",
		"time=8":      "a duration of more than 0",
		":cost=5":     "names no sub-task",
	} {
		var f budgetFlag
		if err := f.Set(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: got %v, want an error with %q", text, err, why)
		}
	}
}

// A number means the sub-task at that position, unless it is a sub-task's id.
func TestBudgetOfANumber(t *testing.T) {
	t.Parallel()
	var f budgetFlag
	for _, text := range []string{"2:tokens=1k", "[1/3]:calls=5", "3:attempts=2"} {
		if err := f.Set(text); err != nil {
			t.Fatal(err)
		}
	}
	err := f.name([]string{"toggle", "theme", "3"}, "it has no sub-task")
	want := map[string]boulder.Budget{"theme": {Tokens: 1000}, "toggle": {Calls: 5}, "3": {Attempts: 2}}
	if diff := cmp.Diff(want, f.subTasks); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, none := range []string{"9", "2", "nobody"} {
		f.subTasks = map[string]boulder.Budget{none: {Calls: 1}}
		err := f.name([]string{"toggle", ""}, "it has no sub-task")
		if want := `it has no sub-task "` + none + `" to give a budget to; there is toggle`; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
