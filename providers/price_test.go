package providers_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
)

func priceTable() providers.Prices {
	return providers.Prices{
		{Model: "anthropic/*sonnet*", Input: new(3.0), CachedInput: new(0.3), CacheWrite: new(3.75), Output: new(15.0)},
		{Model: "OpenAI/gpt-*", Input: new(1.25), Output: new(10.0)},
		{Model: "openai/*", Input: new(1.0), CacheWrite: new(1.0), Output: new(0.0)},
		{Model: "ollama/*", Input: new(0.0), Output: new(0.0)},
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		model string
		usage boulder.Usage
		want  float64 // below 0: unknown
	}{
		"each kind of token has its price": {
			"anthropic/claude-sonnet-5-5",
			boulder.Usage{Input: 1000, CacheRead: 600, CacheWrite: 100, Output: 200, Reasoning: 150},
			(300*3 + 600*0.3 + 100*3.75 + 200*15) / 1e6,
		},
		"cached input without a price of its own is input": {
			"openai/gpt-9", boulder.Usage{Input: 1000, CacheRead: 600, Output: 100}, (1000*1.25 + 100*10) / 1e6,
		},
		"cache writes without a price are unknown, although a later row has one": {
			"openai/gpt-9", boulder.Usage{Input: 9, CacheWrite: 1}, -1,
		},
		"a later row, for the others": {"openai/o9", boulder.Usage{Input: 1e6}, 1},
		"no pattern":                  {"xai/grok-9", boulder.Usage{Input: 9}, -1},
		"half a name is not the name": {"anthropic/claude", boulder.Usage{Input: 9}, -1},
		"free":                        {"ollama/vendor/qwen", boulder.Usage{Input: 9, Output: 1}, 0},
		"free, whatever was used":     {"ollama/qwen", boulder.Usage{}, 0},
		"no tokens told":              {"openai/gpt-9", boulder.Usage{}, -1},
		"a cache larger than the input, by mistake": {"openai/gpt-9", boulder.Usage{Input: 1, CacheRead: 4}, 5e-6},
	} {
		ref, err := providers.ParseModel(tt.model)
		got, known := priceTable().Cost(ref, tt.usage)
		if err != nil || known != (tt.want >= 0) || known && math.Abs(got-tt.want) > 1e-12 {
			t.Errorf("%s: got %v, known %t, want %v, %v", name, got, known, tt.want, err)
		}
	}
}

func TestPricesValidate(t *testing.T) {
	t.Parallel()
	if err := priceTable().Validate(); err != nil {
		t.Errorf("a good table: %v", err)
	}
	row := func(model string) providers.Price {
		return providers.Price{Model: model, Input: new(1.0), Output: new(1.0)}
	}
	for want, prices := range map[string]providers.Prices{
		"model is missing":        {row("")},
		"input is missing":        {{Model: "m", Output: new(1.0)}},
		"output is missing":       {{Model: "m", Input: new(1.0)}},
		"cached_input is -1":      {{Model: "m", Input: new(1.0), Output: new(1.0), CachedInput: new(-1.0)}},
		"cache_write is NaN":      {{Model: "m", Input: new(1.0), Output: new(1.0), CacheWrite: new(math.NaN())}},
		"output is +Inf":          {{Model: "m", Input: new(1.0), Output: new(math.Inf(1))}},
		`price 2 (model "a/B") n`: {row("a/b"), row("a/B")},
		`"*" stands above`:        {row("*"), row("a/*")},
		`price 3`:                 {row("a/x*"), row("b/*"), row("a/x*y")},
	} {
		if err := prices.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		_, err := providers.NewRegistry(providers.RegistryConfig{Getenv: env(nil), Prices: prices})
		if err == nil {
			t.Errorf("%s: the registry takes it", want)
		}
	}
	if err := (providers.Prices{row("a/xy"), row("a/x*"), row("a/*")}).Validate(); err != nil {
		t.Errorf("from narrow to wide: %v", err)
	}
}

// A row that Validate refuses as unreachable is unreachable: every model that it matches also matches the row above.
func TestUnreachableRowsNeverCount(t *testing.T) {
	t.Parallel()
	pattern := rapid.StringMatching(`[ab*/]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		above, below := pattern.Draw(t, "above"), pattern.Draw(t, "below")
		table := providers.Prices{
			{Model: above, Input: new(1.0), Output: new(1.0)}, {Model: below, Input: new(2.0), Output: new(2.0)},
		}
		if table.Validate() == nil {
			return
		}
		var model strings.Builder // a model that below matches
		for _, r := range below {
			if r == '*' {
				model.WriteString(rapid.StringMatching(`[ab/]{0,3}`).Draw(t, "star"))
			} else {
				model.WriteRune(r)
			}
		}
		provider, name, _ := strings.Cut(model.String(), "/")
		ref := providers.ModelRef{Provider: provider, Model: name}
		if ref.String() != model.String() {
			return // no valid reference
		}
		if cost, ok := table.Cost(ref, boulder.Usage{Input: 1e6}); !ok || cost != 1 {
			t.Fatalf("%q costs %v, known %t, with %q above %q", ref, cost, ok, above, below)
		}
	})
}

// The registry prices each attempt, including failed ones, unless the provider priced it itself.
func TestRegistryPrices(t *testing.T) {
	t.Parallel()
	prices := providers.Prices{{Model: "p/*", Input: new(1e6), Output: new(1e6)}} // a dollar a token
	failed := func(kind providers.Kind, u boulder.Usage) step { return fails(providers.Error{Kind: kind, Usage: u}) }
	answered := func(u boulder.Usage) step {
		return func() (*providers.Response, error) { return &providers.Response{Usage: u}, nil }
	}
	for name, tt := range map[string]struct {
		provider string
		cost     float64
		unpriced int64
		steps    []step
	}{
		"answer":                   {"p", 3, 0, []step{answered(boulder.Usage{Input: 2, Output: 1, Unpriced: 1})}},
		"the provider knows":       {"p", 0.5, 0, []step{answered(boulder.Usage{Input: 2, Cost: 0.5})}},
		"no usage told":            {"p", 0, 0, []step{answered(boulder.Usage{})}},
		"unknown model":            {"other", 0, 1, []step{answered(boulder.Usage{Input: 2, Unpriced: 1})}},
		"failure":                  {"p", 4, 0, []step{failed(providers.KindAuth, boulder.Usage{Output: 4, Unpriced: 1})}},
		"failure that cost":        {"p", 2, 0, []step{failed(providers.KindAuth, boulder.Usage{Cost: 2})}},
		"failure that cost nought": {"p", 0, 0, []step{failed(providers.KindAuth, boulder.Usage{})}},
		"with the attempts before": {"p", 6, 0, []step{
			failed(providers.KindOverloaded, boulder.Usage{}), failed(providers.KindNetwork, boulder.Usage{Output: 4, Unpriced: 1}),
			answered(boulder.Usage{Input: 2, Unpriced: 1}),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := providers.RegistryConfig{Getenv: env(nil), Prices: prices}
			r, err := providers.NewRegistry(cfg, keyless(tt.provider, tt.steps...))
			if err != nil {
				t.Fatal(err)
			}
			c, err := r.Completer(providers.ModelRef{Provider: tt.provider, Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			var resp *providers.Response
			synctest.Test(t, func(t *testing.T) { resp, err = c.Complete(t.Context(), request()) })
			if failure, ok := errors.AsType[*providers.Error](err); ok {
				resp = &providers.Response{Usage: failure.Usage}
			}
			if u := resp.Usage; math.Abs(u.Cost-tt.cost) > 1e-9 || u.Unpriced != tt.unpriced {
				t.Errorf("got %+v, want %v and %d unpriced", u, tt.cost, tt.unpriced)
			}
		})
	}
}
