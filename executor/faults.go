package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/ledger"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
)

// fault classifies an error of the server or of the connection to it.
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

// startFault classifies an error of starting a server. One that died may start next time; a wrong binary will not.
func startFault(err error) error {
	kind := boulder.ErrFatal
	if _, died := errors.AsType[*opencode.ExitError](err); died || errors.Is(err, opencode.ErrStartTimeout) {
		kind = boulder.ErrTrouble
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// nameAnother is what to do about a model or an agent that there is not, in a boulder that has begun.
const nameAnother = "name another where the plan does (`manager plan --of BOULDER`), else with `manager resume --model`"

// turnFault classifies the error that ended a turn; nil: the turn is judged on what it did.
func turnFault(e *opencode.TurnError, model string) error {
	switch {
	case e == nil:
		return nil
	case e.Name == opencode.ProviderAuth:
		return fmt.Errorf("%w: %s was refused by its provider: %s: log in with `opencode auth login`, or set the"+
			" provider's key", boulder.ErrKey, model, e.Message)
	case errors.Is(e, opencode.ErrUnknownModel), errors.Is(e, opencode.ErrUnknownAgent):
		kind := boulder.ErrUnknownModel
		if errors.Is(e, opencode.ErrUnknownAgent) {
			kind = boulder.ErrFatal
		}
		return fmt.Errorf("%w: OpenCode cannot run a turn with model %s: %s: "+nameAnother+
			" (`opencode models` and `opencode agent list` say what there is)", kind, model, e.Message)
	case e.Name != opencode.APIError:
		return nil
	}
	c := ocprovider.Classify(e)
	c.Model = model
	switch {
	case c.UnknownModel():
		return fmt.Errorf("%w: the provider does not know %s (HTTP %d): %s: "+nameAnother+
			" (`opencode models` says what there is)", boulder.ErrUnknownModel, model, e.StatusCode, c.Message)
	case c.Kind == providers.KindBadRequest && e.Retryable:
		c.Kind = providers.KindNetwork
	case c.Kind == providers.KindBadRequest, c.Kind == providers.KindNetwork && e.StatusCode == 0 && !e.Retryable:
		return nil // not known to be temporary
	}
	return ledger.Outage(context.Background(), c)
}

// waitsInVain reports whether waiting for the provider is in vain, although OpenCode does.
func waitsInVain(message string, wait time.Duration) bool {
	kind := ocprovider.ClassifyRetry(message, wait).Kind
	return kind == providers.KindAuth || kind == providers.KindQuota
}

// whyWaits says why OpenCode waits before it asks the provider again. What matters comes first, since narrow terminals cut lines: until
// when a limit lasts, else what failed.
func whyWaits(next, now time.Time, try int, message string) string {
	until, why := text.Until(next, now), text.Short(message, 200)
	switch ocprovider.ClassifyRetry(message, next.Sub(now)).Kind {
	case providers.KindRateLimit, providers.KindOverloaded:
		return fmt.Sprintf("until %s the model's provider makes it wait (try %d): %s", until, try, why)
	}
	return fmt.Sprintf("no answer from the model's provider (%s): asked again at %s, after try %d", why, until, try)
}

// retryFault is the error of a turn that was ended because OpenCode kept waiting for its provider.
func retryFault(message, model, reason string, after time.Duration) error {
	c := ocprovider.ClassifyRetry(message, after)
	c.Model, c.RetryAfter = model, max(c.RetryAfter, after)
	if !waitsInVain(message, after) {
		c.Message = cmp.Or(c.Message, "its provider makes it wait") + " (" + reason + ")"
		if c.Kind != providers.KindRateLimit && c.Kind != providers.KindOverloaded {
			c.Kind = providers.KindNetwork
		}
	}
	return ledger.Outage(context.Background(), c)
}
