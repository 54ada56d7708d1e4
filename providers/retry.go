package providers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// RetryPolicy says how [WithRetry] tries again. The zero value is the default policy.
type RetryPolicy struct {
	// Attempts is the greatest number of attempts, the first included. Defaults to 4; 1 means no retry.
	Attempts int
	// BaseDelay is the longest pause after the first failure; it doubles with each further one. The pause is drawn
	// between zero and that, so that clients which failed together do not return together. Defaults to 0.5 s.
	BaseDelay time.Duration
	// MaxDelay caps the doubling. Defaults to 30 s.
	MaxDelay time.Duration
	// MaxWait is the longest pause that a provider may ask for and get; a longer one is returned as the error, whose
	// RetryAfter tells the caller when to come back. Defaults to 60 s.
	MaxWait time.Duration
	// AttemptTimeout ends an attempt that hangs. Defaults to 5 min: reasoning models think for minutes before the
	// first byte.
	AttemptTimeout time.Duration
	// Random gives numbers in [0, 1) and may be called from many goroutines. Defaults to math/rand/v2.
	Random func() float64
	// OnRetry, if set, is called before each pause, from the goroutine that called Complete.
	OnRetry func(Retry)
	// Logger defaults to none.
	Logger *slog.Logger
}

// Retry describes an attempt that failed and will be followed by another.
type Retry struct {
	// Attempt is the number of the failed attempt, from 1.
	Attempt int
	// Wait is the pause before the next.
	Wait time.Duration
	// Err is why it failed.
	Err *Error
}

func (p RetryPolicy) withDefaults() RetryPolicy {
	p.Attempts = orDefault(p.Attempts, 4)
	p.BaseDelay = orDefault(p.BaseDelay, 500*time.Millisecond)
	p.MaxDelay = orDefault(p.MaxDelay, 30*time.Second)
	p.MaxWait = orDefault(p.MaxWait, time.Minute)
	p.AttemptTimeout = orDefault(p.AttemptTimeout, 5*time.Minute)
	if p.Random == nil {
		p.Random = rand.Float64
	}
	if p.OnRetry == nil {
		p.OnRetry = func(Retry) {}
	}
	if p.Logger == nil {
		p.Logger = slog.New(slog.DiscardHandler)
	}
	return p
}

func orDefault[N int | time.Duration](value, fallback N) N {
	if value <= 0 {
		return fallback
	}
	return value
}

// WithRetry gives a Completer that tries c again after errors that may pass, as policy says. Its error is that of the
// last attempt, with the Usage of all. It is the only place that retries: SDKs and adapters must not, or attempts
// multiply.
func WithRetry(c Completer, policy RetryPolicy) Completer {
	return &retrier{next: c, policy: policy.withDefaults()}
}

type retrier struct {
	next   Completer
	policy RetryPolicy
}

func (r *retrier) Complete(ctx context.Context, req *Request) (*Response, error) {
	var spent Usage
	for attempt := 1; ; attempt++ {
		resp, failure := r.attempt(ctx, req)
		if failure == nil {
			resp.Usage = resp.Usage.Add(spent)
			return resp, nil
		}
		spent = spent.Add(failure.Usage)
		failure.Usage = spent

		wait, again := r.policy.next(ctx, attempt, failure)
		if !again {
			return nil, failure
		}
		r.policy.OnRetry(Retry{Attempt: attempt, Wait: wait, Err: failure})
		r.policy.Logger.InfoContext(ctx, "model call failed, trying again",
			"attempt", attempt, "wait", wait, "kind", string(failure.Kind), "error", failure)
		if !pause(ctx, wait) {
			return nil, canceled(ctx, failure)
		}
	}
}

// attempt is one call with its own deadline. Here, where both contexts are known, the end of the caller's context is
// told from the end of the attempt's.
func (r *retrier) attempt(ctx context.Context, req *Request) (*Response, *Error) {
	attemptCtx, cancel := context.WithTimeout(ctx, r.policy.AttemptTimeout)
	defer cancel()
	resp, err := r.next.Complete(attemptCtx, req)
	if err == nil {
		return resp, nil
	}
	failure := Classify(0, "", "", nil, err)
	if typed, ok := errors.AsType[*Error](err); ok {
		failure = new(*typed) // a copy: Usage is changed below
	}
	if ctx.Err() != nil {
		return nil, canceled(ctx, failure)
	}
	return nil, failure
}

// next says how long to wait before the attempt after the given one, and whether there is one at all.
func (p RetryPolicy) next(ctx context.Context, attempt int, failure *Error) (time.Duration, bool) {
	if !failure.Retryable() || attempt >= p.Attempts || failure.RetryAfter > p.MaxWait {
		return 0, false
	}
	wait := p.delay(attempt, failure.RetryAfter)
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return 0, false // the pause would only end in a cancellation that hides why
	}
	return wait, true
}

// delay is the full-jitter back-off after the given attempt, or what the provider asked for and up to a tenth more:
// never earlier, and not all clients at once.
func (p RetryPolicy) delay(attempt int, asked time.Duration) time.Duration {
	if asked > 0 {
		return asked + time.Duration(p.Random()*float64(asked)/10)
	}
	ceiling := p.BaseDelay
	for range attempt - 1 {
		if ceiling >= p.MaxDelay/2 {
			ceiling = p.MaxDelay
			break
		}
		ceiling *= 2
	}
	return time.Duration(p.Random() * float64(min(ceiling, p.MaxDelay)))
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

// pause waits for d and reports whether the wait was not ended by ctx.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
