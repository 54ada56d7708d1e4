package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// longTimeout ends a git command that talks to another repository, or packs a large one, and hangs.
const longTimeout = time.Hour

// network is for commands that talk to other repositories: they may take longer, and find the user's way to log in, but ask
// nobody for a password.
func (g git) network(ctx context.Context) git {
	g.timeout = longTimeout
	for _, name := range []string{"GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS"} {
		if value, ok := os.LookupEnv(name); ok {
			g.env = append(g.env, name+"="+value)
		}
	}
	configured, _ := g.line(ctx, "config", "core.sshCommand")
	if configured+os.Getenv("GIT_SSH")+os.Getenv("GIT_SSH_COMMAND") == "" {
		g.env = append(g.env, "GIT_SSH_COMMAND=ssh -o BatchMode=yes")
	}
	return g
}

// Ref is the commit that the project has at refs/manager/<boulder>/<name>; empty: there is none.
func (s *Slots) Ref(ctx context.Context, boulderID string, name ...string) (commit string, err error) {
	return s.project.git.resolve(ctx, refOf(boulderID, name...))
}

// Fetch brings refs and what they need from another repository. Two at the same time get in each other's way.
func (s *Slots) Fetch(ctx context.Context, remote string, refspecs ...string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--", remote}
	_, err := s.project.git.network(ctx).output(ctx, append(args, refspecs...)...)
	return err
}

// Remote are the refs of another repository that a pattern fits, and where they are.
func (s *Slots) Remote(ctx context.Context, remote, pattern string) (refs map[string]string, err error) {
	out, err := s.project.git.network(ctx).output(ctx, "ls-remote", "--quiet", "--refs", "--", remote, pattern)
	return refsIn(out), err
}

// RefMove is how a ref changes: from one commit, or none, to another, or none.
type RefMove struct{ Ref, From, To string }

// Push makes changes of refs in another repository, all or none; git leaves those alone that are made already. If a ref is
// somewhere else than where it comes from, the error wraps [ErrMoved].
func (s *Slots) Push(ctx context.Context, remote string, moves ...RefMove) error {
	args := []string{"push", "--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no"}
	var specs []string
	for _, m := range moves {
		args = append(args, "--force-with-lease="+m.Ref+":"+m.From)
		specs = append(specs, m.To+":"+m.Ref)
	}
	if len(moves) > 1 {
		args = append(args, "--atomic")
	}
	_, err := s.project.git.network(ctx).output(ctx, append(append(args, "--", remote), specs...)...)
	if exitCode(err) <= 0 {
		return err
	}
	for _, m := range moves {
		there, lookErr := s.Remote(ctx, remote, m.Ref)
		if lookErr != nil {
			return errors.Join(err, lookErr)
		}
		if at := there[m.Ref]; at != m.To && at != m.From {
			return fmt.Errorf("%s of %s is at %s, and not at %s: %w",
				m.Ref, remote, cmp.Or(at, "no commit"), cmp.Or(m.From, "no commit"), ErrMoved)
		}
	}
	return err
}
