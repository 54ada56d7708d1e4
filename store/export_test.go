package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

func exported(t tb, db *DB, id string) string {
	t.Helper()
	events, err := db.Events(context.Background(), id, 0, 0)
	if err != nil {
		t.Fatalf("%v", err)
	}
	x := NewExport(events)
	var b bytes.Buffer
	if err := x.Write(&b); err != nil {
		t.Fatalf("%v", err)
	}
	return b.String()
}

func read(t tb, text string) Export {
	t.Helper()
	x, err := ReadExport(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return x
}

// adopted imports a boulder into another project.
func adopted(t tb, w *world) *boulder.State {
	t.Helper()
	x := NewExport(w.TakeEvents())
	_, from, err := x.Adopt("/elsewhere", w.now.Add(time.Hour))
	if err != nil || from != "/project" {
		t.Fatalf("from %q, %v", from, err)
	}
	s, err := x.State()
	if err != nil || s.Boulder.Project != "/elsewhere" {
		t.Fatalf("in %+v, %v", s, err)
	}
	return s
}

// TestAdopt: an adopted boulder is paused with nothing at work, keeps its usage, and can run.
func TestAdopt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, "id", epoch, drawPlan(rt)...)
		for range rapid.IntRange(0, 60).Draw(rt, "events") {
			step(rt, w)
		}
		was := w.Boulder
		if rapid.Bool().Draw(rt, "paused") {
			w.must(rt, boulder.StatusChanged{Status: boulder.Paused, Reason: "a break"})
		}
		s := adopted(rt, w)
		b := s.Boulder
		if b.Status != boulder.Paused || len(s.Live()) > 0 {
			rt.Fatalf("it is %s with %d attempts at work", b.Status, len(s.Live()))
		}
		if b.Worked > was.Worked+time.Minute || b.Usage.Tokens() < was.Usage.Tokens() {
			rt.Fatalf("it worked for %s and used %+v; before it was %s and %+v", b.Worked, b.Usage, was.Worked, was.Usage)
		}
		for _, t := range s.SubTasks {
			if open := s.Open(t.ID); open != nil && open.Attempt.Status != boulder.AttemptQueued {
				rt.Fatalf("attempt %+v is open", open.Attempt)
			}
		}
		w.State, w.now = s, w.now.Add(2*time.Hour)
		w.must(rt, boulder.StatusChanged{Status: boulder.Running})
	})
}

// TestAdoptAsksAgain: an import asks again what waited for an answer, because sessions stay in their project.
func TestAdoptAsksAgain(t *testing.T) {
	t.Parallel()
	for _, parked := range []bool{false, true} {
		w := newWorld(t, "id", epoch, spec("a"))
		w.start(t, ref("a", 1))
		w.must(t, boulder.BlockerRaised{AttemptRef: ref("a", 1), Blocker: boulder.Blocker{
			ID: "B1", BlockerScope: boulder.BlockerScope{SubTaskID: "a", Attempt: 1}, Question: "Which database?", Hard: true,
			Status: boulder.BlockerPending,
		}})
		if parked {
			w.must(t, boulder.Parked{AttemptRef: ref("a", 1), Reason: "waits"})
			w.must(t, boulder.StatusChanged{Status: boulder.Paused, Reason: "waits for B1", SubTaskID: "a"})
		}
		s := adopted(t, w)
		a, o := s.SubTask("a"), s.Open("a")
		if a.Parked || o == nil || o.Attempt.Attempt != 2 || len(a.AwaitedBy(2)) > 0 || a.Tries > 0 || strings.Contains(s.Boulder.Reason, "B1") {
			t.Errorf("parked %v: %+v, %+v; %s", parked, *a, o, s.Boulder.Reason)
		}
	}
}

func TestAdoptLeavesTheEndAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "id", epoch)
	w.must(t, boulder.StatusChanged{Status: boulder.Cancelled})
	w.must(t, boulder.Archived{Archived: true})
	if b := adopted(t, w).Boulder; b.Seq != 3 || b.Status != boulder.Cancelled {
		t.Errorf("%+v", b)
	}
}

// TestExportRefused: an event that does not follow from those before it is refused with its number.
func TestExportRefused(t *testing.T) {
	t.Parallel()
	source := openTemp(t)
	w := newWorld(t, "id", epoch, spec("a"), spec("b", "a"), spec("c", "b"))
	w.start(t, ref("a", 1))
	w.finish(t, ref("a", 1))
	w.start(t, ref("b", 1))
	w.commit(t, source)
	text := exported(t, source, "id")
	plan := func(change func(*boulder.Plan)) func(*Export) {
		return func(x *Export) {
			b := x.Events[2].Body.(boulder.Decomposed)
			change(&b.Plan.Plan)
			x.Events[2].Body = b
		}
	}
	head := func(change func(*boulder.Boulder)) func(*Export) {
		return func(x *Export) {
			b := x.Events[0].Body.(boulder.Created)
			change(&b.Boulder)
			x.Events[0].Body, x.Events[0].BoulderID = b, b.Boulder.ID
			for i := range x.Events {
				x.Events[i].BoulderID = b.Boulder.ID
			}
		}
	}
	for name, tc := range map[string]struct {
		spoil func(*Export)
		says  string
	}{
		"no id":           {head(func(b *boulder.Boulder) { b.ID = "" }), "event 1"},
		"long id":         {head(func(b *boulder.Boulder) { b.ID = strings.Repeat("x", 65) }), "1 to 64 characters"},
		"path as id":      {head(func(b *boulder.Boulder) { b.ID = "../../etc" }), `the id "../../etc" of the boulder may only`},
		"head from later": {head(func(b *boulder.Boulder) { b.Replan = &boulder.Replanning{} }), "replan"},
		"budget":          {head(func(b *boulder.Boulder) { b.Budget = &boulder.Budget{Tokens: -1} }), "event 1"},
		"loop":            {head(func(b *boulder.Boulder) { b.Loop = &boulder.Loop{} }), "event 1"},
		"sub-task path":   {plan(func(p *boulder.Plan) { p.SubTasks[2].ID = "a/../b" }), `the id "a/../b" of sub-task 3 may only`},
		"sub-task twice":  {plan(func(p *boulder.Plan) { p.SubTasks[1].ID = "a" }), `"a" is empty or given twice`},
		"unknown edge":    {plan(func(p *boulder.Plan) { p.SubTasks[2].DependsOn = []string{"z"} }), `depends on "z"`},
		"cycle":           {plan(func(p *boulder.Plan) { p.SubTasks[1].DependsOn = []string{"c"} }), "form a cycle"},
		"revision":        {func(x *Export) { x.Events = slices.Delete(x.Events, 1, 2) }, "event 2"},
		"status": {func(x *Export) {
			x.Events[3].Body = boulder.StatusChanged{Status: "dreaming"}
		}, `cannot be dreaming`},
		"event gap":       {func(x *Export) { x.Events = slices.Delete(x.Events, 3, 4) }, "event 5 comes where 4 is next"},
		"no events":       {func(x *Export) { x.Events = nil }, "1 to 64 characters"},
		"another's event": {func(x *Export) { x.Events[2].BoulderID = "x" }, "event 3"},
		"another's begin": {func(x *Export) { x.Events[0].Body = boulder.Created{} }, "event 1"},
		"no begin":        {func(x *Export) { x.Events[0].Body = boulder.Resumed{} }, "there is no boulder yet"},
		"two beginnings":  {func(x *Export) { x.Events[1].Body = x.Events[0].Body }, "event 2"},
		"empty event":     {func(x *Export) { x.Events[1].Body = nil }, "event 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := read(t, text)
			tc.spoil(&x)
			_, err := x.State()
			if !errors.Is(err, ErrBadExport) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, which does not say %q", err, tc.says)
			}
			if _, _, err := x.Adopt("/elsewhere", epoch); !errors.Is(err, ErrBadExport) {
				t.Errorf("adopting it: %v", err)
			}
		})
	}
}

func TestReadExportRefuses(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                   "not JSON",
		"{":                                  "not JSON",
		"{}":                                 "comes from another program",
		"[]":                                 "not JSON",
		`{"manager_export":2}`:               "version 2, and this manager reads version 3",
		`{"manager_export":3,"boulders":[]}`: `unknown field "boulders"`,
		`{"manager_export":3,"events":[{}]}`: "unknown event type",
		`{"manager_export":3} {}`:            "not JSON",
		`{"manager_export":3,"events":[3]}`:  "cannot unmarshal number",
	} {
		if _, err := ReadExport(strings.NewReader(text)); !errors.Is(err, ErrBadExport) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, which does not say %q", text, err, says)
		}
	}
	if _, err := ReadExport(endless{}); !errors.Is(err, ErrBadExport) || !strings.Contains(err.Error(), "256 MiB") {
		t.Errorf("endless: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// Any input is refused, or can be adopted and stays valid. It stores nothing: tests above cover [DB.Import].
func FuzzImport(f *testing.F) {
	db := openTemp(f)
	w := newWorld(f, "id", epoch, spec("a"), spec("b", "a"))
	w.commit(f, db)
	for n := range 2 {
		w.start(f, ref("a", n+1))
		w.must(f, boulder.Retry{AttemptRef: ref("a", n+1), Status: boulder.AttemptFailed, Next: n + 2})
		w.commit(f, db)
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(exported(f, db, "id"))); err != nil {
			f.Fatal(err)
		}
		f.Add(compact.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := ReadExport(bytes.NewReader(data))
		if err != nil {
			return
		}
		if _, err := x.State(); err != nil {
			return
		}
		if _, _, err := x.Adopt("/elsewhere", epoch); err != nil {
			t.Fatal(err)
		}
		if _, err := x.State(); err != nil {
			t.Fatal(err)
		}
	})
}
