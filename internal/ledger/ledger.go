// Package ledger holds what the two ledgers share: what a call to their model cost, and what it means when one failed.
package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
)

// Usage of one call. A call that was never answered costs nothing; one that was, at an unknown price, is unpriced.
func Usage(u providers.Usage) boulder.Usage {
	sum := boulder.Usage{
		Input: u.Input, CacheRead: u.CachedInput, CacheWrite: u.CacheWrite, Output: u.Output, Reasoning: u.Reasoning,
		Calls: 1,
	}
	switch {
	case u.Cost != nil:
		sum.Cost = *u.Cost
	case u != providers.Usage{}:
		sum.Unpriced = 1
	}
	return sum
}

// TooLong reports whether the question did not fit into the model's context.
func TooLong(err error) bool { return kind(err) == providers.KindContextLength }

// Outage is the error if nobody could be asked, and nil if there was an answer, but none of use. It is the cause of
// ctx's end, or wraps [boulder.ErrFatal] where every further call would end the same way, or is a
// [*boulder.TroubleError] that says when to ask again.
func Outage(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch kind(err) {
	case providers.KindContextLength, providers.KindContentFilter, providers.KindTruncated, providers.KindMalformedOutput:
		return nil
	case providers.KindQuota:
		return fmt.Errorf("%w: %w", boulder.ErrNoCredit, err)
	case providers.KindAuth, providers.KindBadRequest, providers.KindSetup:
		return fmt.Errorf("%w: %w", boulder.ErrFatal, err)
	}
	trouble := &boulder.TroubleError{Kind: boulder.TroubleNetwork, Err: err}
	if failure, ok := errors.AsType[*providers.Error](err); ok {
		trouble.RetryAfter = failure.RetryAfter
		switch failure.Kind {
		case providers.KindRateLimit:
			trouble.Kind = boulder.TroubleRateLimit
		case providers.KindOverloaded:
			trouble.Kind = boulder.TroubleOverloaded
		}
	}
	return trouble
}

// kind is that of the provider's error. A Completer that breaks its contract by another error counts as the network.
func kind(err error) providers.Kind {
	if err == nil {
		return ""
	}
	if failure, ok := errors.AsType[*providers.Error](err); ok {
		return failure.Kind
	}
	return providers.KindNetwork
}
