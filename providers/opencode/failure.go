package opencode

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
)

// unnamedProvider stands in errors for the provider of OpenCode's own choice of a model.
const unnamedProvider = "opencode"

// about completes an error: who was asked, and what it cost.
func about(model opencode.ModelRef, spent providers.Usage, e *providers.Error) *providers.Error {
	e.Provider, e.Model, e.Usage = cmp.Or(model.ProviderID, unnamedProvider), model.ModelID, spent
	return e
}

// failure has the text of err, as far as it is fit to be shown.
func failure(kind providers.Kind, err error) *providers.Error {
	e := providers.Classify(0, "", err.Error(), nil, err)
	e.Kind = kind
	return e
}

// startFailed sorts the error of [opencode.Host.Connect]. A server that died while it started, or was too slow on a
// busy machine, may do better next time; nothing else that keeps it from starting (no binary, another version, a taken
// port) goes away without a person, so it must not pass for something that is worth another try.
func startFailed(ctx context.Context, err error) *providers.Error {
	_, died := errors.AsType[*opencode.ExitError](err)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return canceled(ctx)
	case died, errors.Is(err, opencode.ErrStartTimeout), errors.Is(err, opencode.ErrUnavailable),
		errors.Is(err, context.DeadlineExceeded):
		return failure(providers.KindNetwork, err)
	}
	return failure(providers.KindSetup, err)
}

// failed sorts the error of a question to a server that runs.
func failed(ctx context.Context, err error) *providers.Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return canceled(ctx)
	}
	if errors.Is(err, errRunaway) {
		return failure(providers.KindMalformedOutput, err)
	}
	if turn, ok := errors.AsType[*opencode.TurnError](err); ok {
		return turnFailed(turn)
	}
	return callFailed(err)
}

func canceled(ctx context.Context) *providers.Error {
	return providers.Classify(0, "", context.Cause(ctx).Error(), nil, ctx.Err())
}

// turnFailed sorts by OpenCode's own name of the error where that says it all, else by what the provider said.
func turnFailed(turn *opencode.TurnError) *providers.Error {
	header := http.Header{}
	if turn.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatFloat(turn.RetryAfter.Seconds(), 'f', -1, 64))
	}
	e := providers.Classify(turn.StatusCode, "", turn.Message, header, nil)
	// The provider's own code, which tells missing credit from too many requests, is in the body only.
	e.Kind = providers.Classify(turn.StatusCode, "", turn.Message+"\n"+turn.Body, nil, nil).Kind
	switch turn.Name {
	case opencode.ProviderAuth:
		e.Kind = providers.KindAuth
	case opencode.ContextOverflow:
		e.Kind = providers.KindContextLength
	case opencode.ContentFilter:
		e.Kind = providers.KindContentFilter
	case opencode.MessageOutputLength:
		e.Kind = providers.KindTruncated
	case opencode.MessageAborted: // by somebody else, such as the end of the server
		e.Kind = providers.KindCanceled
	}
	if errors.Is(turn, opencode.ErrUnknownModel) || errors.Is(turn, opencode.ErrUnknownAgent) {
		e.Kind, e.Err = providers.KindBadRequest, turn
	}
	if errors.Is(turn, opencode.ErrUnknownModel) {
		e.Message += " (`opencode models` lists what there is)"
	}
	return e
}

// callFailed sorts what went wrong between here and the OpenCode server. Its 401 is about the server's password and
// must not pass for a provider's key.
func callFailed(err error) *providers.Error {
	call, ok := errors.AsType[*opencode.Error](err)
	switch {
	case errors.Is(err, opencode.ErrUnavailable), errors.Is(err, opencode.ErrNotFound):
		return failure(providers.KindNetwork, err) // a session that is gone was deleted by somebody
	case errors.Is(err, opencode.ErrUnauthorized), errors.Is(err, opencode.ErrUnsupported):
		return failure(providers.KindSetup, err)
	case ok && call.Status >= http.StatusBadRequest:
		return failure(providers.KindBadRequest, err)
	}
	return failure(providers.KindNetwork, err)
}
