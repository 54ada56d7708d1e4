// Look shows what goes on in a project: who holds its state, which questions wait, and what a watch would do about the
// user's own sessions now. It changes nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	secrets := project.NewRedactor(os.Environ())
	secrets.Add("own", "hunter-2-is-not-shown")
	p, err := project.Open(".", project.Options{Secrets: secrets})
	if err != nil {
		return err
	}
	defer p.Close()
	fmt.Fprintln(out, "a watch continues a session at most:", iterations(p.Config()))

	there, err := p.Read(ctx)
	if err != nil {
		return err
	}
	defer there.Close()
	fmt.Fprintln(out, "held by:", holder(there.Holder))

	waiting, err := p.ListBlockers(ctx, blockers.Filter{})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "blockers:", len(waiting), awaited(waiting))

	var seen []project.WatchEntry
	err = p.Watch(ctx, project.WatchConfig{
		Once: true, DryRun: true, Policy: p.Config().Watch.Policy, DoneWhen: []string{boulder.DoneTodos},
		Show: func(e project.WatchEntry) { seen = append(seen, e) },
		Note: func(text string) { fmt.Fprintln(out, text) },
	}, os.Getenv("OPENCODE_SERVER"))
	if errors.Is(err, opencode.ErrUnavailable) {
		fmt.Fprintln(out, "no OpenCode server to watch")
		return nil
	}
	fmt.Fprintln(out, "decisions about sessions:", len(seen))
	return err
}

func iterations(c *project.Config) int { return c.Watch.Policy.MaxIterations }

func holder(h *project.Holder) string {
	if h == nil {
		return "nobody"
	}
	return fmt.Sprint("process ", h.PID)
}

func awaited(all []report.Blocker) (ids []string) {
	for _, b := range all {
		if b.Awaited {
			ids = append(ids, b.ID)
		}
	}
	return ids
}
