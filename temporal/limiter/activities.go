package limiter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"
)

const (
	// askTime bounds the wait for a boulder's answer. The first query after a worker died takes 5 s (observed).
	askTime = 15 * time.Second
	// askTries is how often [rebuild] asks before it continues without the boulders that do not answer: one broken
	// workflow must not stop all others.
	askTries = 8
)

type found struct {
	Cap     *int      `json:"cap,omitempty"` // from [SetCap] on an earlier limiter
	Held    []Permit  `json:"held,omitempty"`
	Waiting []request `json:"waiting,omitempty"`
	Unasked []string  `json:"unasked,omitempty"`
}

// send sends a request to the model's limiter, and starts the limiter if none runs.
func send(ctx context.Context, model string, r request) error {
	_, err := activity.GetClient(ctx).SignalWithStartWorkflow(ctx, WorkflowID(model), requestSignal, r,
		client.StartWorkflowOptions{TaskQueue: Queue, WorkflowTaskTimeout: taskTimeout}, workflowType, State{Model: model})
	return err
}

// giveBack releases a permit. If no limiter runs there is nothing to release.
func giveBack(ctx context.Context, model string, p Permit) error {
	err := activity.GetClient(ctx).SignalWorkflow(ctx, WorkflowID(model), "", releaseSignal, p)
	if errors.As(err, new(*serviceerror.NotFound)) {
		return nil
	}
	return err
}

// ended returns the permits whose boulder has ended or was started again. Continue-as-new counts as neither.
func ended(ctx context.Context, held []Permit) (gone []Permit, err error) {
	for _, p := range held {
		about, err := activity.GetClient(ctx).DescribeWorkflowExecution(ctx, p.Boulder, "")
		if errors.As(err, new(*serviceerror.NotFound)) {
			gone = append(gone, p)
		}
		if err != nil {
			continue
		}
		info := about.GetWorkflowExecutionInfo()
		begunAgain := info.GetFirstRunId() != "" && info.GetFirstRunId() != p.Run // empty before server 1.25
		if info.GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING || begunAgain {
			gone = append(gone, p)
		}
	}
	return gone, nil
}

// rebuild asks all running boulders for their permits and requests of a model.
func rebuild(ctx context.Context, model string) (f found, err error) {
	c := activity.GetClient(ctx)
	if f.Cap, err = lastCap(ctx, c, model); err != nil {
		return f, err
	}
	var answers sync.Mutex
	var asking errgroup.Group
	asking.SetLimit(16)
	err = list(ctx, c, "WorkflowType = '"+BoulderType+"' AND ExecutionStatus = 'Running'", func(id, run string) {
		asking.Go(func() error {
			var h holding
			err := ask(ctx, c, id, run, model, &h)
			activity.RecordHeartbeat(ctx) // a lost worker is noticed soon: nobody gets a permit meanwhile
			answers.Lock()
			defer answers.Unlock()
			if err != nil {
				f.Unasked = append(f.Unasked, id)
			}
			f.Held, f.Waiting = append(f.Held, h.Held...), append(f.Waiting, h.Waiting...)
			return nil
		})
	})
	_ = asking.Wait()
	if err == nil && len(f.Unasked) > 0 && activity.GetInfo(ctx).Attempt < askTries {
		err = fmt.Errorf("boulders that do not say what they hold of %s: %s", model, strings.Join(f.Unasked, ", "))
	}
	return f, err
}

// ask queries one boulder. It leaves h as it is if the boulder has ended.
func ask(ctx context.Context, c client.Client, id, run, model string, h *holding) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer, err := c.QueryWorkflowWithOptions(ctx, &client.QueryWorkflowWithOptionsRequest{
		WorkflowID: id, RunID: run, QueryType: permitsQuery, Args: []any{model},
		QueryRejectCondition: enums.QUERY_REJECT_CONDITION_NOT_OPEN,
	})
	switch {
	case errors.As(err, new(*serviceerror.NotFound)) || err == nil && answer.QueryRejected != nil:
		return nil
	case err != nil:
		return err
	}
	return answer.QueryResult.Get(h)
}

// lastCap returns the last cap from [SetCap]; nil if there was none, or the server no longer keeps that workflow.
func lastCap(ctx context.Context, c client.Client, model string) (*int, error) {
	query := "WorkflowId = '" + strings.ReplaceAll(WorkflowID(model), "'", "''") + "' AND ExecutionStatus != 'Running'"
	page, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 1}) // newest first
	if err != nil || len(page.Executions) == 0 {
		return nil, err
	}
	payload := page.Executions[0].GetMemo().GetFields()[memoCap]
	if payload == nil {
		return nil, nil
	}
	n := new(int)
	return n, converter.GetDefaultDataConverter().FromPayload(payload, n)
}

func list(ctx context.Context, c client.Client, query string, f func(id, run string)) error {
	for token, first := []byte(nil), true; first || len(token) > 0; first = false {
		page, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: query, NextPageToken: token})
		if err != nil {
			return err
		}
		for _, w := range page.Executions {
			f(w.GetExecution().GetWorkflowId(), w.GetExecution().GetRunId())
		}
		token = page.NextPageToken
	}
	return nil
}
