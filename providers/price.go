package providers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

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
	Model string `json:"model" yaml:"model"`
	// Input is for each token of the input that was neither read from nor written to a cache; required.
	Input *float64 `json:"input" yaml:"input"`
	// CachedInput is for each token that was read from a cache. Defaults to Input, above which no vendor asks.
	CachedInput *float64 `json:"cached_input,omitempty" yaml:"cached_input,omitempty"`
	// CacheWrite is for each token that was written to a cache. Without it the cost of a call that wrote is unknown:
	// vendors ask more for these than for Input.
	CacheWrite *float64 `json:"cache_write,omitempty" yaml:"cache_write,omitempty"`
	// Output is for each token of the output, reasoning included; required.
	Output *float64 `json:"output" yaml:"output"`
}

// Prices is a table of prices. The first pattern that matches a model counts.
type Prices []Price

// Validate says everything that is wrong with a configured table, rows that can never count included.
func (p Prices) Validate() error {
	var errs []error
	for i, price := range p {
		if err := price.validate(); err != nil {
			errs = append(errs, fmt.Errorf("price %d (model %q): %w", i+1, price.Model, err))
		}
		// Each star of a later pattern falls under a star of an earlier one that matches its text, so what the later
		// one matches is matched by the earlier one.
		for _, earlier := range p[:i] {
			if wildcard.Match(earlier.Model, price.Model) {
				errs = append(errs, fmt.Errorf("price %d (model %q) never counts: %q stands above it and matches first; "+
					"move it up", i+1, price.Model, earlier.Model))
				break
			}
		}
	}
	return errors.Join(errs...)
}

func (p Price) validate() error {
	var errs []error
	if p.Model == "" {
		errs = append(errs, errors.New("model is missing; write provider/model, with * for any characters"))
	}
	for _, field := range []struct {
		name     string
		value    *float64
		required bool
	}{
		{"input", p.Input, true},
		{"cached_input", p.CachedInput, false},
		{"cache_write", p.CacheWrite, false},
		{"output", p.Output, true},
	} {
		switch {
		case field.value == nil && field.required:
			errs = append(errs, fmt.Errorf("%s is missing; write US dollars per million tokens, 0 if it is free", field.name))
		case field.value != nil && (math.IsNaN(*field.value) || math.IsInf(*field.value, 0) || *field.value < 0):
			errs = append(errs, fmt.Errorf("%s is %v; write US dollars per million tokens, 0 or more",
				field.name, *field.value))
		}
	}
	return errors.Join(errs...)
}

// Cost gives the price of a call in US dollars; false means that it is unknown: no pattern matches, the matching row
// lacks a price that the usage needs, or the provider told no tokens while they are not free.
func (p Prices) Cost(ref ModelRef, u Usage) (float64, bool) {
	for _, price := range p {
		if wildcard.Match(price.Model, ref.String()) {
			return price.cost(u)
		}
	}
	return 0, false
}

func (p Price) cost(u Usage) (float64, bool) {
	if p.Input == nil || p.Output == nil {
		return 0, false
	}
	cached := p.CachedInput
	if cached == nil {
		cached = p.Input
	}
	free := *p.Input == 0 && *p.Output == 0 && *cached == 0
	switch {
	case u.Total() == 0 && !free, u.CacheWrite > 0 && p.CacheWrite == nil:
		return 0, false
	}
	const million = 1e6
	fresh := max(u.Input-u.CachedInput-u.CacheWrite, 0)
	cost := float64(fresh)**p.Input + float64(u.CachedInput)**cached + float64(u.Output)**p.Output
	if p.CacheWrite != nil {
		cost += float64(u.CacheWrite) * *p.CacheWrite
	}
	return cost / million, true
}

// WithPrices gives a Completer that fills in [Usage.Cost] from the table where c leaves it unknown. ref is the model of
// requests that name none. [RegistryConfig.Prices] does it for those of a registry.
func WithPrices(c Completer, ref ModelRef, prices Prices) Completer {
	if len(prices) == 0 {
		return c
	}
	return priced{next: c, ref: ref, prices: prices}
}

// priced adds the cost to what each attempt used, where the adapter left it unknown.
type priced struct {
	next   Completer
	ref    ModelRef
	prices Prices
}

func (p priced) Complete(ctx context.Context, req *Request) (*Response, error) {
	resp, err := p.next.Complete(ctx, req)
	if err == nil {
		resp.Usage = p.price(p.model(req, resp), resp.Usage)
		return resp, nil
	}
	// The zero Usage of a failure stands for an attempt that was not billed, and changes no sum.
	if failure, ok := errors.AsType[*Error](err); ok && failure.Usage != (Usage{}) {
		own := *failure
		own.Usage = p.price(p.model(req, nil), own.Usage)
		return nil, &own
	}
	return nil, err
}

// model is the one that was asked. Where the request and the Completer leave the choice to the other side, it is the
// one that answered.
func (p priced) model(req *Request, resp *Response) ModelRef {
	ref := ModelRef{Provider: p.ref.Provider, Model: cmp.Or(req.Model, p.ref.Model)}
	if resp != nil && ref.Provider == "" {
		ref.Provider = resp.Provider
	}
	if resp != nil && ref.Model == "" {
		ref.Model = resp.Model
	}
	return ref
}

func (p priced) price(ref ModelRef, u Usage) Usage {
	if u.Cost != nil {
		return u
	}
	if cost, ok := p.prices.Cost(ref, u); ok {
		u.Cost = &cost
	}
	return u
}
