package providers_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
)

var errShutdown = errors.New("shutting down")

func retrying(c providers.Completer) providers.Completer {
	return providers.WithRetry(c, slog.New(slog.DiscardHandler))
}

// Only transient errors are retried, after what the server asks for (at most a minute) plus at most a tenth.
func TestRetryByWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status     int
		code       string
		retryAfter string
		least      time.Duration // below 0: no retry, the error is returned
		most       time.Duration // defaults to a tenth above least
	}{
		"429":                     {429, "rate_limit_error", "60", time.Minute, 0},
		"429, asks for too much":  {429, "rate_limit_error", "61", -1, 0},
		"429, does not say":       {429, "rate_limit_error", "", 0, 500 * time.Millisecond},
		"529":                     {529, "overloaded_error", "20", 20 * time.Second, 0},
		"529, asks for too much":  {529, "overloaded_error", "3600", -1, 0},
		"529, does not say":       {529, "overloaded_error", "", 0, 500 * time.Millisecond},
		"503":                     {503, "UNAVAILABLE", "7", 7 * time.Second, 0},
		"500, with a Retry-After": {500, "api_error", "5", 5 * time.Second, 0},
		// Retry-After does not make these transient.
		"429, but no credit":   {429, "insufficient_quota", "1", -1, 0},
		"402":                  {402, "billing_error", "1", -1, 0},
		"429, but a wrong key": {429, "invalid_api_key", "1", -1, 0},
		"429, but never small": {429, "request_too_large", "1", -1, 0},
		"400":                  {400, "", "1", -1, 0},
		"filter":               {400, "content_filter", "1", -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				failure := *providers.Classify(tt.status, tt.code, "", http.Header{"Retry-After": {tt.retryAfter}}, nil)
				failure.Usage.Output = 2
				model := &script{steps: []step{fails(failure), says("at last")}}
				start := time.Now()
				resp, err := retrying(model).Complete(t.Context(), request())
				waited := time.Since(start)
				if tt.least >= 0 {
					if err != nil || resp.Usage.Output != 3 || waited < tt.least || waited > max(tt.most, tt.least+tt.least/10) {
						t.Errorf("waited %s, want %s: %+v, %v", waited, tt.least, resp, err)
					}
					return
				}
				surfaced, ok := errors.AsType[*providers.Error](err)
				if !ok || waited != 0 || surfaced.Kind != failure.Kind || surfaced.RetryAfter != failure.RetryAfter {
					t.Errorf("waited %s, got %v", waited, err)
				}
			})
		})
	}
}

type completerFunc func(context.Context) error

func (f completerFunc) Complete(ctx context.Context, _ *providers.Request) (*providers.Response, error) {
	return nil, f(ctx)
}

// An attempt that hangs is ended and retried. It does not count as the caller's cancellation.
func TestRetryAttemptTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		hangs := completerFunc(func(ctx context.Context) error {
			attempts++
			<-ctx.Done()
			return ctx.Err()
		})
		start := time.Now()
		_, err := retrying(hangs).Complete(t.Context(), request())
		failure, ok := errors.AsType[*providers.Error](err)
		if !ok || failure.Kind != providers.KindNetwork || attempts != 4 || time.Since(start) > 21*time.Minute {
			t.Errorf("%d attempts in %s: %v", attempts, time.Since(start), err)
		}
	})
}

func TestRetryStopsWithTheContext(t *testing.T) {
	t.Parallel()
	limited := &script{}
	for range 10 {
		limited.steps = append(limited.steps, fails(providers.Error{
			Kind: providers.KindRateLimit, RetryAfter: 10 * time.Second, Provider: "p",
		}))
	}
	hangs := completerFunc(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	for name, tt := range map[string]struct {
		model    providers.Completer
		deadline time.Duration
		want     providers.Kind
		is       error
	}{
		"cancelled in a pause":   {limited, time.Hour, providers.KindCanceled, errShutdown},
		"deadline in an attempt": {hangs, 500 * time.Millisecond, providers.KindCanceled, context.DeadlineExceeded},
		// Waiting beyond the deadline would only hide the reason behind "deadline exceeded".
		"deadline before the pause ends": {limited, 5 * time.Second, providers.KindRateLimit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer time.AfterFunc(time.Second, func() { cancel(errShutdown) }).Stop()
				ctx, stop := context.WithTimeout(ctx, tt.deadline)
				defer stop()
				start := time.Now()
				_, err := retrying(tt.model).Complete(ctx, request())
				failure, ok := errors.AsType[*providers.Error](err)
				if !ok || failure.Kind != tt.want || tt.is != nil && !errors.Is(err, tt.is) ||
					tt.model == limited && failure.Provider != "p" {
					t.Errorf("got %v", err)
				}
				if tt.is == nil && time.Since(start) != 0 {
					t.Errorf("after %s", time.Since(start))
				}
			})
		})
	}
}

// Attempts and pauses stay within the policy. The error is the last attempt's, with the usage of all attempts.
func TestRetryStaysWithinPolicy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		kinds := rapid.SliceOfN(rapid.SampledFrom([]providers.Kind{
			providers.KindRateLimit, providers.KindOverloaded, providers.KindNetwork, providers.KindAuth, providers.KindQuota,
			providers.KindContextLength, providers.KindTruncated,
		}), 10, 10).Draw(rt, "kinds")
		asked := rapid.SliceOfN(rapid.Int64Range(0, 90), 10, 10).Draw(rt, "asked")
		synctest.Test(t, func(*testing.T) {
			model := &script{}
			for i := range kinds {
				model.steps = append(model.steps, fails(providers.Error{
					Kind: kinds[i], RetryAfter: time.Duration(asked[i]) * time.Second, Usage: boulder.Usage{Output: 2},
				}))
			}
			_, err := retrying(model).Complete(context.Background(), request())
			n := len(model.at)
			failure, ok := errors.AsType[*providers.Error](err)
			if !ok || n > 4 || failure.Kind != kinds[n-1] || failure.Usage.Output != int64(2*n) {
				rt.Fatalf("%d attempts, %v", n, err)
			}
			for i := range n - 1 {
				pause, wanted := model.at[i+1].Sub(model.at[i]), time.Duration(asked[i])*time.Second
				most := wanted + wanted/10
				if wanted == 0 {
					most = 500 * time.Millisecond << i
				}
				failure := providers.Error{Kind: kinds[i]}
				if !failure.Retryable() || wanted > time.Minute || pause < wanted || pause > most {
					rt.Fatalf("paused %s after %s that asked for %s", pause, kinds[i], wanted)
				}
			}
		})
	})
}
