package opencode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/session"
)

// maxCalls bounds the model calls for one answer. Most models correct an unknown tool or bad arguments in the second.
const maxCalls = 5

var errRunaway = errors.New("the model kept calling tools that it does not have, or ending without a known reason")

// watch follows the events of one question, because the request itself returns nothing before its end:
//
//   - OpenCode (1.18.33) reports an unknown tool or broken arguments to the model and asks again, without limit: 173
//     calls in 20 s were observed, and an agent's setting "steps" does not help. The watch stops it.
//   - The answer includes the cost of its own call only.
//   - A question that times out may have waited for an unreachable provider.
//   - OpenCode waits for days if a provider says so, and asks again without credit. The watch stops it.
//   - An outage that a gateway reports as an empty answer without a known reason makes OpenCode ask again at once, without
//     limit. The watch stops it.
type watch struct {
	client *opencode.Client
	sub    *opencode.Subscription // nil until the question has a session
	cancel context.CancelCauseFunc
	reader sync.WaitGroup

	// Owned by the reader until end:

	calls   map[string]opencode.MessageInfo // by message id: one message per model call
	said    map[string]opencode.Part        // by message id: one part that says something
	waiting string                          // why OpenCode last repeated a call
	refused *providers.Error                // why it would do so in vain, or too late
}

// newWatch is for one question. The returned ctx ends when the watch stops the question. The caller calls end.
func newWatch(ctx context.Context, client *opencode.Client) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &watch{
		client: client, cancel: cancel, calls: map[string]opencode.MessageInfo{}, said: map[string]opencode.Part{},
	}
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
				e := ClassifyRetry(w.waiting, time.Until(p.Status.Next))
				if !e.Retryable() || max(e.RetryAfter, e.Guess) > longWait {
					w.refuse(e)
				}
			}
		case opencode.PartUpdated:
			if p.Part.Text != "" || p.Part.Tool != nil {
				w.said[p.Part.MessageID] = p.Part
			}
		case opencode.MessageUpdated:
			if p.Message.Role == opencode.RoleAssistant {
				w.calls[p.Message.ID] = p.Message
			}
			m := opencode.Message{Info: p.Message, Parts: []opencode.Part{w.said[p.Message.ID]}}
			if m.Info.Finish != opencode.FinishStop && session.Failure(m) == session.NotReached {
				w.refuse(notReached())
			}
			if len(w.calls) > maxCalls {
				w.cancel(fmt.Errorf("%w: stopped after %d calls", errRunaway, maxCalls))
			}
		}
	}
}

func (w *watch) refuse(e *providers.Error) {
	w.refused = e
	w.cancel(e)
}

// spent returns the cost of all calls: the last from the answer, which is exact, the others from their events.
func (w *watch) spent(a opencode.MessageInfo) boulder.Usage {
	sum := session.Usage(a.Tokens, a.Cost)
	for id, m := range w.calls {
		if id != a.ID {
			sum = sum.Add(session.Usage(m.Tokens, m.Cost))
		}
	}
	return sum
}

// explain returns why the watch stopped the question, or adds to a timeout what the server was waiting for.
func (w *watch) explain(err error) error {
	if err != nil && w.refused != nil {
		return w.refused
	}
	if w.waiting == "" || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("OpenCode was still trying to reach the model (%s): %w", w.waiting, err)
}
