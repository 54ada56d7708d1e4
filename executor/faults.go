package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

// fault sorts an error of the server or of the way to it.
func fault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, opencode.ErrUnauthorized), errors.Is(err, opencode.ErrClosed):
		return fmt.Errorf("%w: %w", boulder.ErrFatal, err)
	case errors.Is(err, opencode.ErrNotFound):
		return fmt.Errorf("%w: %w", boulder.ErrSessionLost, err)
	case errors.Is(err, opencode.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", boulder.ErrTrouble, err)
	}
	return err
}

// startFault sorts an error of starting a server: one that did not get ready or died may do better next time; a missing binary
// or a wrong version does not.
func startFault(err error) error {
	_, died := errors.AsType[*opencode.ExitError](err)
	if died || errors.Is(err, opencode.ErrStartTimeout) {
		return fmt.Errorf("%w: %w", boulder.ErrTrouble, err)
	}
	return fmt.Errorf("%w: %w", boulder.ErrFatal, err)
}

// turnFault sorts what ended a turn: nil if the turn is to be judged on what it did, an error if no judge is needed to
// know what to do.
func turnFault(e *opencode.TurnError, model string) error {
	if e == nil {
		return nil
	}
	switch e.Name {
	case opencode.ProviderAuth:
		return fmt.Errorf("%w: %s was refused by its provider: %s: log in with `opencode auth login`, or set the"+
			" provider's key, then run `manager resume`", boulder.ErrFatal, model, e.Message)
	case opencode.APIError:
		return apiFault(e, model)
	}
	if errors.Is(e, opencode.ErrUnknownModel) || errors.Is(e, opencode.ErrUnknownAgent) {
		return fmt.Errorf("%w: OpenCode cannot run a turn with model %s: %s: correct the plan or --model (`opencode models`"+
			" and `opencode agent list` say what there is), and run it again", boulder.ErrFatal, model, e.Message)
	}
	return nil
}

func apiFault(e *opencode.TurnError, model string) error {
	switch {
	case e.StatusCode == http.StatusUnauthorized, e.StatusCode == http.StatusForbidden:
		return fmt.Errorf("%w: %s was refused by its provider (HTTP %d): %s: check the key, then run `manager resume`",
			boulder.ErrFatal, model, e.StatusCode, e.Message)
	case e.StatusCode == http.StatusPaymentRequired:
		return fmt.Errorf("%w: the account of %s has no credit left: %s: top it up, then run `manager resume`",
			boulder.ErrFatal, model, e.Message)
	case e.Retryable, e.StatusCode == http.StatusTooManyRequests, e.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%w: %s: HTTP %d: %s", boulder.ErrTrouble, model, e.StatusCode, e.Message)
	}
	return nil
}
