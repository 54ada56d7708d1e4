package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
)

const blockersUsage = "nobody is here: what only a person can answer is taken down, and agents go on without " +
	"(see 'manager blockers')"

func blockersFlag(cmd *cobra.Command, to *bool) {
	cmd.Flags().BoolVar(to, "blockers", false, blockersUsage)
}

// warnOfSwitch says that --blockers was typed in vain.
func (a *app) warnOfSwitch(typed bool) {
	if !typed {
		return
	}
	if d, err := a.blockers(); err == nil && !d.On(boulder.BlockerScope{Diverted: true}) { // an error is told later
		a.warn("--blockers changes nothing: `manager blockers off` was said for this project, and counts more. Take it back" +
			" with: manager blockers unset")
	}
}

// blockers opens the blockers of the project that the command line is about.
func (a *app) blockers() (*blockers.Desk, error) {
	p, err := a.open()
	if err != nil {
		return nil, err
	}
	return p.Blockers()
}

// settle stores an answer to a blocker, and hands it to its boulder.
func (a *app) settle(ctx context.Context, d *blockers.Desk, id string, s blockers.Settlement) (*settled, error) {
	p, err := a.open()
	if err != nil {
		return nil, err
	}
	report, err := p.Answer(ctx, d, id, s)
	return (*settled)(report), err
}

// settled is what `manager blockers answer` and `skip` print, and clarify for each answer.
type settled project.Answered

// warnOfSecret says that a text held secrets, and what becomes of it.
func (a *app) warnOfSecret(what string, kinds []string) {
	if p, err := a.open(); err == nil {
		p.WarnOfSecret(what, kinds)
	}
}
