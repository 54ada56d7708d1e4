package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/ledger"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
)

// fault sorts an error of the server or of the way to it.
func fault(err error) error {
	kind := boulder.ErrTrouble
	switch {
	case errors.Is(err, opencode.ErrUnauthorized), errors.Is(err, opencode.ErrClosed):
		kind = boulder.ErrFatal
	case errors.Is(err, opencode.ErrNotFound):
		kind = boulder.ErrSessionLost
	case !errors.Is(err, opencode.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// startFault sorts an error of starting a server: one that did not get ready or died may do better next time; a missing
// binary or a wrong version does not.
func startFault(err error) error {
	kind := boulder.ErrFatal
	if _, died := errors.AsType[*opencode.ExitError](err); died || errors.Is(err, opencode.ErrStartTimeout) {
		kind = boulder.ErrTrouble
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// turnFault sorts what ended a turn; nil: it is judged on what it did.
func turnFault(e *opencode.TurnError, model string) error {
	switch {
	case e == nil:
		return nil
	case e.Name == opencode.ProviderAuth:
		return fmt.Errorf("%w: %s was refused by its provider: %s: log in with `opencode auth login`, or set the"+
			" provider's key, then run `manager resume`", boulder.ErrFatal, model, e.Message)
	case errors.Is(e, opencode.ErrUnknownModel), errors.Is(e, opencode.ErrUnknownAgent):
		return fmt.Errorf("%w: OpenCode cannot run a turn with model %s: %s: correct the plan or --model (`opencode models`"+
			" and `opencode agent list` say what there is), and run it again", boulder.ErrFatal, model, e.Message)
	case e.Name != opencode.APIError:
		return nil
	}
	c := ocprovider.Classify(e)
	c.Model = model
	switch {
	case c.Kind == providers.KindBadRequest && (e.StatusCode == http.StatusNotFound || c.Code == "model_not_found"):
		return fmt.Errorf("%w: the provider does not know %s (HTTP %d): %s: correct the plan or --model (`opencode models` says"+
			" what there is), and run it again", boulder.ErrFatal, model, e.StatusCode, c.Message)
	case c.Kind == providers.KindBadRequest && e.Retryable:
		c.Kind = providers.KindNetwork
	case c.Kind == providers.KindBadRequest, c.Kind == providers.KindNetwork && e.StatusCode == 0 && !e.Retryable:
		return nil // whatever it is, it is not known to pass
	}
	return outage(c)
}

// outage is the error for what a provider said; nil: the turn is judged on what it did.
func outage(c *providers.Error) error {
	err := ledger.Outage(context.Background(), c)
	if errors.Is(err, boulder.ErrFatal) {
		return fmt.Errorf("%w; then run `manager resume`", err)
	}
	return err
}

// classifyRetry gives the kind of what OpenCode waits for. message is all that it says of the provider's answer: the
// status' text or its own wording, mostly without a status or code (seen: "Too Many Requests: {…}", "Provider is
// overloaded", "Service Unavailable: {…}", "Cannot connect to API: …").
func classifyRetry(message string) *providers.Error {
	status, code := 0, ""
	lower := strings.ToLower(message)
	says := func(cue string) bool { return strings.Contains(lower, cue) }
	switch {
	case says("exceeded your current quota"):
		status = http.StatusTooManyRequests
		// So OpenAI words a lack of credit, without the code for it; and so Gemini words every limit, also one per minute, but
		// goes on to say which limit it is and when to try again.
		if !slices.ContainsFunc([]string{"quota exceeded for metric", "retry in", "rate-limits"}, says) {
			code = "insufficient_quota"
		}
	case says("too many requests"), says("rate limit"), says("current quota"):
		status = http.StatusTooManyRequests
	case says("service unavailable"):
		status = http.StatusServiceUnavailable
	}
	return providers.Classify(status, code, message, nil, nil)
}

// hopeless reports whether it is in vain to wait for a provider, which OpenCode does all the same.
func hopeless(message string) bool {
	kind := classifyRetry(message).Kind
	return kind == providers.KindAuth || kind == providers.KindQuota
}

// retryFault is the error for a turn that was ended because OpenCode waited for its provider.
func retryFault(message, model, reason string, after time.Duration) error {
	c := classifyRetry(message)
	c.Model, c.RetryAfter = model, max(c.RetryAfter, after)
	if !hopeless(message) {
		c.Message = cmp.Or(c.Message, "its provider makes it wait") + " (" + reason + ")"
		if c.Kind != providers.KindRateLimit && c.Kind != providers.KindOverloaded {
			c.Kind = providers.KindNetwork
		}
	}
	return outage(c)
}
