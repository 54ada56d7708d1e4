package limiter

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"
)

const (
	permitsQuery = "permits"
	// askAgain is after how long a request is repeated: a limiter that was terminated has to be started by someone.
	askAgain = 5 * time.Minute
)

func grantSignal(id string) string { return "granted/" + id }

// Permits are those of a boulder's workflow. A limiter that is rebuilt asks it for them.
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

// holding is how a boulder answers permitsQuery.
type holding struct {
	Held    []Permit  `json:"held,omitempty"`
	Waiting []request `json:"waiting,omitempty"`
}

// NewPermits is called once, where the workflow begins.
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

// Acquire waits until the model may be used. limit is the cap by the boulder's own configuration, which holds until
// [SetCap] says another. what tells people what the permit is for, such as <sub-task>/<attempt>. release is called
// once, when whatever used the model has ended, also if ctx is cancelled by then. The error is that of ctx, or says
// that no limiter can be reached.
func (p *Permits) Acquire(ctx workflow.Context, model string, limit int, what string) (release func(), err error) {
	p.requests++
	id := fmt.Sprintf("%s#%d", what, p.requests) // a late grant of an earlier request is none of this one
	mine := &permit{request: request{Permit: Permit{Boulder: p.boulder, Run: p.run, ID: id}, Cap: limit}, model: model}
	p.list = append(p.list, mine)
	release = func() {
		p.list = slices.DeleteFunc(p.list, func(one *permit) bool { return one == mine }) // before the limiter hears of it
		ctx, cancel := workflow.NewDisconnectedContext(ctx)
		defer cancel()
		_ = workflow.ExecuteLocalActivity(local(ctx), giveBack, model, mine.Permit).Get(ctx, nil) // else it ends with the boulder
	}
	granted := workflow.GetSignalChannel(ctx, grantSignal(id))
	for !mine.held {
		err := workflow.ExecuteLocalActivity(local(ctx), send, model, mine.request).Get(ctx, nil)
		if err == nil {
			var got Permit
			granted.ReceiveWithTimeout(ctx, askAgain, &got)
			mine.held, err = got == mine.Permit, ctx.Err() // another is of a run before this
		}
		if err != nil {
			release()
			return nil, err
		}
	}
	return release, nil
}

// local is for a message to a limiter, which is tried for as long as a server may be down.
func local(ctx workflow.Context) workflow.Context {
	return workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		StartToCloseTimeout: 10 * time.Second, ScheduleToCloseTimeout: 10 * time.Minute,
	})
}
