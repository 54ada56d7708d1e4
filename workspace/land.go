package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// ErrConflict means that results cannot land, because something else changed the same content.
var ErrConflict = errors.New("conflicts")

// named lists files for an error. Agents choose their names.
func named(files []string) string {
	var all []string
	for _, name := range files {
		all = append(all, text.OneLine(name))
	}
	return strings.Join(all, ", ")
}

// TakeBack undoes the change from one snapshot to another in the user's files, as [Slots.LandFiles] lands one.
func (s *Slots) TakeBack(ctx context.Context, from, to string, dry bool) ([]Change, error) {
	base, err := s.project.commit(ctx, to, "", "changed", time.Unix(0, 0))
	if err != nil {
		return nil, s.project.explain(ctx, err, to)
	}
	before, err := s.project.commit(ctx, from, base, "as it was before", time.Unix(0, 0))
	if err != nil {
		return nil, s.project.explain(ctx, err, from)
	}
	changes, err := s.LandFiles(ctx, base, before, dry)
	if err == nil && !dry { // nothing is recorded: taken back again, it finds that nothing is left to do
		err = s.EndLanding(base, before)
	}
	return changes, err
}

// Onto applies the commits from base to tip onto another commit, and returns the last. Conflicts wrap [ErrConflict].
func (s *Slots) Onto(ctx context.Context, base, tip, onto string) (string, error) {
	out, err := s.project.git.output(ctx, "log", "-z", "--reverse", "--no-show-signature", "--no-color",
		"--format=%H%n%at%n%B", base+".."+tip)
	if err != nil {
		return "", err
	}
	for _, about := range records(out) {
		id, about, _ := strings.Cut(about, "\n")
		at, message, _ := strings.Cut(about, "\n")
		seconds, err := strconv.ParseInt(at, 10, 64)
		if err != nil {
			return "", err
		}
		m, err := s.apply(ctx, onto, id)
		if err != nil {
			return "", err
		}
		if len(m.conflicts) > 0 {
			return "", fmt.Errorf("%w with what is not committed: %s", ErrConflict, named(m.conflicts))
		}
		if onto, err = s.project.commit(ctx, m.tree, onto, strings.TrimSpace(message), time.Unix(seconds, 0)); err != nil {
			return "", err
		}
	}
	return onto, nil
}

// ErrBranch means that a branch of that name cannot be made.
var ErrBranch = errors.New("no such branch can be made")

// CheckBranch returns an error that wraps [ErrBranch] if name cannot be the name of a branch.
func (s *Slots) CheckBranch(ctx context.Context, name string) error {
	_, err := s.project.git.output(ctx, "check-ref-format", "--branch", name)
	if exitCode(err) > 0 {
		return fmt.Errorf("%w: %q is no name of a branch", ErrBranch, name)
	}
	return err
}

// Branch makes a branch at a commit, unless it is there. A branch elsewhere wraps [ErrBranch]. dry makes nothing.
func (s *Slots) Branch(ctx context.Context, name, commit string, dry bool) error {
	at, err := s.project.git.resolve(ctx, "refs/heads/"+name)
	switch {
	case err != nil:
		return err
	case at == commit || at == "" && dry:
		return nil
	case at != "":
		return fmt.Errorf("%w: %s exists, at %s: give another name", ErrBranch, name, at)
	}
	return s.moveRef(ctx, "refs/heads/"+name, "", commit)
}

// WantsSigned reports whether the user's git signs commits. Those of results are not: they are made again after a crash, and
// have to come out the same.
func (s *Slots) WantsSigned(ctx context.Context) (bool, error) {
	value, err := s.project.git.query(ctx, "config", "--type=bool", "commit.gpgsign")
	return value == "true", err
}

const dropped = "refs/manager/dropped/" // refs of what did not land

// SetAside keeps all refs of a boulder as dropped ones, too, for [Slots.TakeUp].
func (s *Slots) SetAside(ctx context.Context, boulderID string) error {
	return s.copyRefs(ctx, refOf(boulderID), dropped+boulderID+"/")
}

// TakeUp makes the refs of a boulder again from those that were set aside, and leaves those in place.
func (s *Slots) TakeUp(ctx context.Context, boulderID string) error {
	return s.copyRefs(ctx, dropped+boulderID+"/", refOf(boulderID))
}

func (s *Slots) copyRefs(ctx context.Context, from, to string) error {
	refs, err := s.project.git.refs(ctx, from)
	for ref, id := range refs {
		name := strings.TrimPrefix(ref, from)
		if err == nil && !strings.HasPrefix(name, "tip.") { // those are not what a boulder works with
			_, err = s.project.git.output(ctx, "update-ref", to+name, id)
		}
	}
	return err
}

// Free removes the refs of a finished boulder, and its slots, unless they stay in the pool. It keeps under
// refs/manager/dropped/<boulder> the tip, unless it landed, and work of sub-tasks that is not on the tip. It may be called again.
func (s *Slots) Free(ctx context.Context, boulderID, base string, landed bool, onTip func(subTask string) bool) error {
	if err := s.captureAll(ctx, boulderID, base); err != nil {
		return err
	}
	refs, err := s.project.git.refs(ctx, refOf(boulderID))
	if err != nil {
		return err
	}
	for ref, id := range refs {
		name := strings.TrimPrefix(ref, refOf(boulderID))
		subTask, _, _ := strings.Cut(name, "/")
		keep := name == "tip" && !landed && id != base || name != "tip" && name != "base" && !onTip(subTask)
		if keep {
			if _, err := s.project.git.output(ctx, "update-ref", dropped+boulderID+"/"+name, id); err != nil {
				return err
			}
		}
		if err := s.moveRef(ctx, ref, id, ""); err != nil {
			return err
		}
	}
	for _, d := range s.dirs() {
		if err := d.removeStaged(); err != nil {
			return err
		}
	}
	if err := s.freeDirs(ctx, boulderID); err != nil {
		return err
	}
	return s.unlistGone()
}

// captureAll captures what of the boulder's slots is in no ref yet, and removes their temporary directories.
func (s *Slots) captureAll(ctx context.Context, boulderID, base string) error {
	in, lease := s.dirOf(boulderID)
	if in.path() == "" {
		return nil
	}
	root, err := in.open()
	if err != nil {
		return err
	}
	defer root.Close()
	markers, err := fs.Glob(root.FS(), "*.json")
	bare := s.project.Slots() // without a set-up
	bare.OnKept, bare.Home, bare.Instead = s.OnKept, s.Home, s.Instead
	for _, name := range markers {
		name = strings.TrimSuffix(name, ".json")
		n, notSlot := strconv.Atoi(name)
		if notSlot != nil || readMarker(root, name).Lease != lease { // this boulder has not used it
			continue
		}
		if n != combined {
			_, err = bare.prepare(ctx, boulder.SlotClaim{BoulderID: boulderID, Slot: n, Base: base, From: base})
		}
		if err != nil {
			return fmt.Errorf("slot %d of boulder %s: %w", n, boulderID, err)
		}
		if err := os.RemoveAll(tempDir(filepath.Join(in.path(), name))); err != nil {
			return err
		}
	}
	return err
}

// freeDirs gives back the directories of a boulder whose slots are captured, or removes them.
func (s *Slots) freeDirs(ctx context.Context, boulderID string) error {
	for _, d := range s.dirs() {
		err := s.giveBack(ctx, d, boulderID)
		if err == nil {
			err = s.removeDir(d, boulderID)
		}
		if err := errors.Join(err, s.leave(d)); err != nil {
			return err
		}
	}
	return nil
}

// KeptAside returns the directories that [Slots.OnKept] was told of, and that are still there.
func (s *Slots) KeptAside() (dirs []string) {
	for _, dir := range s.Dirs() {
		found, _ := fs.Glob(os.DirFS(dir), "*/"+keptPrefix+"*") // the pattern is valid
		for _, name := range found {
			dirs = append(dirs, filepath.Join(dir, name))
		}
	}
	return dirs
}

// Kept returns the ids of the boulders that have slots or refs.
func (s *Slots) Kept(ctx context.Context) (ids []string, err error) {
	refs, err := s.project.git.refs(ctx, refOf("*", "base"))
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		ids = append(ids, strings.Split(ref, "/")[2])
	}
	return ids, err
}

// Forget deletes the refs of dropped results of the boulders that over reports.
func (s *Slots) Forget(ctx context.Context, over func(boulderID string) bool) error {
	refs, err := s.project.git.refs(ctx, dropped)
	for ref, id := range refs {
		boulderID, _, _ := strings.Cut(strings.TrimPrefix(ref, dropped), "/")
		if err == nil && over(boulderID) {
			err = s.moveRef(ctx, ref, id, "")
		}
	}
	return err
}
