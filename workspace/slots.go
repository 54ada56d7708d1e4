package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/statedir"
)

// Slots are the directories in which the sub-tasks of isolated boulders work, .manager/slots/<boulder>/<n>: clones that share
// the objects of the project and nothing else. What an attempt leaves in one is a commit in the project, under
// refs/manager/<boulder>/<sub-task>/<attempt>, before the slot is used for anything else.
//
// The project's own HEAD, branches, index, stash, configuration, hooks and files stay as they are. Methods may be called from
// many goroutines at once, for different slots.
type Slots struct {
	SetUp *SetUp // nil: they get the files of a commit alone; not to be changed when the first slot is made

	project  *Workspace
	leaveOut []string
	pinning  sync.Mutex
	making   sync.Map // by directory: a [sync.Mutex] for whoever makes that slot ready
}

// Slots are those of the project. leaveOut is that of [Open].
func (w *Workspace) Slots(leaveOut ...string) *Slots { return &Slots{project: w, leaveOut: leaveOut} }

// Unsupported says why there can be no slots here; empty: there can.
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
	_, _ = fmt.Sscanf(version, "git version %d.%d", &major, &minor) // what it cannot read is too old
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
	for _, has := range []struct{ what, pattern string }{
		{"it is a partial clone", `^(extensions\.partialclone|remote\..*\.promisor)$`},
		{"it is a sparse checkout", `^core\.sparsecheckout$`},
	} {
		out, err := w.git.line(ctx, "config", "--get-regexp", has.pattern)
		switch {
		case err != nil && exitCode(err) != 1:
			return "", err
		case out != "" && !strings.HasSuffix(out, " false"):
			return has.what, nil
		}
	}
	shallow, err := w.git.line(ctx, "rev-parse", "--is-shallow-repository")
	if err == nil && shallow == "true" {
		return "it is a shallow clone", nil
	}
	if err != nil {
		return "", err
	}
	files, err := (git{dir: w.root}).output(ctx, "ls-files", "--stage")
	if err == nil && strings.Contains("\n"+files, "\n160000 ") {
		return "it has submodules", nil
	}
	return "", err
}

// Base is the commit at which slots begin: the project's files as they are, on top of HEAD, or HEAD itself where nothing
// differs or clean says so. Untracked files above 64 MiB are left out. Nothing refers to the commit before [Slots.Prepare].
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

// Tree is that of a commit.
func (s *Slots) Tree(ctx context.Context, commit string) (string, error) {
	return s.project.git.line(ctx, "rev-parse", "--verify", commit+"^{tree}")
}

// commit makes one, in the name of the user where git knows it. The same arguments make the same commit.
func (w *Workspace) commit(ctx context.Context, tree, parent, message string, at time.Time) (string, error) {
	g := w.git
	for _, who := range []struct{ key, is, otherwise string }{
		{"user.name", "NAME", "manager"}, {"user.email", "EMAIL", "manager@localhost"},
	} {
		configured, err := g.line(ctx, "config", who.key)
		if err != nil && exitCode(err) != 1 {
			return "", err
		}
		configured = cmp.Or(configured, who.otherwise)
		g.env = append(g.env, "GIT_AUTHOR_"+who.is+"="+configured, "GIT_COMMITTER_"+who.is+"="+configured)
	}
	date := fmt.Sprintf("@%d +0000", at.Unix())
	g.env = append(g.env, "GIT_AUTHOR_DATE="+date, "GIT_COMMITTER_DATE="+date)
	var out strings.Builder
	args := []string{"commit-tree", tree, "-F", "-"}
	if parent != "" {
		args = append(args, "-p", parent)
	}
	err := g.run(ctx, strings.NewReader(message+"\n"), &out, args...)
	return strings.TrimSpace(out.String()), err
}

// Slot is one that is ready. It is a workspace of its own.
type Slot struct {
	*Workspace
	slots *Slots
	claim boulder.SlotClaim
	dir   string // the top of its work tree
}

// marker is what the file next to a slot says. Without it, or without an owner, the slot is half made.
type marker struct {
	Owner   string `json:"owner"` // sub-task
	Attempt int    `json:"attempt"`
	From    string `json:"from"`
	SetUp   string `json:"set_up,omitempty"` // what Slot.setUp returned
}

// Dir is where a sub-task works: the project's directory, as a place in the clone.
func (s *Slot) Dir() string { return s.git.dir }

// From is the commit that the work in it goes on top of.
func (s *Slot) From() string { return s.claim.From }

func (s *Slots) dirOf(boulderID string) string {
	return filepath.Join(s.project.git.dir, stateDir, "slots", boulderID)
}

func refOf(boulderID string, rest ...string) string {
	return "refs/manager/" + boulderID + "/" + strings.Join(rest, "/")
}

// Prepare makes a slot ready for an attempt and returns it: at From, with what earlier attempts of the sub-task left
// merged onto that, conflict markers included. A slot that the sub-task works in already stays as it is. What another
// sub-task left there is captured before. It may be called again after a crash at any point.
func (s *Slots) Prepare(ctx context.Context, c boulder.SlotClaim) (*Slot, error) {
	making, _ := s.making.LoadOrStore(filepath.Join(s.dirOf(c.BoulderID), strconv.Itoa(c.Slot)), new(sync.Mutex))
	making.(*sync.Mutex).Lock()
	defer making.(*sync.Mutex).Unlock()
	slot, err := s.prepare(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("slot %d of boulder %s: %w", c.Slot, c.BoulderID, err)
	}
	return slot, nil
}

func (s *Slots) prepare(ctx context.Context, c boulder.SlotClaim) (*Slot, error) {
	if boulder.ReservedID(c.SubTaskID) {
		return nil, fmt.Errorf("a sub-task of an isolated run cannot have the id %q: give it another one in the plan", c.SubTaskID)
	}
	if err := s.pin(ctx, c); err != nil {
		return nil, err
	}
	parent, err := statedir.Open(s.project.git.dir, stateDir, "slots", c.BoulderID)
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	name := strconv.Itoa(c.Slot)
	var m marker
	if data, err := parent.ReadFile(name + ".json"); err == nil && json.Unmarshal(data, &m) != nil {
		m = marker{}
	}
	x := &Slot{slots: s, claim: c, dir: filepath.Join(s.dirOf(c.BoulderID), name)}
	if _, err := parent.Stat(name); m.From == "" || err != nil { // half made, or not at all
		if err := errors.Join(s.discard(parent, name), s.discard(parent, name+".new")); err != nil {
			return nil, err
		}
		m = marker{}
		if err := x.clone(ctx, c.Base); err != nil {
			return nil, err
		}
	}
	// A slot whose .git is gone must not be taken for the project around it.
	env := []string{"GIT_CEILING_DIRECTORIES=" + s.dirOf(c.BoulderID)}
	dir := filepath.Join(x.dir, filepath.FromSlash(s.project.prefix))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if x.Workspace, err = open(ctx, dir, env, s.leaveOut); err != nil {
		return nil, err
	}
	if x.reason != "" {
		return nil, fmt.Errorf("%s is no repository any more (%s): save what you need of it, remove it, then run `manager resume`",
			x.dir, x.reason)
	}
	x.large = keepLarge
	newest, _, err := s.newest(ctx, c)
	if err != nil {
		return nil, err
	}
	// A newer attempt than the slot's worked somewhere else.
	refill := m.Owner == "" || m.Owner != c.SubTaskID || m.From != c.From || m.Attempt <= c.Since || m.Attempt < newest
	if refill {
		if m.Owner != "" {
			was := *x
			was.claim.SubTaskID, was.claim.Attempt, was.claim.From = m.Owner, m.Attempt, m.From
			if _, _, err := was.Capture(ctx, ""); err != nil {
				return nil, err
			}
		}
		if err := x.mark(marker{}); err != nil {
			return nil, err
		}
		if err := os.RemoveAll(tempDir(x.dir)); err != nil {
			return nil, err
		}
		if err := x.fill(ctx); err != nil {
			return nil, err
		}
	}
	if err := makeTempDir(x.dir); err != nil {
		return nil, err
	}
	if refill {
		if m.SetUp, err = x.setUp(ctx, m.SetUp); err != nil {
			return nil, err
		}
	}
	return x, x.mark(marker{Owner: c.SubTaskID, Attempt: c.Attempt, From: c.From, SetUp: m.SetUp})
}

func (s *Slot) mark(m marker) error {
	data, err := json.Marshal(m)
	if err == nil {
		err = statedir.Write(s.slots.project.git.dir, markerOf(s.claim.BoulderID, s.claim.Slot), data)
	}
	return err
}

func markerOf(boulderID string, slot int) string {
	return strings.Join([]string{stateDir, "slots", boulderID, strconv.Itoa(slot) + ".json"}, "/")
}

// discard moves what is half made out of the way before it is removed: a child of a manager that was killed may still write
// into it.
func (s *Slots) discard(parent *os.Root, name string) error {
	gone := ".gone-" + name + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := parent.Rename(name, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = parent.RemoveAll(gone) // what is left goes with the boulder's slots
	return nil
}

// pin makes the refs of the base and of the tip, if they are not there.
func (s *Slots) pin(ctx context.Context, c boulder.SlotClaim) error {
	s.pinning.Lock() // slots are made side by side
	defer s.pinning.Unlock()
	for _, name := range []string{"base", "tip"} {
		_, err := s.project.git.output(ctx, "rev-parse", "--verify", "--quiet", refOf(c.BoulderID, name))
		if exitCode(err) == 1 {
			err = s.moveRef(ctx, refOf(c.BoulderID, name), "", c.Base)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moveRef moves a ref of the project from one commit, or none, to another, or none.
func (s *Slots) moveRef(ctx context.Context, ref, from, to string) error {
	args := []string{"update-ref", ref, to, from} // without from, there must be none
	if to == "" {
		args = []string{"update-ref", "-d", ref, from}
	}
	_, err := s.project.git.output(ctx, args...)
	return err
}

// clone makes the repository of a slot, without files. `git clone --shared` would set up a remote to push to, and branches
// that follow it.
func (s *Slot) clone(ctx context.Context, base string) error {
	p := s.slots.project
	out, err := p.git.output(ctx, "rev-parse", "--path-format=absolute", "--git-path", "objects", "--git-path", "info/exclude",
		"--git-path", "lfs", "--show-object-format")
	about := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if err == nil && len(about) != 4 {
		err = fmt.Errorf("git does not say where its objects are: %q", out)
	}
	if err != nil {
		return err
	}
	making := s.dir + ".new"
	if _, err := p.git.output(ctx, "init", "--quiet", "--template=", "--object-format="+about[3], making); err != nil {
		return err
	}
	g := git{dir: making, env: []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(making)}}
	exclude, err := os.ReadFile(about[1])
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	inGit := func(name string) string { return filepath.Join(making, ".git", filepath.FromSlash(name)) }
	if err := os.MkdirAll(inGit("info"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(inGit("objects/info/alternates"), []byte(about[0]+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(inGit("info/exclude"), exclude, 0o600); err != nil {
		return err
	}
	if _, err := g.output(ctx, "update-ref", "--no-deref", "HEAD", base); err != nil {
		return err
	}
	if _, err := g.output(ctx, "config", "lfs.storage", about[2]); err != nil {
		return err
	}
	// What tools look at to know where they are: git describe, nx, turbo, `git diff main`.
	_, err = g.output(ctx, "fetch", "--quiet", "--no-write-fetch-head", "--update-head-ok", "--no-recurse-submodules", p.root,
		"+refs/heads/*:refs/heads/*", "+refs/remotes/*:refs/remotes/*", "+refs/tags/*:refs/tags/*")
	if err == nil {
		err = s.configure(ctx, g)
	}
	if err == nil {
		err = os.Rename(making, s.dir)
	}
	return err
}

// configure gives a slot the settings of the project by which commits and files come out the same there, and remotes to read
// from that nothing can be pushed to.
func (s *Slot) configure(ctx context.Context, g git) error {
	out, err := s.slots.project.git.output(ctx, "config", "--local", "-z", "--get-regexp",
		`^(user|filter|merge)\.|^core\.(autocrlf|eol|excludesfile|attributesfile)$|^remote\..*\.(url|fetch)$`)
	if err != nil && exitCode(err) != 1 {
		return err
	}
	for entry := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		key, value, _ := strings.Cut(entry, "\n")
		if key == "" {
			continue
		}
		if _, err := g.output(ctx, "config", "--add", key, value); err != nil {
			return err
		}
		if remote, url := strings.CutSuffix(key, ".url"); url {
			if _, err := g.output(ctx, "config", remote+".pushurl", "slots-do-not-push"); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill puts the files of From into the slot, with the newest work of the sub-task merged onto them.
func (s *Slot) fill(ctx context.Context) error {
	tree := s.claim.From + "^{tree}"
	if _, work, err := s.slots.newest(ctx, s.claim); err != nil {
		return err
	} else if work != "" {
		m, err := s.slots.apply(ctx, s.claim.From, work)
		if err != nil {
			return err
		}
		tree = m.tree
	}
	top := s.git
	top.dir = s.dir
	for _, name := range []string{"rebase-merge", "rebase-apply", "sequencer", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "index.lock"} {
		if err := os.RemoveAll(filepath.Join(s.dir, ".git", name)); err != nil { // of the agent that was here before
			return err
		}
	}
	if _, err := top.output(ctx, "update-ref", "-d", "refs/stash"); err != nil {
		return err
	}
	if _, err := top.output(ctx, "checkout", "--quiet", "--force", "--detach", s.claim.From); err != nil {
		return err
	}
	if _, err := top.output(ctx, "read-tree", "--reset", "-u", tree); err != nil {
		return err
	}
	if _, err := top.output(ctx, "clean", "-ffdq"); err != nil {
		return err
	}
	return os.MkdirAll(s.Dir(), 0o700)
}

// newest is the newest attempt of a sub-task that left anything, and what; zero: there is none.
func (s *Slots) newest(ctx context.Context, c boulder.SlotClaim) (last int, commit string, err error) {
	if c.SubTaskID == "" {
		return 0, "", nil
	}
	out, err := s.project.git.output(ctx, "for-each-ref", "--format=%(refname:lstrip=4) %(objectname)",
		refOf(c.BoulderID, c.SubTaskID))
	last = c.Since
	for line := range strings.Lines(out) {
		attempt, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.Atoi(attempt); err == nil && n > last {
			last, commit = n, id
		}
	}
	return last, commit, err
}

// Capture makes a commit of a snapshot of the slot, on top of From, and the ref that keeps it in the project. An empty tree
// is the files as they are.
func (s *Slot) Capture(ctx context.Context, tree string) (commit, captured string, err error) {
	if tree == "" {
		if tree, err = s.Snapshot(ctx); err != nil {
			return "", "", err
		}
	}
	attempt := strconv.Itoa(s.claim.Attempt)
	commit, err = s.share(ctx, tree, fmt.Sprintf("%s, attempt %s", s.claim.SubTaskID, attempt), ":"+refOf(s.claim.BoulderID, s.claim.SubTaskID, attempt))
	return commit, tree, err
}

// share makes a commit of a snapshot of the slot, on top of From, that the project has too; ref is where, after a colon.
func (s *Slot) share(ctx context.Context, tree, message, ref string) (commit string, err error) {
	if commit, err = s.commit(ctx, tree, s.claim.From, message, time.Unix(0, 0)); err != nil {
		return "", err
	}
	_, err = s.slots.project.git.output(ctx, "-c", "protocol.version=2", "fetch", "--quiet", "--no-tags",
		"--no-write-fetch-head", "--no-recurse-submodules", s.dir, "+"+commit+ref)
	return commit, err
}

// Lay puts the files of a tree into the slot, but of some paths what From has. One that is not in From is an error.
func (s *Slot) Lay(ctx context.Context, tree string, paths []string) error {
	if _, err := (git{dir: s.dir, env: s.git.env}).output(ctx, "read-tree", "--reset", "-u", tree); err != nil {
		return err
	}
	args := []string{"checkout", "--quiet", s.claim.From, "--"}
	for _, path := range paths {
		args = append(args, ":(literal)"+path)
	}
	_, err := s.git.output(ctx, args...)
	return err
}

// Shared is a snapshot of the slot that the project has too. Nothing refers to it there.
func (s *Slot) Shared(ctx context.Context) (tree string, err error) {
	if tree, err = s.Snapshot(ctx); err == nil {
		_, err = s.share(ctx, tree, "generated files", "")
	}
	return tree, err
}

// merged is what two commits come to.
type merged struct {
	tree      string   // with conflict markers in the files of conflicts
	conflicts []string // paths in the project; none: it merges
}

func (s *Slots) merge(ctx context.Context, ours, theirs string) (m merged, err error) {
	out, err := s.project.git.output(ctx, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
	if err != nil && exitCode(err) != 1 {
		return m, err
	}
	lines := strings.Split(strings.TrimRight(out, "\x00"), "\x00")
	m.tree = lines[0]
	for _, path := range lines[1:] {
		m.conflicts = append(m.conflicts, strings.TrimPrefix(path, s.project.prefix))
	}
	if !treeID().MatchString(m.tree) {
		return m, fmt.Errorf("git merge-tree printed %.200q, which is no tree", out)
	}
	return m, nil
}

// apply merges the change that a commit makes to its parent into another commit, whichever line that parent is on.
func (s *Slots) apply(ctx context.Context, onto, change string) (merged, error) {
	parent, err := s.project.git.line(ctx, "rev-parse", "--verify", change+"^")
	if err == nil && parent != onto {
		var tree string
		if tree, err = s.Tree(ctx, onto); err == nil { // beside the change, so that its parent is the base of the merge
			onto, err = s.project.commit(ctx, tree, parent, "beside", time.Unix(0, 0))
		}
	}
	if err != nil {
		return merged{}, err
	}
	return s.merge(ctx, onto, change)
}

// Integrate puts a result onto a tip: the tree that they come to, and where they merge, a commit of it on the tip: the tip
// itself if nothing differs from it. Nothing refers to the commit yet.
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

// Commit is one of a tree that the project has, on top of parent.
func (s *Slots) Commit(ctx context.Context, tree, parent, message string, at time.Time) (string, error) {
	return s.project.commit(ctx, tree, parent, message, at)
}

// Marked are those of the paths that have conflict markers in a tree.
func (s *Slots) Marked(ctx context.Context, tree string, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	args := []string{"grep", "-z", "-l", "-E", "^(<{7}|>{7}) ", tree, "--"}
	for _, path := range paths {
		args = append(args, ":(literal)"+s.project.prefix+path)
	}
	out, err := (git{dir: s.project.root}).output(ctx, args...)
	if exitCode(err) == 1 {
		return nil, nil
	}
	var marked []string
	for path := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		marked = append(marked, strings.TrimPrefix(path, tree+":"+s.project.prefix))
	}
	return marked, err
}

// ErrMoved is in the chain of the error of a ref that is not where this program put it.
var ErrMoved = errors.New("it was moved by another process")

// MoveTip moves refs/manager/<boulder>/tip from one commit to the next, and keeps the one that the other does not go on top of, as
// tip.<commit>. One that is there already stays; one that is anywhere
// else is an error that wraps [ErrMoved].
func (s *Slots) MoveTip(ctx context.Context, boulderID, from, to string) error {
	ref := refOf(boulderID, "tip")
	at, err := s.project.git.line(ctx, "rev-parse", "--verify", ref)
	switch {
	case err != nil:
		return err
	case at == to:
		return nil
	case at != from:
		return fmt.Errorf("%s is at %s, and was left at %s: %w; put it back with `git update-ref %s %s`, then run `manager resume`",
			ref, at, from, ErrMoved, ref, from)
	}
	if _, err := s.project.git.output(ctx, "merge-base", "--is-ancestor", from, to); exitCode(err) == 1 {
		if _, err := s.project.git.output(ctx, "update-ref", ref+"."+from[:10], from); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return s.moveRef(ctx, ref, from, to)
}
