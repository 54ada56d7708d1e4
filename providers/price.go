package providers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/wildcard"
)

// Price is what the models that a pattern matches cost, in US dollars per million tokens. A price of 0 is a known
// price, as of a server of one's own; one that is not there is unknown. The tags are those of the configuration file.
//
// There is one price for each kind of token, whatever the length of the prompt, the time of day or the service tier.
// Where a vendor asks more for a long prompt, name the higher price: a budget is then kept, if not used up.
type Price struct {
	// Model is a pattern for provider/model, in which * stands for any characters, slashes included. Case does not
	// matter.
	Model string `yaml:"model"`
	// Input is for each token of the input that was neither read from nor written to a cache; required.
	Input *float64 `yaml:"input"`
	// CachedInput is for each token that was read from a cache. Defaults to Input, above which no vendor asks.
	CachedInput *float64 `yaml:"cached_input,omitempty"`
	// CacheWrite is for each token that was written to a cache. Without it the cost of a call that wrote is unknown:
	// vendors ask more for these than for Input.
	CacheWrite *float64 `yaml:"cache_write,omitempty"`
	Output     *float64 `yaml:"output"` // for each token of the output, reasoning included; required
}

// Prices is a table of prices. The first pattern that matches a model counts.
type Prices []Price

// Validate says everything that is wrong with a configured table, rows that can never count included.
func (p Prices) Validate() error {
	var errs []error
	for i, price := range p {
		wrong := func(format string, args ...any) {
			errs = append(errs, fmt.Errorf("price %d (model %q)"+format, append([]any{i + 1, price.Model}, args...)...))
		}
		if price.Model == "" {
			wrong(": model is missing; write provider/model, with * for any characters")
		}
		for _, field := range []struct {
			name     string
			value    *float64
			required bool
		}{
			{"input", price.Input, true},
			{"cached_input", price.CachedInput, false},
			{"cache_write", price.CacheWrite, false},
			{"output", price.Output, true},
		} {
			switch {
			case field.value == nil && field.required:
				wrong(": %s is missing; write US dollars per million tokens, 0 if it is free", field.name)
			case field.value != nil && !(*field.value >= 0 && *field.value <= math.MaxFloat64):
				wrong(": %s is %v; write US dollars per million tokens, 0 or more", field.name, *field.value)
			}
		}
		// Each star of a later pattern falls under a star of an earlier one that matches its text, so what the later
		// one matches is matched by the earlier one.
		above := slices.IndexFunc(p[:i], func(earlier Price) bool { return wildcard.Match(earlier.Model, price.Model) })
		if above >= 0 {
			wrong(" never counts: %q stands above it and matches first; move it up", p[above].Model)
		}
	}
	return errors.Join(errs...)
}

// Cost gives the price of a call in US dollars; false means that it is unknown: no pattern matches, the matching row
// lacks a price that the usage needs, or the provider told no tokens while they are not free.
func (p Prices) Cost(ref ModelRef, u boulder.Usage) (float64, bool) {
	for _, price := range p {
		if wildcard.Match(price.Model, ref.String()) {
			return price.cost(u)
		}
	}
	return 0, false
}

func (p Price) cost(u boulder.Usage) (float64, bool) {
	if p.Input == nil || p.Output == nil {
		return 0, false
	}
	cached, write := cmp.Or(p.CachedInput, p.Input), cmp.Or(p.CacheWrite, new(0.0))
	free := *p.Input == 0 && *p.Output == 0 && *cached == 0
	if u.Tokens() == 0 && !free || u.CacheWrite > 0 && p.CacheWrite == nil {
		return 0, false
	}
	fresh := max(u.Input-u.CacheRead-u.CacheWrite, 0)
	const million = 1e6
	return (float64(fresh)**p.Input + float64(u.CacheRead)**cached + float64(u.CacheWrite)**write +
		float64(u.Output)**p.Output) / million, true
}

// WithPrices gives a Completer that asks ref where a request names no model, and prices from the table what c
// leaves unpriced. [RegistryConfig.Prices] does it for those of a registry.
func WithPrices(c Completer, ref ModelRef, prices Prices) Completer {
	return priced{c, ref, prices, ""}
}

type priced struct {
	next   Completer
	ref    ModelRef
	prices Prices
	keyEnv string // the variable that the key came from, for errors
}

func (p priced) Complete(ctx context.Context, req *Request) (*Response, error) {
	own := *req
	own.Model = cmp.Or(req.Model, p.ref.Model)
	ref := ModelRef{Provider: p.ref.Provider, Model: own.Model}
	resp, err := p.next.Complete(ctx, &own)
	if err != nil {
		failure := asError(err)
		p.price(ref, &failure.Usage)
		failure.KeyEnv = p.keyEnv
		return nil, failure
	}
	// Where the request and the Completer leave the choice to the other side, the model is the one that answered.
	ref = ModelRef{Provider: cmp.Or(ref.Provider, resp.Provider), Model: cmp.Or(ref.Model, resp.Model)}
	p.price(ref, &resp.Usage)
	return resp, nil
}

func (p priced) price(ref ModelRef, u *boulder.Usage) {
	if cost, ok := p.prices.Cost(ref, *u); ok && u.Unpriced > 0 {
		u.Cost, u.Unpriced = cost, 0
	}
}
