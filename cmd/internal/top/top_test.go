package top

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/projecttest"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	world(t, dir)
	for _, test := range []struct {
		keys  []string
		focus focus
		place
		tab, text string
	}{
		{nil, onBoulders, place{"01k4many", "p000"}, "Log", "plan revision 1"},
		{[]string{"j"}, onBoulders, place{sample.ID, "toggle"}, "Log", "hard blocker B1"},
		{[]string{"down", "down", "k"}, onBoulders, place{sample.ID, "toggle"}, "Log", "hard blocker B1"},
		{[]string{"G", "j"}, onBoulders, place{"01k3middle", "toggle"}, "Log", "icons failed"},
		{[]string{"G", "enter", "j"}, onTasks, place{"01k3middle", "theme"}, "Log", "read theme.css"},
		{[]string{"enter", "G"}, onTasks, place{"01k4many", "p199"}, "Log", "Log"},
		{[]string{"enter", "/", "p 42"}, onTasks, place{"01k4many", "p000"}, "Log", "/p 42"},
		{[]string{"enter", "/", "package 42", "enter"}, onTasks, place{"01k4many", "p042"}, "Log", "Sub-tasks 1/1"},
		{[]string{"enter", "/", "package 42", "enter", "esc"}, onTasks, place{"01k4many", "p042"}, "Log", "43/200"},
		{[]string{"enter", "/", "package 42", "enter", "esc", "esc"}, onBoulders, place{"01k4many", "p042"}, "Log", "43/200"},
		{[]string{"/", "mid", "enter"}, onBoulders, place{"01k3middle", "toggle"}, "Log", "Boulders 1/1"},
		{[]string{"tab", "tab", "]"}, onText, place{"01k4many", "p000"}, "Transcript", "migrated it"},
		{[]string{"]", "]"}, onBoulders, place{"01k4many", "p000"}, "Why", "turn 1: the brief is sent"},
		{[]string{"]]]"}, onBoulders, place{"01k4many", "p000"}, "Status", "manager resume k4many"},
		{[]string{"["}, onBoulders, place{"01k4many", "p000"}, "Spending", "where it went"},
		{[]string{"tab", "tab", "tab"}, onBoulders, place{"01k4many", "p000"}, "Log", "Log"},
		{[]string{"?"}, onBoulders, place{"01k4many", "p000"}, "Log", "these keys"},
		{[]string{"?", "j"}, onBoulders, place{"01k4many", "p000"}, "Log", "Boulders 1/3"},
	} {
		for _, width := range []int{80, 200} {
			s := open(t, dir, width, width*3/10)
			s.press(test.keys...)
			if s.focus != test.focus || s.want != test.place || tabs[s.tab] != test.tab {
				t.Errorf("%q: at %d, %v, %s", test.keys, s.focus, s.want, tabs[s.tab])
			}
			s.shows(test.text)
			if s.left {
				t.Errorf("%q leave", test.keys)
			}
		}
	}
	s := open(t, dir, 80, 24)
	if s.press("q"); !s.left {
		t.Error("q does not leave")
	}
}

// Enter gives a text the whole screen until Esc. A position other than its end is kept.
func TestWholeText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	world(t, dir)
	s := open(t, dir, 80, 10)
	s.press("G", "tab", "tab", "enter")
	s.shows("NOT Boulders", "[Log]", "turn 2 judged complete")
	s.press("g")
	s.shows("attempt 1 has a slot", "NOT judged complete")
	s.press("esc")
	s.shows("Boulders", "[Log]")
}

func TestSizes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	world(t, dir)
	for _, size := range [][2]int{{200, 60}, {120, 30}, {119, 30}, {80, 24}, {40, 12}, {20, 8}} {
		s := open(t, dir, size[0], size[1])
		s.press("j", "enter", "j", "]]]]", "enter", "pgdown", "enter", "esc", "a", "漢字 and more than a line of forty columns", "esc", "?", "q", "c", "n")
	}
}

// An answer reaches the blocker. Typed text stays until it takes effect. Enter without text moves to the next blocker.
func TestAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	world(t, dir)
	s := open(t, dir, 80, 24)
	s.shows("1 hard blocker waits for an answer", "?  Add dark mode")
	s.press("a")
	s.shows("Blocker B1", "Which key signs the theme?", "B1>")
	s.press("enter")
	s.shows("Blocker B2", "Variables or classes?", "a number: that option")
	s.press("enter")
	s.shows("Nothing else waits", "Boulders")
	s.press("a", "/what", "enter")
	s.shows("there is no /what", "B1> /what")
	s.press("esc", "a", "q: the release key", "enter")
	s.shows(`Answered B1. "theme" continues with the answer`, "NOT hard blocker waits", "NOT B1>")
	b, err := s.project.Blocker(t.Context(), "B1")
	if err != nil || b.Answer != "q: the release key" {
		t.Errorf("B1 has %q, %v", b.Answer, err)
	}
	if s.press("a", "2", "enter", "a"); s.editor != nil {
		t.Error("something is asked although nothing waits")
	}
	s.shows("Nothing else waits for an answer.")
}

// Orders apply to what the cursor selects. Those that end work need confirmation.
func TestOrders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	world(t, dir)
	s := open(t, dir, 80, 24)
	task := func(id string) *boulder.SubTask {
		for _, sub := range s.seen.SubTasks {
			if sub.ID == id {
				return sub
			}
		}
		t.Fatalf("there is no %s", id)
		return nil
	}
	s.press("G", "r")
	s.shows("choose a sub-task first")
	s.press("enter", "/", "icons", "enter", "r")
	s.shows(`retry "icons" of boulder middle? y: yes`)
	s.press("n")
	if task("icons").Status != boulder.SubTaskFailed {
		t.Error("it is retried although the user said no")
	}
	s.press("r", "y")
	s.shows(`"icons" is retried in a fresh session`, "manager resume middle")
	if got := task("icons").Status; got != boulder.SubTaskPending {
		t.Errorf("icons is %s", got)
	}
	s.press("esc", "/", "no such", "enter", "c")
	s.shows("choose a sub-task first")
	if s.toConfirm != nil {
		t.Error("it would cancel what is not to be seen")
	}
	s.press("esc", "/", "Translate", "enter", "s", "y")
	s.shows(`Skipped "lang"`)
	if got := task("lang").Status; got != boulder.SubTaskSkipped {
		t.Errorf("lang is %s", got)
	}
	s.press("n", "too late", "enter")
	s.shows(`sub-task "lang" is skipped`, "note> too late")
	s.press("esc", "esc", "j", "k", "n", "look at theme.css", "enter")
	s.shows("Noted for sub-task")
	s.press("esc", "p")
	s.shows("Paused. No process runs it.")
	s.press("p")
	s.shows("paused")
	s.press("c")
	s.shows("cancel boulder middle? y")
	s.press("y")
	if got := s.seen.Boulder.Status; got != boulder.Cancelled {
		t.Errorf("the boulder is %s", got)
	}
}

// Continuing and starting ask for a server where no process is, and say why not, as landing does. Landing asks first.
func TestContinueLandStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	paused := sample.New(t, sample.ID)
	paused.Plan()
	commit(t, dir, paused)
	s := open(t, dir, 200, 40)
	s.press("u")
	s.shows("start a server: no server in this test")
	s.press("L")
	s.shows("land the results of boulder " + boulder.ShortID(sample.ID) + " in your files? y: yes, any other key: no")
	s.press("n")
	s.shows("NOT land the results")
	s.press("L", "y")
	s.shows("there is nothing to land")
	s.press("S", "missing.yaml", "enter")
	s.shows("missing.yaml: no such file", "plan file (Enter: ")
	s.press("esc")
	plan := filepath.Join(dir, "plan.yaml")
	if err := os.WriteFile(plan, []byte("task: T\nsub_tasks: [{id: a, description: b}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.press("S", plan, "enter")
	s.shows("start a server: no server in this test")
	s.press("esc")
	commit(t, dir, sample.Ran(t, "01k4ran", dir, plan, "T"))
	s.press("S", plan, "enter")
	s.shows("was completed on ", ", as boulder 1k4ran. Run it again? y: yes, any other key: no", "NOT plan file (Enter")
	s.press("n")
	s.shows("NOT start a server")
	s.press("S", plan, "enter", "y")
	s.shows("start a server: no server in this test", "NOT Run it again")
}

// It opens the boulder that is at work, not the one that was begun last.
func TestOpensWhatIsAtWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := sample.New(t, "01k3older")
	old.Plan()
	commit(t, dir, old, sample.Ran(t, "01k4newest", dir, "", "T"))
	db, err := store.Open(filepath.Join(dir, store.DirName, store.FileName), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	projecttest.Serve(t, dir, project.Holder{
		PID: os.Getpid(), Command: "manager serve", Serves: true, Running: []string{"01k3older"},
	}, db)
	s := open(t, dir, 120, 40)
	s.shows(" · 3older", "Add the settings toggle")
}

// Between two reads the database is free, and changes by other processes are seen.
func TestHoldsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir, 200, 60) // wide enough for the holder's command line
	s.shows("Nothing has been run here yet. S starts a plan file")
	one := sample.New(t, sample.ID)
	one.Plan()
	commit(t, dir, one)
	_, cmd := s.Update(tickMsg(s.project.Version()))
	if cmd == nil || !s.reading {
		t.Fatal("the new boulder is not read")
	}
	s.reading = false
	s.run(s.look())
	s.shows("sample", "Add the settings toggle", "no process runs here")
	db, err := store.Open(filepath.Join(dir, store.DirName, store.FileName), store.Options{Timeout: time.Millisecond})
	if err != nil {
		t.Fatalf("it holds the database: %v", err)
	}
	s.run(s.look())
	s.shows("it does not", "try again", "sample", "Add the settings toggle") // the last reading stays
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	s.run(s.look())
	s.shows("no process runs here", "NOT try again")
}

// Each sub-task is in the tree once, below one of its dependencies, at no more than the maximum depth.
func TestTree(t *testing.T) {
	t.Parallel()
	var tasks []*boulder.SubTask
	for _, deps := range []string{"", "0", "0", "1 2", ""} {
		tasks = append(tasks, &boulder.SubTask{ID: fmt.Sprint(len(tasks)), DependsOn: strings.Fields(deps)})
	}
	var drawn []string
	for _, l := range tree(tasks, 4) {
		drawn = append(drawn, l.branch+tasks[l.index].ID)
	}
	if got, want := strings.Join(drawn, "\n"), "0\n├ 1\n└ 2\n  └ 3\n4"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		var tasks []*boulder.SubTask
		n, deepest := rapid.IntRange(0, 30).Draw(t, "n"), rapid.IntRange(1, 5).Draw(t, "deepest")
		for i := range n {
			on := rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 3).Draw(t, "depends_on") // may be forward references
			task := &boulder.SubTask{ID: fmt.Sprint(i)}
			for _, other := range on {
				task.DependsOn = append(task.DependsOn, fmt.Sprint(other))
			}
			tasks = append(tasks, task)
		}
		seen := map[int]bool{}
		for _, l := range tree(tasks, deepest) {
			if seen[l.index] || len([]rune(l.branch)) > 2*deepest {
				t.Errorf("%d is drawn again, or behind %q", l.index, l.branch)
			}
			seen[l.index] = true
		}
		if len(seen) != n {
			t.Errorf("%d of %d are drawn", len(seen), n)
		}
	})
}
