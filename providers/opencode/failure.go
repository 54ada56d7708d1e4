package opencode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/session"
)

// unnamedProvider stands in errors for a provider that OpenCode chose.
const unnamedProvider = "opencode"

func attribute(model opencode.ModelRef, spent boulder.Usage, e *providers.Error) *providers.Error {
	e.Provider, e.Model, e.Usage = cmp.Or(model.ProviderID, unnamedProvider), model.ModelID, spent
	return e
}

// failed classifies the error of [opencode.Host.Connect], or of a question to a running server.
//
// A server that died or timed out while starting may succeed next time. Other reasons not to start (no binary, another
// version) are permanent until the user acts. The server's 401 is about its password, not about a provider's key.
func failed(ctx context.Context, err error, starting bool) *providers.Error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return providers.Classify(0, "", context.Cause(ctx).Error(), nil, ctx.Err())
	}
	if refused, ok := errors.AsType[*providers.Error](err); ok {
		return refused
	}
	if turn, ok := errors.AsType[*opencode.TurnError](err); ok && !errors.Is(err, errRunaway) {
		e := Classify(turn)
		if errors.Is(turn, opencode.ErrUnknownModel) {
			e.Kind, e.Err = providers.KindBadRequest, fmt.Errorf("%w: %w", boulder.ErrUnknownModel, turn)
			e.Message += " (`opencode models` lists what there is)"
		}
		return e
	}
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
	}
	_, died := errors.AsType[*opencode.ExitError](err)
	call, refused := errors.AsType[*opencode.Error](err)
	e := providers.Classify(0, "", err.Error(), nil, err)
	e.Kind = providers.KindNetwork
	switch {
	case is(errRunaway):
		e.Kind = providers.KindMalformedOutput
	case died, is(opencode.ErrStartTimeout, opencode.ErrUnavailable, context.DeadlineExceeded):
	case starting, is(opencode.ErrUnauthorized, opencode.ErrUnsupported):
		e.Kind = providers.KindSetup
	case is(opencode.ErrNotFound): // the session was deleted
	case refused && call.Status >= http.StatusBadRequest:
		e.Kind = providers.KindBadRequest
	}
	return e
}

// notReached is the error of an answer that came from no model, see [session.NotReached].
func notReached() *providers.Error {
	return &providers.Error{Kind: providers.KindNetwork, Message: session.NotReached.Message}
}

// kinds are the errors that OpenCode's own name describes completely.
var kinds = map[string]providers.Kind{
	opencode.ProviderAuth:        providers.KindAuth,
	opencode.ContextOverflow:     providers.KindContextLength,
	opencode.ContentFilter:       providers.KindContentFilter,
	opencode.MessageOutputLength: providers.KindTruncated,
	opencode.MessageAborted:      providers.KindCanceled, // from outside, such as the end of the server
}

// Classify uses OpenCode's own name of the error if that is clear, else what the provider said. Only the body has the
// provider's code, which distinguishes missing credit from too many requests.
func Classify(turn *opencode.TurnError) *providers.Error {
	header := http.Header{}
	if turn.RetryAfter > 0 {
		header.Set("Retry-After-Ms", strconv.FormatInt(turn.RetryAfter.Milliseconds(), 10))
	}
	e := providers.ClassifyBody(turn.StatusCode, header, []byte(cmp.Or(turn.Body, turn.Message)), turn.Message, nil)
	if kind := kinds[turn.Name]; kind != providers.KindAuth || e.Kind != providers.KindQuota { // spent money is no wrong key
		e.Kind = cmp.Or(kind, e.Kind)
	}
	return e
}

// longWait is longer than OpenCode waits of its own accord, which is 30 s at most, and than a question should.
const longWait = time.Minute

// ClassifyRetry classifies the provider's error after which OpenCode tries again in wait. message is all that OpenCode says of it: the
// status text or its own wording, mostly without a status or code (observed: "Too Many Requests: {…}", "Provider is
// overloaded", "Service Unavailable: {…}", "Cannot connect to API: …").
func ClassifyRetry(message string, wait time.Duration) *providers.Error {
	status, code := 0, ""
	lower := strings.ToLower(message)
	says := func(cue string) bool { return strings.Contains(lower, cue) }
	switch {
	case says("exceeded your current quota"):
		status = http.StatusTooManyRequests
		// OpenAI says this for a lack of credit, without its code. Gemini says it for every limit, even one per minute,
		// but adds which limit it is and when to retry.
		if !slices.ContainsFunc([]string{"quota exceeded for metric", "retry in", "rate-limits"}, says) {
			code = "insufficient_quota"
		}
	case says("too many requests"), says("rate limit"), says("current quota"), says("usage limit"), says("limit reached"), says("hit your limit"):
		status = http.StatusTooManyRequests
	case says("service unavailable"):
		status = http.StatusServiceUnavailable
	}
	header := http.Header{}
	if wait > longWait { // a shorter one may be OpenCode's own, and says nothing about a limit
		header.Set("Retry-After-Ms", strconv.FormatInt(wait.Milliseconds(), 10))
	}
	return providers.Classify(status, code, message, header, nil)
}
