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
	// firstDelay bounds the first pause, and doubles each time. The pause is random, to spread the clients.
	firstDelay = 500 * time.Millisecond
	// maxWait is the longest pause that a provider may ask for. Beyond it the error is returned, with its RetryAfter.
	maxWait = time.Minute
	// attemptTimeout ends an attempt that hangs: reasoning models think for minutes before the first byte.
	attemptTimeout = 5 * time.Minute
)

// WithRetry returns a Completer that repeats temporary failures of c: up to four attempts in all, with pauses of at
// most half a second, one and two, or as the provider asks. Its error is that of the last attempt, with the Usage of
// all. Nothing else retries: SDKs and adapters must not, or attempts multiply.
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
		if !failure.Retryable() || attempt >= maxAttempts || max(failure.RetryAfter, failure.Guess) > maxWait {
			return nil, failure
		}
		wait := time.Duration(rand.Float64() * float64(firstDelay<<(attempt-1)))
		if asked := failure.RetryAfter; asked > 0 { // never earlier, and spread over clients
			wait = asked + time.Duration(rand.Float64()*float64(asked)/10)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
			return nil, failure // the pause would only end in a cancellation that hides the reason
		}
		r.log.InfoContext(ctx, "model call failed, trying again",
			"attempt", attempt, "wait", wait, "kind", string(failure.Kind), "error", failure)
		if !pause(ctx, wait) {
			return nil, canceled(ctx, failure)
		}
	}
}

// attempt makes one call with its own deadline. Knowing both contexts, it can tell which one ended.
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

// canceled reports the end of the caller's context and its cause, with failure's model and cost.
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
