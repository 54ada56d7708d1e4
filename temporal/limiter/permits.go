package limiter

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"
)

const (
	permitsQuery = "permits"
	// repeatAfter is when a request is repeated: a terminated limiter starts only with the next request.
	repeatAfter = 5 * time.Minute
)

func grantSignal(id string) string { return "granted/" + id }

// Permits holds the permits and requests of a boulder's workflow. A new limiter queries them.
type Permits struct {
	boulder, run string
	requests     int
	list         []*permit // in the order of requests
}

type permit struct {
	request
	model string
	held  bool
}

type holding struct {
	Held    []Permit  `json:"held,omitempty"`
	Waiting []request `json:"waiting,omitempty"`
}

// NewPermits registers the query handler. Call it once, at the start of the workflow.
func NewPermits(ctx workflow.Context) (*Permits, error) {
	info := workflow.GetInfo(ctx)
	p := &Permits{boulder: info.WorkflowExecution.ID, run: info.FirstRunID}
	return p, workflow.SetQueryHandler(ctx, permitsQuery, func(model string) (h holding, err error) {
		for _, one := range p.list {
			switch {
			case one.model != model:
			case one.held:
				h.Held = append(h.Held, one.Permit)
			default:
				h.Waiting = append(h.Waiting, one.request)
			}
		}
		return h, nil
	})
}

// Acquire waits for a permit to use a model. limit is the configured cap, which [SetCap] overrides. what is for
// display, such as <sub-task>/<attempt>. Call release once, after the use has ended, also if ctx is cancelled by then.
// The error is that of ctx, or says that no limiter can be reached.
func (p *Permits) Acquire(ctx workflow.Context, model string, limit int, what string) (release func(), err error) {
	p.requests++
	id := fmt.Sprintf("%s#%d", what, p.requests) // unique, so that a late grant of an earlier request does not count
	mine := &permit{request: request{Permit: Permit{Boulder: p.boulder, Run: p.run, ID: id}, Cap: limit}, model: model}
	p.list = append(p.list, mine)
	release = func() {
		p.list = slices.DeleteFunc(p.list, func(one *permit) bool { return one == mine }) // before the limiter learns of it
		ctx, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		// If this fails, the permit ends with the boulder.
		_ = workflow.ExecuteLocalActivity(local(ctx), giveBack, model, mine.Permit).Get(ctx, nil)
	}
	granted := workflow.GetSignalChannel(ctx, grantSignal(id))
	for !mine.held {
		err := workflow.ExecuteLocalActivity(local(ctx), send, model, mine.request).Get(ctx, nil)
		if err == nil {
			var got Permit
			granted.ReceiveWithTimeout(ctx, repeatAfter, &got)
			mine.held, err = got == mine.Permit, ctx.Err() // a different one is for an earlier run
		}
		if err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// local sets the options for a message to a limiter. It is retried for as long as a server may be down.
func local(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: 10 * time.Second, ScheduleToCloseTimeout: 10 * time.Minute,
	})
}
