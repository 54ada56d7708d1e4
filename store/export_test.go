package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
)

// drawWorld is a boulder with some history, stored in portions.
func drawWorld(rt *rapid.T, db *DB, id string) *world {
	w := newWorld(rt, id, epoch, drawPlan(rt)...)
	for range rapid.IntRange(1, 3).Draw(rt, "commits") {
		for range rapid.IntRange(0, 25).Draw(rt, "events") {
			step(rt, w)
		}
		w.commit(rt, db)
	}
	return w
}

func exported(t tb, db *DB, id string) string {
	t.Helper()
	x, err := db.Export(context.Background(), id)
	if err != nil {
		t.Fatalf("%v", err)
	}
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

// Whatever has happened to a boulder: its export, imported elsewhere and exported again, is the same to the byte. It fails
// if a record is left out, or if one is written under another's key.
func TestExportIsComplete(t *testing.T) {
	t.Parallel()
	here, there := openTemp(t), openTemp(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		id := fmt.Sprintf("b%d", n)
		w := drawWorld(rt, here, id)
		text := exported(rt, here, id)
		if err := there.Import(t.Context(), read(rt, text)); err != nil {
			rt.Fatalf("%v", err)
		}
		if diff := cmp.Diff(text, exported(rt, there, id)); diff != "" {
			rt.Fatalf("exported (-) and exported again (+):\n%s", diff)
		}
		if diff := cmp.Diff(picture(rt, w.State), picture(rt, restore(rt, there, id))); diff != "" {
			rt.Fatalf("here (-) and there (+):\n%s", diff)
		}
		if err := there.Import(t.Context(), read(rt, text)); !errors.Is(err, ErrExists) {
			rt.Fatalf("a second import: %v", err)
		}
	})
}

// An adopted boulder can be imported; it is over as before, or it is paused with nothing at work, and the log says so.
func TestAdopt(t *testing.T) {
	t.Parallel()
	here, there := openTemp(t), openTemp(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		id := fmt.Sprintf("b%d", n)
		w := drawWorld(rt, here, id)
		was := w.Boulder
		if rapid.Bool().Draw(rt, "paused") {
			w.must(rt, boulder.StatusChanged{Status: boulder.Paused, Reason: "a break"})
			w.commit(rt, here)
		}
		x := read(rt, exported(rt, here, id))
		from, err := x.Adopt("/elsewhere", w.now.Add(time.Hour))
		if err != nil || from != "/project" {
			rt.Fatalf("from %q, %v", from, err)
		}
		if err := there.Import(t.Context(), x); err != nil {
			rt.Fatalf("%v", err)
		}
		s := restore(rt, there, id)
		b := s.Boulder
		if b.Status != boulder.Paused || len(s.Live()) > 0 || b.Project != "/elsewhere" {
			rt.Fatalf("it is %s in %s with %d attempts at work", b.Status, b.Project, len(s.Live()))
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

func TestAdoptLeavesTheEndAlone(t *testing.T) {
	t.Parallel()
	db := openBytes(t, oldDatabase(t))
	text := exported(t, db, "01part")
	x := read(t, text)
	if _, err := x.Adopt("/elsewhere", epoch); err != nil {
		t.Fatal(err)
	}
	if len(x.Events) != len(read(t, text).Events) || x.Boulder.Status != boulder.Partial || x.Boulder.Project != "/elsewhere" {
		t.Errorf("%d events, %+v", len(x.Events), x.Boulder)
	}
}

// What does not fit together is refused, with the record's name, and nothing is stored.
func TestImportRefuses(t *testing.T) {
	t.Parallel()
	source := openTemp(t)
	w := newWorld(t, "id", epoch, spec("a"), spec("b", "a"), spec("c", "b"))
	w.start(t, ref("a", 1))
	w.finish(t, ref("a", 1))
	w.start(t, ref("b", 1))
	w.commit(t, source)
	text := exported(t, source, "id")
	db := openTemp(t)
	for name, tc := range map[string]struct {
		spoil func(*Export)
		says  string
	}{
		"version":          {func(x *Export) { x.Version = 2 }, "version 2"},
		"no id":            {func(x *Export) { x.Boulder.ID = "" }, "1 to 64 characters"},
		"long id":          {func(x *Export) { x.Boulder.ID = strings.Repeat("x", 65) }, "1 to 64 characters"},
		"path as id":       {func(x *Export) { x.Boulder.ID = "../../etc" }, `the id "../../etc" of the boulder may only`},
		"sub-task path":    {func(x *Export) { x.SubTasks[1].ID = "a/../b" }, `the id "a/../b" of sub-task 2 may only`},
		"sub-task NUL":     {func(x *Export) { x.SubTasks[1].ID = "b\x00" }, "may only"},
		"sub-task twice":   {func(x *Export) { x.SubTasks[1].ID = "a" }, "sub-task a is there twice"},
		"status":           {func(x *Export) { x.Boulder.Status = "dreaming" }, `the boulder has the unknown status "dreaming"`},
		"sub-task status":  {func(x *Export) { x.SubTasks[2].Status = "x" }, `sub-task c has the unknown status "x"`},
		"attempt status":   {func(x *Export) { x.Attempts[0].Status = "x" }, `attempt 1 of sub-task "a" has the unknown status`},
		"no sub-task":      {func(x *Export) { x.SubTasks = x.SubTasks[:2] }, `blocks "c"`},
		"position":         {func(x *Export) { x.SubTasks[2].Position = 7 }, `sub-task "c"`},
		"tally":            {func(x *Export) { x.Boulder.Tally.Completed = 3 }, "the boulder says"},
		"revision":         {func(x *Export) { x.Boulder.Revision = 3 }, "plan revision 3"},
		"revisions":        {func(x *Export) { x.Revisions[0].Number = 0 }, "plan revision 0 comes after 0"},
		"blocks":           {func(x *Export) { x.SubTasks[0].Blocks = nil }, `sub-task "b" depends on "a", which does not know it`},
		"blocked by":       {func(x *Export) { x.SubTasks[1].BlockedBy = nil }, "sub-task b depends on"},
		"unknown edge":     {func(x *Export) { x.SubTasks[2].DependsOn = []string{"z"} }, `sub-task c depends on "z"`},
		"cycle":            {cycle, "form a cycle: b → c → b"},
		"attempt missing":  {func(x *Export) { x.Attempts = x.Attempts[1:] }, `attempt 1 of sub-task "a" is missing`},
		"attempt twice":    {func(x *Export) { x.Attempts = append(x.Attempts, x.Attempts[0]) }, "is there twice"},
		"attempt's owner":  {func(x *Export) { x.Attempts[0].SubTaskID = "z" }, `attempt 1 of sub-task "z" belongs to no sub-task`},
		"huge attempts":    {func(x *Export) { x.SubTasks[0].Attempts = 1 << 60 }, `attempt 2 of sub-task "a" is missing`},
		"turn missing":     {func(x *Export) { x.Turns = x.Turns[1:] }, `turn 1 of attempt 1 of sub-task "a" is missing`},
		"turn twice":       {func(x *Export) { x.Turns = append(x.Turns, x.Turns[0]) }, "is there twice"},
		"turn's owner":     {func(x *Export) { x.Turns[0].Attempt = 9 }, `turn 1 of attempt 9 of sub-task "a" belongs to no attempt`},
		"event gap":        {func(x *Export) { x.Events = slices.Delete(x.Events, 3, 4) }, "event 4 has the number 5"},
		"events cut":       {func(x *Export) { x.Events = x.Events[:3] }, "3 events"},
		"no events":        {func(x *Export) { x.Events, x.Boulder.Seq = nil, 0 }, "0 events"},
		"another's event":  {func(x *Export) { x.Events[2].BoulderID = "x" }, `event 3 belongs to boulder "x"`},
		"another's begin":  {func(x *Export) { x.Events[0].Body = boulder.Created{} }, `event 1 creates boulder ""`},
		"no begin":         {func(x *Export) { x.Events[0].Body = boulder.TakenUp{} }, `event 1 is of type "taken-up"`},
		"two beginnings":   {func(x *Export) { x.Events[1].Body = x.Events[0].Body }, `event 2 is of type "created"`},
		"empty event":      {func(x *Export) { x.Events[1].Body = nil }, "event 2 says nothing"},
		"budget":           {func(x *Export) { x.Boulder.Budget = &boulder.Budget{Tokens: -1} }, "the boulder:"},
		"sub-task budget":  {func(x *Export) { x.SubTasks[0].Budget = &boulder.Budget{Cost: -1} }, "sub-task a:"},
		"two open at once": {twoOpen, "more than one open attempt"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := read(t, text)
			tc.spoil(&x)
			err := db.Import(t.Context(), x)
			if !errors.Is(err, ErrBadExport) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, which does not say %q", err, tc.says)
			}
			if _, err := x.Adopt("/elsewhere", epoch); !errors.Is(err, ErrBadExport) {
				t.Errorf("adopting it: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		if all, err := db.List(context.Background()); len(all) > 0 || err != nil {
			t.Errorf("%d boulders were stored, %v", len(all), err)
		}
	})
}

func cycle(x *Export) {
	b, c := &x.SubTasks[1], &x.SubTasks[2]
	b.DependsOn, b.BlockedBy = []string{"a", "c"}, []string{"a", "c"}
	c.Blocks = []string{"b"}
}

func twoOpen(x *Export) {
	x.Attempts[0].Status = boulder.AttemptExecuting
	x.Attempts = append(x.Attempts, x.Attempts[0])
	x.Attempts[len(x.Attempts)-1].Attempt = 2
	x.SubTasks[0].Attempts = 2
}

// Bytes of a file are refused with what is wrong with them.
func TestReadExportRefuses(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"":                                     "not JSON",
		"{":                                    "not JSON",
		"{}":                                   "comes from another program",
		"[]":                                   "not JSON",
		`{"manager_export":2}`:                 "version 2, and this manager reads version 1",
		`{"manager_export":1,"boulders":[]}`:   `unknown field "boulders"`,
		`{"manager_export":1,"events":[{}]}`:   "unknown event type",
		`{"manager_export":1} {}`:              "not JSON",
		`{"manager_export":1,"sub_tasks":[3]}`: "cannot unmarshal number",
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

// A boulder of which a record cannot be read is not exported by half; the record is named, and the others are exported.
func TestExportNamesWhatIsDamaged(t *testing.T) {
	t.Parallel()
	db := openBytes(t, rewrite(t, databaseBytes(t), damage("id", bucketTurns, turnKey(ref("a", 1), 1))))
	if x, err := db.Export(t.Context(), "id"); x.Boulder.ID != "" || !strings.Contains(fmt.Sprint(err), "a/1/1") {
		t.Errorf("%v", err)
	}
	exported(t, db, "sound")
}

// Whatever bytes come, they are refused, or they can be adopted and are sound after that as well. Nothing is stored here:
// what [DB.Import] adds to the check is tested above.
func FuzzImport(f *testing.F) {
	db := openBytes(f, oldDatabase(f))
	for _, id := range []string{"01run", "01wait", "01part", "01plan", "01done", "01gone"} {
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(exported(f, db, id))); err != nil {
			f.Fatal(err)
		}
		f.Add(compact.Bytes())
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := ReadExport(bytes.NewReader(data))
		if err != nil || x.Check() != nil {
			return
		}
		if _, err := x.Adopt("/elsewhere", epoch); err != nil {
			t.Fatal(err)
		}
		if err := x.Check(); err != nil {
			t.Fatal(err)
		}
	})
}
