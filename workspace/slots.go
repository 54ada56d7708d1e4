package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Slots are the directories in which the sub-tasks of isolated boulders work: clones that share only the objects of the
// project. Before a slot is used again, what an attempt left in it is committed to the
// project as refs/manager/<boulder>/<sub-task>/<attempt>.
//
// The project's HEAD, branches, index, stash, configuration, hooks and files stay as they are. Methods may be called at
// once for different slots.
type Slots struct {
	SetUp *SetUp // nil: only the files of a commit; do not change it once a slot is made
	// Pool is how many slots stay for the next boulder at most, besides those in which results are tested together; 0: none.
	// None do in .manager/slots.
	Pool int
	// OnKept is told of a directory that is kept when its slot is used again or freed, since it has files that could not be
	// stored: paths below it, with reasons. Nothing removes it. It may be called concurrently; nil: not told.
	OnKept func(dir string, files []string)
	// Home returns the directory outside of the project below which it gets a directory for slots. It need not be there.
	// Nil: they are in .manager/slots.
	Home func() (string, error)
	// Instead is told why slots are made in .manager/slots although Home is set. It may be called repeatedly, and concurrently.
	// Nil: then none are made, and the error wraps [boulder.ErrSlots].
	Instead func(why error)

	project *Workspace
	pinning sync.Mutex
	onStep  func() error // for tests: before each change of the user's files by landing
	// ignoresCase is for tests: as if the file system took names that differ in case for one.
	ignoresCase bool
	making      sync.Map // directory → [sync.Mutex], held while the slot is prepared
}

// Slots returns the project's slots. Their snapshots leave out what [Open] was told to.
func (w *Workspace) Slots() *Slots { return &Slots{project: w} }

// Unsupported says why slots cannot be used here; empty if they can.
func (s *Slots) Unsupported(ctx context.Context) (reason string, err error) {
	w := s.project
	if w.reason != "" {
		return w.reason, nil
	}
	version, err := w.git.line(ctx, "version")
	if err != nil {
		return "", err
	}
	var major, minor int
	_, _ = fmt.Sscanf(version, "git version %d.%d", &major, &minor) // an unreadable version counts as too old
	if major < 2 || major == 2 && minor < 38 {                      // the first with git merge-tree --write-tree
		return fmt.Sprintf("slots need git 2.38 or later, and this is %s", version), nil
	}
	head, err := w.Head(ctx)
	switch {
	case err != nil:
		return "", err
	case head == "":
		return "the repository has no commit yet", nil
	}
	if w.sparse {
		return "it is a sparse checkout", nil
	}
	from, err := w.git.query(ctx, "config", "extensions.partialClone")
	if err != nil {
		return "", err
	}
	promisors, err := w.git.query(ctx, "config", "--type=bool", "--get-regexp", `^remote\..*\.promisor$`)
	if err != nil {
		return "", err
	}
	if from != "" || strings.Contains(promisors+"\n", " true\n") {
		return "it is a partial clone", nil
	}
	shallow, err := w.git.line(ctx, "rev-parse", "--is-shallow-repository")
	if err == nil && shallow == "true" {
		return "it is a shallow clone", nil
	}
	if err != nil {
		return "", err
	}
	files, err := w.top().output(ctx, "ls-files", "--stage")
	if err == nil && strings.Contains("\n"+files, "\n160000 ") {
		return "it has submodules", nil
	}
	if err != nil {
		return "", err
	}
	if reason, err = w.missingFilter(ctx); reason != "" || err != nil {
		return reason, err
	}
	others, err := w.git.output(ctx, append([]string{"ls-files", "-z", "--others", "--exclude-standard", "--"}, w.scope...)...)
	for _, path := range records(others) {
		if dir, repository := strings.CutSuffix(path, "/"); repository {
			return "it has a repository inside, which copies would lack: " + dir + " (if git ignores it, it does not count)", err
		}
	}
	return "", err
}

// Base returns the commit at which slots begin: the project's files on top of HEAD, or HEAD if nothing differs or clean
// is set. Untracked files above 64 MiB are left out. Nothing refers to the commit before [Slots.Prepare].
func (s *Slots) Base(ctx context.Context, clean bool, at time.Time) (string, error) {
	head, err := s.project.Head(ctx)
	if err != nil || clean {
		return head, err
	}
	w := *s.project
	w.large = leaveOutLarge
	tree, err := w.Snapshot(ctx)
	if err != nil {
		return "", err
	}
	headTree, err := s.Tree(ctx, head)
	if err != nil || tree == headTree {
		return head, err
	}
	return s.project.commit(ctx, tree, head, "Files as they were when the run began", at)
}

// Tree returns the tree of a commit.
func (s *Slots) Tree(ctx context.Context, commit string) (string, error) {
	return s.project.git.line(ctx, "rev-parse", "--verify", commit+"^{tree}")
}

// Has reports whether the repository has a commit.
func (s *Slots) Has(ctx context.Context, commit string) bool {
	_, err := s.Tree(ctx, commit)
	return exitCode(err) <= 0
}

// commit makes a commit in the name of the user, if git knows it. The same arguments make the same commit.
func (w *Workspace) commit(ctx context.Context, tree, parent, message string, at time.Time) (string, error) {
	g := w.git
	for _, who := range []struct{ key, is, otherwise string }{
		{"user.name", "NAME", "manager"}, {"user.email", "EMAIL", "manager@localhost"},
	} {
		configured, err := g.query(ctx, "config", who.key)
		if err != nil {
			return "", err
		}
		configured = cmp.Or(configured, who.otherwise)
		g.env = append(g.env, "GIT_AUTHOR_"+who.is+"="+configured, "GIT_COMMITTER_"+who.is+"="+configured)
	}
	date := fmt.Sprintf("@%d +0000", at.Unix())
	g.env = append(g.env, "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	args := []string{"commit-tree", tree, "-F", "-"}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	out, err := g.feed(ctx, message+"\n", args...)
	return strings.TrimSpace(out), err
}

// pin makes the refs of the base and the tip, if they are missing.
func (s *Slots) pin(ctx context.Context, c boulder.SlotClaim) error {
	s.pinning.Lock() // slots are made concurrently
	defer s.pinning.Unlock()
	for _, name := range []string{"base", "tip"} {
		at, err := s.Ref(ctx, c.BoulderID, name)
		if err == nil && at == "" {
			err = s.moveRef(ctx, refOf(c.BoulderID, name), "", c.Base)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moveRef moves a ref of the project from one commit to another. An empty commit means that there is no ref.
func (s *Slots) moveRef(ctx context.Context, ref, from, to string) error {
	args := []string{"update-ref", ref, to, from} // an empty from: there must be no ref
	if to == "" {
		args = []string{"update-ref", "-d", ref, from}
	}
	_, err := s.project.git.output(ctx, args...)
	return err
}

type merged struct {
	tree      string           // with conflict markers in the files of conflicts
	conflicts []string         // paths in the project; none: a clean merge
	sides     map[string]sides // of conflicts, by path from the top of the work tree
}

func (s *Slots) merge(ctx context.Context, ours, theirs string) (m merged, err error) {
	out, err := s.project.git.query(ctx, "merge-tree", "--write-tree", "-z", "--no-messages", ours, theirs)
	if err != nil {
		return m, err
	}
	all := records(out)
	if len(all) == 0 || !treeID().MatchString(all[0]) {
		return m, fmt.Errorf("git merge-tree printed %.200q, which is no tree", out)
	}
	m.tree = all[0]
	m.sides, err = stagesIn(all[1:])
	for _, path := range slices.Sorted(maps.Keys(m.sides)) {
		m.conflicts = append(m.conflicts, strings.TrimPrefix(path, s.project.prefix))
	}
	return m, err
}

// apply merges the change of a commit, relative to its parent, into another commit on any trunk.
func (s *Slots) apply(ctx context.Context, onto, change string) (merged, error) {
	parent, err := s.project.git.line(ctx, "rev-parse", "--verify", change+"^")
	if err == nil && parent != onto {
		var tree string
		if tree, err = s.Tree(ctx, onto); err == nil { // a sibling of the change, so that its parent is the merge base
			onto, err = s.project.commit(ctx, tree, parent, "beside", time.Unix(0, 0))
		}
	}
	if err != nil {
		return merged{}, err
	}
	return s.merge(ctx, onto, change)
}

// Integrate merges a result onto a tip. It returns the merged tree and, without conflicts, a commit of it on the tip,
// or the tip itself if nothing differs. Nothing refers to the commit yet.
func (s *Slots) Integrate(
	ctx context.Context, tip, result, message string, at time.Time,
) (commit, tree string, conflicts []string, err error) {
	m, err := s.apply(ctx, tip, result)
	tipTree := ""
	if err == nil {
		tipTree, err = s.Tree(ctx, tip)
	}
	switch {
	case err != nil || len(m.conflicts) > 0:
	case m.tree == tipTree:
		commit = tip
	default:
		commit, err = s.project.commit(ctx, m.tree, tip, message, at)
	}
	if err != nil {
		err = fmt.Errorf("merge %s onto %s: %w", result, tip, err)
	}
	return commit, m.tree, m.conflicts, err
}

// Commit commits a tree that the project has, on top of parent.
func (s *Slots) Commit(ctx context.Context, tree, parent, message string, at time.Time) (string, error) {
	return s.project.commit(ctx, tree, parent, message, at)
}

// Marked returns those of the paths that have conflict markers in a tree.
func (s *Slots) Marked(ctx context.Context, tree string, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	args := []string{"grep", "-z", "-l", "-E", "^(<{7}|>{7}) ", tree, "--"}
	for _, path := range paths {
		args = append(args, ":(literal)"+s.project.prefix+path)
	}
	out, err := s.project.top().query(ctx, args...)
	var marked []string
	for _, path := range records(out) {
		marked = append(marked, strings.TrimPrefix(path, tree+":"+s.project.prefix))
	}
	return marked, err
}

// ErrMoved means that a ref is not where this program put it.
var ErrMoved = errors.New("it was moved by another process")

// MoveTip moves refs/manager/<boulder>/tip from one commit to the next. A ref that is already there stays; anywhere
// else, the error wraps [ErrMoved]. A from that to does not contain is kept as tip.<commit>.
func (s *Slots) MoveTip(ctx context.Context, boulderID, from, to string) error {
	ref := refOf(boulderID, "tip")
	at, err := s.project.git.resolve(ctx, ref)
	switch {
	case err != nil:
		return err
	case at == to:
		return nil
	case at != from:
		return fmt.Errorf("%s is at %s, and was left at %s: %w; put it back with `git update-ref %s %s`, then run `manager resume`",
			ref, at, from, ErrMoved, ref, from)
	}
	aside, err := s.project.git.line(ctx, "rev-list", "-1", from, "^"+to)
	if err == nil && aside != "" {
		_, err = s.project.git.output(ctx, "update-ref", ref+"."+from[:10], from)
	}
	if err != nil {
		return err
	}
	return s.moveRef(ctx, ref, from, to)
}
