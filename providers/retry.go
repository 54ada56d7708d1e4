package providers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const (
	maxAttempts = 4
	// firstDelay is the longest pause after the first failure; it doubles with each further one. The pause is drawn
	// between zero and that, so that clients which failed together do not return together.
	firstDelay = 500 * time.Millisecond
	// maxWait is the longest pause that a provider may ask for and get; a longer one is returned as the error, whose
	// RetryAfter tells the caller when to come back.
	maxWait = time.Minute
	// attemptTimeout ends an attempt that hangs: reasoning models think for minutes before the first byte.
	attemptTimeout = 5 * time.Minute
)

// WithRetry gives a Completer that tries c again after errors that may pass: four times in all, half a second, one and
// two after each other at most, or when the provider asks for it. Its error is that of the last attempt, with the Usage
// of all. It is the only place that retries: SDKs and adapters must not, or attempts multiply.
func WithRetry(c Completer, log *slog.Logger) Completer { return retrier{c, log} }

type retrier struct {
	next Completer
	log  *slog.Logger
}

func (r retrier) Complete(ctx context.Context, req *Request) (*Response, error) {
	var spent boulder.Usage
	for attempt := 1; ; attempt++ {
		resp, failure := r.attempt(ctx, req)
		if failure == nil {
			resp.Usage = resp.Usage.Add(spent)
			return resp, nil
		}
		spent = spent.Add(failure.Usage)
		failure.Usage = spent
		if !failure.Retryable() || attempt >= maxAttempts || failure.RetryAfter > maxWait {
			return nil, failure
		}
		wait := time.Duration(rand.Float64() * float64(firstDelay<<(attempt-1)))
		if asked := failure.RetryAfter; asked > 0 { // never earlier, and not all clients at once
			wait = asked + time.Duration(rand.Float64()*float64(asked)/10)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
			return nil, failure // the pause would only end in a cancellation that hides why
		}
		r.log.InfoContext(ctx, "model call failed, trying again",
			"attempt", attempt, "wait", wait, "kind", string(failure.Kind), "error", failure)
		if !pause(ctx, wait) {
			return nil, canceled(ctx, failure)
		}
	}
}

// attempt is one call with its own deadline. Here, where both contexts are known, the end of the caller's context is
// told from the end of the attempt's.
func (r retrier) attempt(ctx context.Context, req *Request) (*Response, *Error) {
	attemptCtx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	resp, err := r.next.Complete(attemptCtx, req)
	switch {
	case err == nil:
		return resp, nil
	case ctx.Err() != nil:
		return nil, canceled(ctx, asError(err))
	}
	return nil, asError(err)
}

// canceled keeps who was asked and what it cost, and says that the caller's context ended and why.
func canceled(ctx context.Context, failure *Error) *Error {
	err := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, err) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return &Error{
		Kind: KindCanceled, Provider: failure.Provider, Model: failure.Model,
		Message: text.Cut(Redact(err.Error()), maxMessage), Usage: failure.Usage, Err: err,
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
