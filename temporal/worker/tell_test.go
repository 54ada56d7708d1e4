package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/bouldermgr/manager/boulder"
)

type refusing struct {
	client.Client
	err   error
	asked int
}

func (r *refusing) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	r.asked++
	return nil, r.err
}

// TestTell: tell retries temporary errors until the work must end. A permanent error ends the run and says why.
func TestTell(t *testing.T) {
	t.Parallel()
	tell := func(err error, b boulder.Body) (asked int, told error) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errEnded)
			defer cancel()
			c := &refusing{err: err}
			told = (&reporter{ctx: ctx, client: c}).tell(b)
			asked = c.asked
		})
		return asked, told
	}
	sent := boulder.TurnSent{MessageID: "msg"}
	for _, passing := range []error{
		serviceerror.NewUnavailable("away"), serviceerror.NewDeadlineExceeded("slow"), serviceerror.NewCanceled("slow"),
		serviceerror.NewWorkflowNotReady("a workflow task failed"), serviceerror.NewInternal("broken"), serviceerror.NewAborted("moved"),
		serviceerror.NewResourceExhausted(0, "too many updates in flight"), context.DeadlineExceeded,
		client.NewWorkflowUpdateServiceTimeoutOrCanceledError(status.Error(codes.Unknown, "who knows")),
	} {
		if asked, err := tell(passing, sent); asked < 10 || !errors.Is(err, errEnded) {
			t.Errorf("%T: asked %d times, %v", passing, asked, err)
		}
	}
	for _, lasting := range []error{
		serviceerror.NewInvalidArgument("nonsense"), serviceerror.NewPermissionDenied("no", ""), serviceerror.NewUnimplemented("old"),
		serviceerror.NewFailedPrecondition("2000 updates"), serviceerror.NewNamespaceNotFound("ns"), status.Error(codes.Unauthenticated, "who?"),
		temporal.NewApplicationError("unknown update", "none"), errors.New("cannot decode"),
	} {
		asked, err := tell(fmt.Errorf("wrapped: %w", lasting), sent)
		if asked != 1 || !errors.Is(err, boulder.ErrFatal) || !strings.Contains(err.Error(), lasting.Error()) || !strings.Contains(err.Error(), "turn-sent") {
			t.Errorf("%T: asked %d times, %v", lasting, asked, err)
		}
	}
	if asked, err := tell(serviceerror.NewNotFound("closed"), sent); asked != 1 || !errors.Is(err, boulder.ErrRefused) {
		t.Errorf("over: asked %d times, %v", asked, err)
	}
	large := boulder.Nudged{Prompt: strings.Repeat("x", 2_500_000)}
	if asked, err := tell(nil, large); asked != 0 || !errors.Is(err, boulder.ErrFatal) || !strings.Contains(err.Error(), "has 2.5 MB") {
		t.Errorf("too large: asked %d times, %v", asked, err)
	}
}

var errEnded = errors.New("ended")
