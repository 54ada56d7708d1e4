package opencode

import (
	"maps"
	"slices"
	"time"
)

// Catalogue lists the models of the connected providers, in no particular order.
type Catalogue struct {
	Models []ModelRef
	// Efforts are the names of the models' variants, sorted: values of [Prompt.Variant].
	Efforts map[ModelRef][]string
	// Missing are the configured providers without a model, also those that are not enabled. OpenCode 1 does not tell them.
	Missing []string
	// Addresses are those of the providers, by id, as far as the configuration sets them.
	Addresses map[string]string
	// Keys are the providers' API keys, which the server sends in clear. Never show them; redact them from other texts.
	Keys []string `json:"-"`
}

// Has reports whether a model can be used.
func (c Catalogue) Has(ref ModelRef) bool { return slices.Contains(c.Models, ref) }

// Providers returns the ids of the providers that have a model, sorted.
func (c Catalogue) Providers() []string {
	all := map[string]bool{}
	for _, m := range c.Models {
		all[m.ProviderID] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// Toast is a short notice in OpenCode's terminal interface.
type Toast struct {
	Title    string        `json:"title,omitempty"`
	Message  string        `json:"message"`
	Variant  string        `json:"variant"` // info, success, warning or error
	Duration time.Duration `json:"-"`       // 0: OpenCode's default
}
