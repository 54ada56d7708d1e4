package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

const longTimeout = time.Hour // of a git command that talks to another repository, or packs a large one

// network is for commands that talk to other repositories, with the user's credentials but without password prompts.
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

// Ref returns the commit at refs/manager/<boulder>/<name> in the project; empty if there is none.
func (s *Slots) Ref(ctx context.Context, boulderID string, name ...string) (commit string, err error) {
	return s.project.git.resolve(ctx, refOf(boulderID, name...))
}

// Fetch brings refs and their objects from another repository. Concurrent calls get in each other's way.
func (s *Slots) Fetch(ctx context.Context, remote string, refspecs ...string) error {
	args := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--", remote}
	_, err := s.project.git.network(ctx).output(ctx, append(args, refspecs...)...)
	return err
}

// Remote returns the refs of another repository that match a pattern, with their commits.
func (s *Slots) Remote(ctx context.Context, remote, pattern string) (refs map[string]string, err error) {
	out, err := s.project.git.network(ctx).output(ctx, "ls-remote", "--quiet", "--refs", "--", remote, pattern)
	return refsIn(out), err
}

// RefMove moves a ref from one commit to another. An empty commit means that there is no ref.
type RefMove struct{ Ref, From, To string }

// Push makes moves in another repository, all or none. Those that are made already count as made. If a ref is not where
// a move starts, the error wraps [ErrMoved].
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
