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

// Price is the cost of the models that a pattern matches, in US dollars per million tokens. 0 is a known price, for
// example of the user's own server; nil is unknown. The tags are those of the configuration file.
//
// Each kind of token has one price, whatever the length of the prompt, the time of day or the service tier. If a vendor
// charges more for long prompts, use the higher price: budgets then hold.
type Price struct {
	// Model is a pattern for provider/model. * matches any characters, slashes included. Case is ignored.
	Model string `yaml:"model"`
	// Input is per input token that was neither read from nor written to a cache; required.
	Input *float64 `yaml:"input"`
	// CachedInput is per token read from a cache. Defaults to Input, the most that vendors charge.
	CachedInput *float64 `yaml:"cached_input,omitempty"`
	// CacheWrite is per token written to a cache. Without it such a call's cost is unknown: it exceeds Input.
	CacheWrite *float64 `yaml:"cache_write,omitempty"`
	Output     *float64 `yaml:"output"` // per output token, reasoning included; required
}

// Prices is a table of prices. The first matching pattern counts.
type Prices []Price

// Validate returns all mistakes of a configured table, including rows that can never match.
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
		// If an earlier pattern matches the text of a later one, each star of the later falls under a star of the earlier. So
		// the earlier one matches everything that the later one does.
		above := slices.IndexFunc(p[:i], func(earlier Price) bool { return wildcard.Match(earlier.Model, price.Model) })
		if above >= 0 {
			wrong(" never counts: %q stands above it and matches first; move it up", p[above].Model)
		}
	}
	return errors.Join(errs...)
}

// Cost returns the price of a call in US dollars. It reports false if that is unknown: no pattern matches, a needed
// price is missing, or the provider reported no tokens and they are not free.
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

// WithPrices returns a Completer that uses ref's model and effort for requests without, and prices what c leaves unpriced.
func WithPrices(c Completer, ref ModelRef, prices Prices) Completer {
	return priced{c, ref, prices, ""}
}

type priced struct {
	next   Completer
	ref    ModelRef
	prices Prices
	keyEnv string // the variable of the key, for errors
}

func (p priced) Complete(ctx context.Context, req *Request) (*Response, error) {
	resolved := *req
	resolved.Model, resolved.Effort = cmp.Or(req.Model, p.ref.Model), cmp.Or(req.Effort, p.ref.Effort)
	ref := ModelRef{Provider: p.ref.Provider, Model: resolved.Model}
	resp, err := p.next.Complete(ctx, &resolved)
	if err != nil {
		failure := asError(err)
		p.price(ref, &failure.Usage)
		failure.KeyEnv = p.keyEnv
		return nil, failure
	}
	// If neither request nor ref named a model, it is the one that answered.
	ref = ModelRef{Provider: cmp.Or(ref.Provider, resp.Provider), Model: cmp.Or(ref.Model, resp.Model)}
	p.price(ref, &resp.Usage)
	return resp, nil
}

func (p priced) price(ref ModelRef, u *boulder.Usage) {
	if cost, ok := p.prices.Cost(ref, *u); ok && u.Unpriced > 0 {
		u.Cost, u.Unpriced = cost, 0
	}
}
