package orphan

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// table draws processes whose parents, groups and sessions are among them, or gone.
func table(t *rapid.T) []process {
	n := rapid.IntRange(1, 30).Draw(t, "processes")
	all := make([]process, n)
	for i := range all {
		id := rapid.IntRange(1, n+3)
		all[i] = process{
			pid: i + 2, parent: id.Draw(t, "parent"), group: id.Draw(t, "group"), session: id.Draw(t, "session"),
			mark: rapid.SampledFrom([]string{"", "", "", "ours", "theirs", others}).Draw(t, "mark"),
		}
	}
	return all
}

func TestPick(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := table(t)
		self := rapid.IntRange(2, len(all)+1).Draw(t, "self")
		spared := lineage(all, self)
		picked := map[int]bool{}
		for _, p := range pick(all, "ours", self) {
			if picked[p.pid] {
				t.Fatalf("%d is picked twice", p.pid)
			}
			picked[p.pid] = true
		}
		for _, p := range all {
			related := picked[p.parent] || picked[p.group] || picked[p.session]
			want := !spared[p.pid] && (p.mark == "ours" || p.mark == "" && related)
			if picked[p.pid] != want {
				t.Fatalf("%+v: picked %v, want %v", p, picked[p.pid], want)
			}
		}
		shuffled := rapid.Permutation(all).Draw(t, "order")
		for _, p := range pick(shuffled, "ours", self) {
			if !picked[p.pid] {
				t.Fatalf("%d is picked in another order only", p.pid)
			}
			delete(picked, p.pid)
		}
		if len(picked) > 0 {
			t.Fatalf("in another order %v are not picked", picked)
		}
	})
}

// Nobody who has nothing to do with a marked process is ended: without one, nothing is.
func TestPickNeedsAMark(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		if picked := pick(table(t), "another", 2); len(picked) > 0 {
			t.Fatalf("%+v", picked)
		}
	})
}

func TestMarkOf(t *testing.T) {
	t.Parallel()
	for environ, want := range map[string]string{
		"":                                           "",
		"HOME=/\x00MANAGER_PROCESS=A\x00":            "A",
		"MANAGER_PROCESS=A":                          "A",
		"XMANAGER_PROCESS=A\x00":                     "",
		"MANAGER_PROCESSES=A\x00":                    "",
		"X=MANAGER_PROCESS=A\x00":                    "",
		"MANAGER_PROCESS=\x00HOME=/\x00":             "",
		"MANAGER_PROCESS=A\x00MANAGER_PROCESS=B\x00": "A",
	} {
		if got := markOf([]byte(environ), Variable); got != want {
			t.Errorf("%q: %q, want %q", environ, got, want)
		}
	}
}

func ids(ps []process) string {
	var all []int
	for _, p := range ps {
		all = append(all, p.pid)
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

// The cases by hand: a tool's shell with a program that scrubbed its environment, a gate in the person's own session.
func TestPickByHand(t *testing.T) {
	t.Parallel()
	all := []process{
		{pid: 10, parent: 1, group: 10, session: 10},                  // the person's shell
		{pid: 11, parent: 10, group: 11, session: 10},                 // this command
		{pid: 12, parent: 10, group: 12, session: 10},                 // an editor
		{pid: 20, parent: 1, group: 20, session: 20, mark: "ours"},    // a tool's shell
		{pid: 21, parent: 20, group: 20, session: 20},                 // scrubbed
		{pid: 22, parent: 1, group: 22, session: 20},                  // scrubbed, own group, parent gone
		{pid: 30, parent: 1, group: 30, session: 10, mark: "ours"},    // a gate
		{pid: 31, parent: 1, group: 30, session: 10},                  // scrubbed, parent gone
		{pid: 40, parent: 20, group: 40, session: 40, mark: "theirs"}, // of a manager that an agent started
		{pid: 50, parent: 1, group: 50, session: 50},                  // scrubbed and daemonised: escapes
		{pid: 60, parent: 20, group: 60, session: 60, mark: others},   // sudo
	}
	if got := ids(pick(all, "ours", 11)); got != "[20 21 22 30 31]" {
		t.Errorf("picked %s", got)
	}
	if got := ids(pick(all, "ours", 21)); got != "[30 31]" {
		t.Errorf("from inside of a tool: picked %s", got)
	}
}
