package cli

import (
	"context"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project"
)

// checkFork refuses what does not go with --fork.
func (o *runOptions) checkFork(args []string) error {
	switch {
	case len(args) > 0:
		return usagef("--fork runs the plan of a boulder, so it takes no task and no plan file")
	case o.from == "":
		return usagef("--fork needs the sub-task from which on the work is done anew: --from SUBTASK")
	case len(o.doneWhen) > 0:
		return usagef("a fork is done when the original was, so --done-when does not go with it")
	case o.list || o.direct || o.plan || o.edit || len(o.constraints) > 0:
		return usagef("a fork runs the plan of the original as it is: --from-list, --direct, --plan, --edit and" +
			" --constraint do not go with it")
	}
	return nil
}

// forked finds the boulder and the sub-task that a person means with --fork and --from; nil without --fork.
func (o *runOptions) forked(ctx context.Context, r reader) (*boulder.Fork, error) {
	if o.fork == "" {
		return nil, nil
	}
	id, err := project.Resolve(ctx, r, o.fork)
	if err != nil {
		return nil, err
	}
	detail, err := r.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	detail.SubTasks = slices.DeleteFunc(detail.SubTasks, func(t boulder.SubTask) bool {
		return t.Status == boulder.SubTaskSuperseded
	})
	t, err := findSubTask(detail, o.from)
	if err != nil {
		return nil, err
	}
	return &boulder.Fork{BoulderID: id, SubTaskID: t.ID}, nil
}
