package workspace

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Slots are the directories in which the sub-tasks of isolated boulders work, .manager/slots/<boulder>/<n>: clones that share
// the objects of the project and nothing else. What an attempt leaves in one is a commit in the project, under
// refs/manager/<boulder>/<sub-task>/<attempt>, before the slot is used for anything else.
//
// The project's own HEAD, branches, index, stash, configuration, hooks and files stay as they are. Methods may be called from
// many goroutines at once, for different slots.
type Slots struct {
	SetUp *SetUp // nil: they get the files of a commit alone; not to be changed when the first slot is made

	project *Workspace
	pinning sync.Mutex
	making  sync.Map // by directory: a [sync.Mutex] for whoever makes that slot ready
}

// Slots are those of the project. What [Open] leaves out of its snapshots is left out of theirs.
func (w *Workspace) Slots() *Slots { return &Slots{project: w} }

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
		out, err := w.git.answer(ctx, "config", "--get-regexp", has.pattern)
		switch {
		case err != nil:
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
	files, err := w.top().output(ctx, "ls-files", "--stage")
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
		configured, err := g.answer(ctx, "config", who.key)
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

// pin makes the refs of the base and of the tip, if they are not there.
func (s *Slots) pin(ctx context.Context, c boulder.SlotClaim) error {
	s.pinning.Lock() // slots are made side by side
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

// moveRef moves a ref of the project from one commit, or none, to another, or none.
func (s *Slots) moveRef(ctx context.Context, ref, from, to string) error {
	args := []string{"update-ref", ref, to, from} // without from, there must be none
	if to == "" {
		args = []string{"update-ref", "-d", ref, from}
	}
	_, err := s.project.git.output(ctx, args...)
	return err
}
