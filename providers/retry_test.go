package providers_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/providers"
)

var errShutdown = errors.New("shutting down")

func always(f float64) func() float64 { return func() float64 { return f } }

func TestRetryPauses(t *testing.T) {
	t.Parallel()
	limited := providers.Error{Kind: providers.KindRateLimit}
	asked := func(d time.Duration) providers.Error {
		return providers.Error{Kind: providers.KindRateLimit, RetryAfter: d}
	}
	for name, tt := range map[string]struct {
		policy   providers.RetryPolicy
		failures []providers.Error
		pauses   []time.Duration
		fails    bool
	}{
		"doubles": {
			policy:   providers.RetryPolicy{Random: always(1)},
			failures: []providers.Error{limited, limited, limited},
			pauses:   []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},
		},
		"gives up after four": {
			policy:   providers.RetryPolicy{Random: always(1)},
			failures: []providers.Error{limited, limited, limited, limited},
			pauses:   []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},
			fails:    true,
		},
		"full jitter": {
			policy:   providers.RetryPolicy{Random: always(0)},
			failures: []providers.Error{limited, limited},
			pauses:   []time.Duration{0, 0},
		},
		"as asked, never earlier": {
			policy:   providers.RetryPolicy{Random: always(0)},
			failures: []providers.Error{asked(37 * time.Second)},
			pauses:   []time.Duration{37 * time.Second},
		},
		"as asked, up to a tenth later": {
			policy:   providers.RetryPolicy{Random: always(1)},
			failures: []providers.Error{asked(40 * time.Second)},
			pauses:   []time.Duration{44 * time.Second},
		},
		"asked for too much": {
			failures: []providers.Error{asked(61 * time.Second)}, fails: true,
		},
		"overloaded and network pass": {
			policy:   providers.RetryPolicy{Random: always(0)},
			failures: []providers.Error{{Kind: providers.KindOverloaded}, {Kind: providers.KindNetwork}},
			pauses:   []time.Duration{0, 0},
		},
		"key": {failures: []providers.Error{{Kind: providers.KindAuth}}, fails: true},
		// A provider that sends Retry-After with these means something else.
		"credit":  {failures: []providers.Error{{Kind: providers.KindQuota, RetryAfter: time.Second}}, fails: true},
		"request": {failures: []providers.Error{{Kind: providers.KindBadRequest}}, fails: true},
		"filter":  {failures: []providers.Error{{Kind: providers.KindContentFilter}}, fails: true},
		"context": {failures: []providers.Error{{Kind: providers.KindContextLength}}, fails: true},
		"cut":     {failures: []providers.Error{{Kind: providers.KindTruncated}}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				model := &script{}
				for _, failure := range tt.failures {
					failure.Usage = providers.Usage{Output: 2}
					model.steps = append(model.steps, fails(failure))
				}
				model.steps = append(model.steps, says("at last"))
				resp, err := providers.WithRetry(model, tt.policy).Complete(t.Context(), request())

				var pauses []time.Duration
				for i := range len(model.at) - 1 {
					pauses = append(pauses, model.at[i+1].Sub(model.at[i]))
				}
				if !slices.Equal(pauses, tt.pauses) {
					t.Errorf("paused %v, want %v", pauses, tt.pauses)
				}
				if tt.fails {
					last := tt.failures[len(tt.failures)-1]
					failure, ok := errors.AsType[*providers.Error](err)
					if !ok || failure.Kind != last.Kind || failure.RetryAfter != last.RetryAfter {
						t.Errorf("got %v, want that of the last attempt", err)
					}
					if want := int64(2 * len(tt.failures)); failure.Usage.Output != want {
						t.Errorf("usage %v, want that of all attempts", failure.Usage)
					}
				} else if err != nil || resp.Usage.Output != int64(2*len(tt.failures)+1) {
					t.Errorf("got %+v, %v", resp, err)
				}
			})
		})
	}
}

// From what a server says to what is done: only what passes is waited for, as long as it asks, up to a minute.
func TestRetryByWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status     int
		code       string
		retryAfter string
		pause      time.Duration // below 0: none, the error is returned
	}{
		"429":                     {429, "rate_limit_error", "60", time.Minute},
		"429, asks for too much":  {429, "rate_limit_error", "61", -1},
		"429, does not say":       {429, "rate_limit_error", "", 500 * time.Millisecond},
		"529":                     {529, "overloaded_error", "20", 20 * time.Second},
		"529, asks for too much":  {529, "overloaded_error", "3600", -1},
		"529, does not say":       {529, "overloaded_error", "", 500 * time.Millisecond},
		"503":                     {503, "UNAVAILABLE", "7", 7 * time.Second},
		"429, but no credit":      {429, "insufficient_quota", "1", -1},
		"402":                     {402, "billing_error", "1", -1},
		"429, but a wrong key":    {429, "invalid_api_key", "1", -1},
		"429, but never small":    {429, "request_too_large", "1", -1},
		"500, with a Retry-After": {500, "api_error", "5", 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				header := http.Header{"Retry-After": {tt.retryAfter}}
				failure := *providers.Classify(tt.status, tt.code, "", header, nil)
				model := &script{steps: []func() (*providers.Response, error){fails(failure), says("at last")}}
				policy := providers.RetryPolicy{Random: always(0)}
				if tt.retryAfter == "" {
					policy.Random = always(1)
				}
				start := time.Now()
				_, err := providers.WithRetry(model, policy).Complete(t.Context(), request())
				waited := time.Since(start)
				if tt.pause >= 0 {
					if err != nil || waited != tt.pause {
						t.Errorf("waited %s, want %s: %v", waited, tt.pause, err)
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

// completerFunc is a Completer made of a function.
type completerFunc func(context.Context) error

func (f completerFunc) Complete(ctx context.Context, _ *providers.Request) (*providers.Response, error) {
	return nil, f(ctx)
}

// A hung attempt is ended and tried again; it is not the caller's cancellation.
func TestRetryAttemptTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		hangs := completerFunc(func(ctx context.Context) error {
			attempts++
			<-ctx.Done()
			return ctx.Err()
		})
		policy := providers.RetryPolicy{Random: always(0)}
		start := time.Now()
		_, err := providers.WithRetry(hangs, policy).Complete(t.Context(), request())
		failure, ok := errors.AsType[*providers.Error](err)
		if !ok || failure.Kind != providers.KindNetwork || attempts != 4 || time.Since(start) != 20*time.Minute {
			t.Errorf("%d attempts in %s: %v", attempts, time.Since(start), err)
		}
	})
}

func TestRetryStopsWithTheContext(t *testing.T) {
	t.Parallel()
	limited := fails(providers.Error{Kind: providers.KindRateLimit, RetryAfter: 10 * time.Second, Provider: "p"})
	t.Run("cancelled in a pause", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(errShutdown) })
			model := &script{steps: []func() (*providers.Response, error){limited, says("too late")}}
			_, err := providers.WithRetry(model, providers.RetryPolicy{}).Complete(ctx, request())
			failure, ok := errors.AsType[*providers.Error](err)
			if !ok || failure.Kind != providers.KindCanceled || failure.Provider != "p" ||
				!errors.Is(err, context.Canceled) || !errors.Is(err, errShutdown) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("deadline in an attempt", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			hangs := completerFunc(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			_, err := providers.WithRetry(hangs, providers.RetryPolicy{}).Complete(ctx, request())
			failure, ok := errors.AsType[*providers.Error](err)
			if !ok || failure.Kind != providers.KindCanceled || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	})
	// Waiting for a time after the deadline would only replace the reason by "deadline exceeded".
	t.Run("deadline before the pause ends", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			model := &script{steps: []func() (*providers.Response, error){limited}}
			start := time.Now()
			_, err := providers.WithRetry(model, providers.RetryPolicy{}).Complete(ctx, request())
			failure, ok := errors.AsType[*providers.Error](err)
			if !ok || failure.Kind != providers.KindRateLimit || time.Since(start) != 0 {
				t.Errorf("after %s: %v", time.Since(start), err)
			}
		})
	})
}

// Whatever fails and however the dice fall: attempts and pauses stay within the policy.
func TestRetryStaysWithinPolicy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		kinds := rapid.SliceOfN(rapid.SampledFrom([]providers.Kind{
			providers.KindRateLimit, providers.KindOverloaded, providers.KindNetwork, providers.KindAuth, providers.KindQuota,
		}), 10, 10).Draw(rt, "kinds")
		asked := rapid.SliceOfN(rapid.Int64Range(0, 90), 10, 10).Draw(rt, "asked")
		dice := rapid.Float64Range(0, 0.999).Draw(rt, "dice")
		synctest.Test(t, func(*testing.T) {
			model := &script{}
			for i := range kinds {
				model.steps = append(model.steps, fails(providers.Error{
					Kind: kinds[i], RetryAfter: time.Duration(asked[i]) * time.Second,
				}))
			}
			policy := providers.RetryPolicy{Random: always(dice)}
			_, err := providers.WithRetry(model, policy).Complete(context.Background(), request())
			if err == nil || len(model.at) > 4 {
				rt.Fatalf("%d attempts, %v", len(model.at), err)
			}
			for i := range len(model.at) - 1 {
				pause, wanted := model.at[i+1].Sub(model.at[i]), time.Duration(asked[i])*time.Second
				failure := providers.Error{Kind: kinds[i]}
				if !failure.Retryable() || wanted > time.Minute || pause < wanted || pause > 66*time.Second {
					rt.Fatalf("paused %s after %s that asked for %s", pause, kinds[i], wanted)
				}
			}
		})
	})
}
