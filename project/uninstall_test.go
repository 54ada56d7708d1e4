package project

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

const (
	done, foreign = "01k0000000000000000000000a", "01k0000000000000000000000b"
	begun         = "01k0000000000000000000000c"
)

// installed is a project whose state knows of boulders, each with refs and slots.
type installed struct {
	*slotted
	p *Project
}

func newInstalled(t *testing.T) installed {
	w := installed{slotted: newSlotted(t, "a.txt", "a")}
	var err error
	w.p, err = Open(w.dir, Options{Environ: append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir(), "OPENCODE_SERVER=")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.p.Close() })
	return w
}

// boulder stores a boulder that was completed unless landed is nil.
func (w installed) boulder(id string, landed *boulder.Landed, at time.Time) {
	w.Helper()
	base := w.git("rev-parse", "HEAD")
	tip := w.git("commit-tree", "-p", base, "-m", "result", base+"^{tree}")
	w.git("update-ref", "refs/manager/"+id+"/base", base)
	w.git("update-ref", "refs/manager/"+id+"/tip", tip)
	if err := errors.Join(
		os.MkdirAll(filepath.Join(w.dir, ".manager", "slots", id, "1"), 0o700), os.MkdirAll(w.p.stateDir(), 0o700),
	); err != nil {
		w.Fatal(err)
	}
	s := boulder.NewState()
	_, err := s.Apply(boulder.Event{Time: at, BoulderID: id, Body: boulder.Created{Boulder: boulder.Boulder{ID: id, Task: "t", Project: w.dir}}})
	if err != nil {
		w.Fatal(err)
	}
	if landed != nil {
		s.Boulder.Status = boulder.Completed
		s.Boulder.Trunk = boulder.Trunk{Base: base, Tip: tip, Landed: landed, LandedAt: at}
	}
	db, err := w.p.openState(w.Context(), 0)
	if err == nil {
		err = errors.Join(db.Commit(w.Context(), s, s.TakeEvents()), db.Close())
	}
	if err != nil {
		w.Fatal(err)
	}
}

// refs makes refs of a boulder that the state does not know: it has begun in another worktree.
func (w installed) refs(id string) {
	w.Helper()
	for _, name := range []string{id + "/base", id + "/tip", "dropped/" + id + "/x/1"} {
		w.git("update-ref", "refs/manager/"+name, "HEAD")
	}
}

// uninstall removes what is found, and returns it with what stays.
func (w installed) uninstall() (u *Uninstall, stays []string) {
	w.Helper()
	u, err := w.p.Uninstall(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, l := range u.Left {
		if l.Stays != "" {
			stays = append(stays, filepath.Base(l.Path))
		}
		if err := w.p.Remove(w.Context(), l); err != nil {
			w.Error(err)
		}
	}
	slices.Sort(stays)
	return u, stays
}

// Links that a repository has in .manager are removed, and what they lead to is not.
func TestUninstallFollowsNoLink(t *testing.T) {
	t.Parallel()
	w := newInstalled(t)
	outside := t.TempDir()
	precious := filepath.Join(outside, done, "f")
	err := errors.Join(os.MkdirAll(filepath.Dir(precious), 0o700), os.WriteFile(precious, nil, 0o600), os.Mkdir(w.p.stateDir(), 0o700))
	for _, name := range []string{"slots", "runs", "processes"} {
		err = errors.Join(err, os.Symlink(outside, filepath.Join(w.p.stateDir(), name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	w.uninstall()
	_, gone := os.Lstat(w.p.stateDir())
	if _, err := os.Stat(precious); err != nil || gone == nil {
		t.Errorf("behind the links: %v; the state: %v", err, gone)
	}
}

// What only slots have, slots of an unknown boulder, and the user's own files among them stay, as it says.
func TestUninstallKeepsWhatItSays(t *testing.T) {
	t.Parallel()
	w := newInstalled(t)
	slots := filepath.Join(w.p.stateDir(), "slots")
	w.boulder(done, &boulder.Landed{How: boulder.LandedFiles}, time.Now())
	w.boulder(begun, &boulder.Landed{How: boulder.LandedFiles}, time.Now())
	want := []string{filepath.Join(slots, begun, "kept-1-x-1-z"), filepath.Join(slots, foreign), filepath.Join(slots, "mine")}
	for _, dir := range want {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, stays := w.uninstall(); strings.Join(stays, " ") != foreign+" "+begun+" mine" {
		t.Errorf("stays: %q", stays)
	}
	for _, dir := range want {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	for _, gone := range []string{filepath.Join(slots, done), filepath.Join(w.p.stateDir(), store.FileName)} {
		if _, err := os.Stat(gone); err == nil {
			t.Errorf("%s is still there", gone)
		}
	}
}

// Worktrees of a repository share its refs: those of boulders that are not known here stay, also if they name no result yet.
func TestRefsOfOtherWorktreesStay(t *testing.T) {
	t.Parallel()
	w := newInstalled(t)
	w.boulder(done, &boulder.Landed{How: boulder.LandedFiles}, time.Now())
	w.refs(foreign)
	want := w.git("for-each-ref", "refs/manager/"+foreign, "refs/manager/dropped/"+foreign)
	left, _, err := w.p.Leftovers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range left {
		if err := w.p.Remove(t.Context(), l); err != nil || l.BoulderID == foreign && l.Stays == "" {
			t.Errorf("gc: %+v, %v", l, err)
		}
	}
	if got := w.git("for-each-ref", "refs/manager/"+foreign, "refs/manager/dropped/"+foreign); got != want {
		t.Errorf("after gc there are\n%s\nof\n%s", got, want)
	}
	if _, stays := w.uninstall(); strings.Join(stays, " ") != foreign+" "+foreign {
		t.Errorf("stays: %q", stays)
	}
	if got := w.git("for-each-ref", "refs/manager"); got != want {
		t.Errorf("after an uninstall there are\n%s\nof\n%s", got, want)
	}
}

// Results that were written with conflicts can be taken back for a time: until then it refuses.
func TestUninstallKeepsWhatAnUndoNeeds(t *testing.T) {
	t.Parallel()
	w := newInstalled(t)
	marred := &boulder.Landed{How: boulder.LandedFiles, Conflicts: []string{"a.txt"}}
	w.boulder(done, marred, time.Now().Add(-keepDropped+time.Hour))
	w.boulder(foreign, marred, time.Now().Add(-keepDropped-time.Hour))
	w.boulder(begun, &boulder.Landed{How: boulder.LandedFiles}, time.Now())
	u, err := w.p.Uninstall(t.Context())
	if err != nil || len(u.Unfinished)+len(u.Unlanded) > 0 || !slices.Equal(u.Marred, []string{boulder.ShortID(done)}) {
		t.Errorf("%+v, %v", u, err)
	}
}
