package contract

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A failing or hanging case is reported in its place, alone. After a break nothing runs (synctest would fail).
func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tidied := 0
		hangs := func(s *scene) {
			s.ends = append(s.ends, func() { tidied++ })
			s.eventually("pigs fly", func() bool { return false })
		}
		cases := []Case{
			{"hangs", hangs},
			{"fails", func(s *scene) { s.must(errors.New("no such thing")); tidied = -100 }},
			{"cannot", func(s *scene) { s.skipUnless(false, "it has none"); tidied = -100 }},
			{"holds", func(s *scene) { s.must(nil); s.skipUnless(true, ""); s.want(true, "") }},
		}
		s := &Suite{cfg: Config{Patience: time.Minute}}
		var got []string
		for r := range s.Run(t.Context(), cases) {
			said := r.Name + " " + r.Took.Round(time.Second).String() + " " + r.Skipped
			if r.Err != nil {
				said += r.Err.Error()
			}
			got = append(got, said)
		}
		want := []string{
			"hangs 1m0s waited until pigs fly: it did not happen within 1m0s", "fails 0s no such thing", "cannot 0s it has none", "holds 0s ",
		}
		if diff := cmp.Diff(want, got); diff != "" || tidied != 1 {
			t.Errorf("results (-want +got):\n%s\n%d tidied", diff, tidied)
		}
		for range s.Run(t.Context(), []Case{cases[3], cases[0], cases[0]}) {
			break
		}
		ended, end := context.WithCancelCause(t.Context())
		end(errors.New("no time left"))
		for r := range s.Run(ended, cases[:1]) {
			if r.Skipped != "no time left" {
				t.Errorf("afterwards: %+v", r)
			}
		}
	})
}
