package orchestrator_test

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/store"
)

// TestReplay repeats the decisions of boulders that ran on the real OpenCode, and so shows which situations a change of
// policy affects. Record the boulders again with:
//
//	go test ./cmd/internal/cli -run 'TestScripts/opencode1|TestKill9' -kills 3 -boulders DIR
func TestReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/boulders/*.json.gz")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d boulders, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			check, err := orchestrator.CheckDecisions(load(t, file))
			if err != nil {
				t.Fatal(err)
			}
			if d := check.Difference; d != nil {
				t.Errorf("event %d: %T %+v is decided, and %T %+v is there", d.Seq, d.Expected, d.Expected, d.Got, d.Got)
			}
			if check.Unchecked > 0 || check.Decisions == 0 {
				t.Errorf("%d decisions, %d of %d events are not checked", check.Decisions, check.Unchecked, check.Events)
			}
		})
	}
}

func load(t *testing.T, file string) []boulder.Event {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	x, err := store.ReadExport(zip)
	if err != nil {
		t.Fatal(err)
	}
	return x.Events
}

// TestReplayDiffers: a log with a decision other than today's is reported at the first such event.
func TestReplayDiffers(t *testing.T) {
	t.Parallel()
	whole := load(t, "testdata/boulders/why-0.json.gz")
	first := func(kind string) int {
		i := slices.IndexFunc(whole, func(e boulder.Event) bool { return boulder.TypeOf(e.Body) == kind })
		if i < 0 {
			t.Fatalf("there is no %s", kind)
		}
		return i
	}
	for name, test := range map[string]struct {
		at     string
		change func(b boulder.Body) boulder.Body // nil: cut the log before the event
	}{
		"another verdict counts": {"judged", func(b boulder.Body) boulder.Body { j := b.(boulder.Judged); j.Stalls = 7; return j }},
		"a limit that forbids it": {"created", func(b boulder.Body) boulder.Body {
			c := b.(boulder.Created)
			c.Limits = evaluations(t, c.Limits)
			return c
		}},
		"a continuation is missing": {"continuation", nil},
		"another turn": {"continuation", func(b boulder.Body) boulder.Body {
			c := b.(boulder.Continuation)
			c.Remaining = []string{"all of it"}
			return c
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events, at := slices.Clone(whole), first(test.at)
			want := events[at].Seq
			if test.change != nil {
				events[at].Body = test.change(events[at].Body)
			} else {
				events, want = events[:at], want-1
			}
			if test.at == "created" {
				want = events[first("continuation")].Seq
			}
			check, err := orchestrator.CheckDecisions(events)
			if err != nil || check.Difference == nil {
				t.Fatalf("no difference in %d events, %v", len(events), err)
			}
			if got := check.Difference.Seq; got != want {
				t.Errorf("the difference is at event %d, want %d", got, want)
			}
		})
	}
}

// evaluations returns limits under which no session is continued.
func evaluations(t *testing.T, limits json.RawMessage) json.RawMessage {
	t.Helper()
	l := orchestrator.DefaultLimits()
	if err := json.Unmarshal(limits, &l); err != nil {
		t.Fatal(err)
	}
	l.Evaluations = 1
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestReplayOldLog: a log without limits is reported as unchecked.
func TestReplayOldLog(t *testing.T) {
	t.Parallel()
	events := load(t, "testdata/boulders/why-0.json.gz")
	created := events[0].Body.(boulder.Created)
	created.Limits = nil
	events[0].Body = created
	check, err := orchestrator.CheckDecisions(events)
	if err != nil || check.Unchecked != len(events) || check.Decisions > 0 {
		t.Errorf("%+v, %v", check, err)
	}
}

// TestReplayAlone: a boulder that ran alone is checked in full: no start in its log claims shared limits.
func TestReplayAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	events, err := r.run(planOf(spec("a"), spec("b", "a")))
	r.completes(events, err)
	for _, e := range events {
		if b, ok := e.Body.(boulder.Starting); ok && b.Shared {
			t.Errorf("event %d: %+v", e.Seq, b)
		}
	}
}
