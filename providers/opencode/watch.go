package opencode

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// maxCalls is how many times a model may be called for one answer. A first call of a tool that it was not offered, or
// one with broken arguments, is mended by most models in the second.
const maxCalls = 5

var errRunaway = errors.New("the model kept calling tools that it does not have")

// watch follows one question by its events, because the call that asks says nothing before its end:
//
//   - OpenCode (1.18.33) tells a model that called an unknown tool, or with broken arguments, that it did, and asks
//     again, without any bound: 173 calls in 20 s were seen, and the setting "steps" of an agent does not stop it. The
//     watch does.
//   - The answer tells what its own call cost, not what those before it did.
//   - A question that runs into its deadline may have been waiting for a provider that is not there.
type watch struct {
	client *opencode.Client
	sub    *opencode.Subscription // nil until the question has a session
	cancel context.CancelCauseFunc
	reader sync.WaitGroup

	// Belong to the reader until end:

	calls   map[string]opencode.MessageInfo // by message id: one message for each call of the model
	waiting string                          // why OpenCode last repeated a call
}

// newWatch is for one question. The returned ctx ends when the watch stops it. The caller calls end.
func newWatch(ctx context.Context, client *opencode.Client) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &watch{client: client, cancel: cancel, calls: map[string]opencode.MessageInfo{}}
}

// begin follows the session of the question.
func (w *watch) begin(sessionID string) {
	w.sub = w.client.Subscribe(opencode.Filter{Sessions: []string{sessionID}})
	w.reader.Go(w.follow)
}

func (w *watch) end() {
	if w.sub != nil {
		w.sub.Close()
	}
	w.reader.Wait()
	w.cancel(nil)
}

func (w *watch) follow() {
	for event := range w.sub.C() {
		switch p := event.Payload.(type) {
		case opencode.StatusChanged:
			if p.Status.Type == opencode.Retry {
				w.waiting = p.Status.Message
			}
		case opencode.MessageUpdated:
			if p.Message.Role == opencode.RoleAssistant {
				w.calls[p.Message.ID] = p.Message
			}
			if len(w.calls) > maxCalls {
				w.cancel(fmt.Errorf("%w: stopped after %d calls", errRunaway, maxCalls))
			}
		}
	}
}

// spent is what all calls cost: the last one by the answer, which is sure, the others by their events.
func (w *watch) spent(a opencode.MessageInfo) boulder.Usage {
	sum := session.Usage(a.Tokens, a.Cost)
	for id, m := range w.calls {
		if id != a.ID {
			sum = sum.Add(session.Usage(m.Tokens, m.Cost))
		}
	}
	return sum
}

// explain adds what the server was waiting for when nobody wanted to wait any longer.
func (w *watch) explain(err error) error {
	if w.waiting == "" || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("OpenCode was still trying to reach the model (%s): %w", w.waiting, err)
}
