package limiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
)

// Status describes a limiter.
type Status struct {
	Model      string   `json:"model"`
	Cap        int      `json:"cap"`
	Set        bool     `json:"set,omitempty"`   // Cap is from [SetCap], not from the latest request
	Asked      int      `json:"asked,omitempty"` // cap of the latest request; 0: no request yet
	Held       []Permit `json:"held,omitempty"`
	Waiting    []Permit `json:"waiting,omitempty"` // in the order of the coming grants
	Rebuilding bool     `json:"rebuilding,omitempty"`
	Unasked    []string `json:"unasked,omitempty"` // boulders that may hold uncounted permits
}

// List returns the status of all limiters, sorted by model; unused models have none. It needs a running worker.
func List(ctx context.Context, c client.Client) (all []Status, err error) {
	var ids []string
	err = list(ctx, c, "WorkflowType = '"+workflowType+"' AND ExecutionStatus = 'Running'", func(id, _ string) { ids = append(ids, id) })
	for _, id := range ids {
		answer, err := c.QueryWorkflow(ctx, id, "", statusQuery)
		var s Status
		if err == nil {
			err = answer.Get(&s)
		}
		if err != nil {
			return nil, fmt.Errorf("ask %s: %w", id, err)
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Model, b.Model) })
	return all, err
}

// Unset removes the cap from [SetCap]. The cap is then that of the latest request.
const Unset = -1

// SetCap sets the cap of a model for all boulders, at once; 0 lets none start. Sessions beyond it continue. It fails
// if no worker runs before the deadline of ctx.
func SetCap(ctx context.Context, c client.Client, model string, n int) (s Status, err error) {
	if err := checkCap(n); err != nil {
		return s, err
	}
	until, _ := ctx.Deadline()
	set := client.UpdateWorkflowOptions{
		WorkflowID: WorkflowID(model), UpdateName: setCapUpdate, Args: []any{n, until}, WaitForStage: client.WorkflowUpdateStageCompleted,
	}
	var update client.WorkflowUpdateHandle
	if n == Unset {
		update, err = c.UpdateWorkflow(ctx, set)
		if _, never := errors.AsType[*serviceerror.NotFound](err); never {
			return s, nil
		}
	} else {
		update, err = c.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: c.NewWithStartWorkflowOperation(client.StartWorkflowOptions{
				ID: WorkflowID(model), TaskQueue: Queue, WorkflowTaskTimeout: taskTimeout, WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
			}, workflowType, State{Model: model}),
			UpdateOptions: set,
		})
	}
	if err == nil {
		err = update.Get(ctx, &s)
	}
	if err != nil {
		return s, fmt.Errorf("set the limit of %s: %w", model, err)
	}
	return s, nil
}

func checkCap(n int) error {
	if n < Unset {
		return fmt.Errorf("a limit of %d: it must be at least 0", n)
	}
	return nil
}
