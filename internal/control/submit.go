package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/bouldermgr/manager/boulder"
)

// Submission is a task that is handed to a process which runs boulders for others. What it leaves out is as that
// process was configured.
type Submission struct {
	// Resume is a boulder to go on with, with the budgets that it gets, and Diverted; nothing else counts then.
	Resume string `json:"resume,omitempty"`

	Task        string           `json:"task,omitempty"`
	Constraints []string         `json:"constraints,omitempty"`
	Mode        boulder.PlanMode `json:"mode,omitempty"`
	// Plan is run exactly as it is written; without it, and without Fork, a plan is made and run without asking.
	Plan          *boulder.Plan             `json:"plan,omitempty"`
	GatesApproved bool                      `json:"gates_approved,omitempty"` // those of Plan
	Fork          *boulder.Fork             `json:"fork,omitempty"`
	Base          string                    `json:"base,omitempty"`
	Model         string                    `json:"model,omitempty"`
	LedgerModel   string                    `json:"ledger_model,omitempty"`
	Budget        *boulder.Budget           `json:"budget,omitempty"`
	SubTasks      map[string]boulder.Budget `json:"sub_task_budgets,omitempty"`
	// DoneWhen, Checks and Loop are as in orchestrator.Request.
	DoneWhen []string       `json:"done_when,omitempty"`
	Checks   boulder.Checks `json:"checks,omitzero"`
	Loop     *boulder.Loop  `json:"loop,omitempty"`
	// Diverted is as in orchestrator.Request, and as in orchestrator.ResumeRequest.
	Diverted bool `json:"diverted,omitempty"`
	// Iterations is as in orchestrator.ResumeRequest.
	Iterations int `json:"iterations,omitempty"`
}

// Submitter runs boulders for others. A [Steerer] that is one takes submissions.
type Submitter interface {
	// Submit begins to run a boulder and returns its id when it is on disk. It may be called from any goroutine.
	Submit(ctx context.Context, s Submission) (boulderID string, err error)
}

// ErrNoSubmitter is returned for a submission to a process that runs a boulder of its own only.
var ErrNoSubmitter = errors.New("the process that holds the state takes no further tasks: wait for it, or stop it")

// maxSubmission bounds a submission: a plan file has at most 4 MiB, and JSON is a little longer.
const maxSubmission = 8 << 20

// Submit hands a task over, and returns the id of its boulder. Besides what the [Submitter] says, errors wrap
// [ErrNoSubmitter], [ErrNotReady], [ErrNotServed] or [ErrUnanswered].
func (c *Client) Submit(ctx context.Context, s Submission) (boulderID string, err error) {
	body, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	return ask[string](ctx, c, http.MethodPost, pathSubmit, body, orderTimeout)
}
