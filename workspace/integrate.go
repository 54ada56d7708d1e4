package workspace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// merged is what two commits come to.
type merged struct {
	tree      string   // with conflict markers in the files of conflicts
	conflicts []string // paths in the project; none: it merges
}

func (s *Slots) merge(ctx context.Context, ours, theirs string) (m merged, err error) {
	out, err := s.project.git.answer(ctx, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
	if err != nil {
		return m, err
	}
	all := records(out)
	if len(all) == 0 || !treeID().MatchString(all[0]) {
		return m, fmt.Errorf("git merge-tree printed %.200q, which is no tree", out)
	}
	m.tree = all[0]
	for _, path := range all[1:] {
		m.conflicts = append(m.conflicts, strings.TrimPrefix(path, s.project.prefix))
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
	out, err := s.project.top().answer(ctx, args...)
	var marked []string
	for _, path := range records(out) {
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
