package orphan

import (
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// table draws processes whose parents, groups and sessions are in it, or have ended.
func table(t *rapid.T) []process {
	n := rapid.IntRange(1, 30).Draw(t, "processes")
	all := make([]process, n)
	for i := range all {
		id := rapid.IntRange(1, n+3)
		all[i] = process{
			pid: i + 2, parent: id.Draw(t, "parent"), group: id.Draw(t, "group"), session: id.Draw(t, "session"),
			mark: rapid.SampledFrom([]string{"", "", "", "ours", "theirs", otherUser}).Draw(t, "mark"),
		}
	}
	return all
}

// pick takes marked processes and their unmarked kin, by parent, group or session, but neither itself nor its ancestors.
func TestPick(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := table(t)
		self := rapid.IntRange(2, len(all)+1).Draw(t, "self")
		spared := map[int]bool{} // this process and its ancestors
		for pid := self; pid > 1 && !spared[pid] && pid < len(all)+2; pid = all[pid-2].parent {
			spared[pid] = true
		}
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
		if without := pick(all, "another", self); len(without) > 0 {
			t.Fatalf("picked although none has the mark: %+v", without)
		}
		shuffled := rapid.Permutation(all).Draw(t, "order")
		again := map[int]bool{}
		for _, p := range pick(shuffled, "ours", self) {
			again[p.pid] = true
		}
		if !maps.Equal(picked, again) {
			t.Fatalf("picked %v, and in another order %v", picked, again)
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
