package opencode

import "time"

// Catalogue is what the server can use: the providers that are connected, with their models by id.
type Catalogue struct {
	Providers []Provider
	// Keys are the providers', which the server tells in clear: not to be shown, and to be taken out of what is.
	Keys []string `json:"-"`
}

// Provider is one of a [Catalogue].
type Provider struct {
	ID     string
	Models map[string]struct{}
}

// Has reports whether a model can be used.
func (c Catalogue) Has(ref ModelRef) bool {
	for _, provider := range c.Providers {
		if _, ok := provider.Models[ref.ModelID]; ok && provider.ID == ref.ProviderID {
			return true
		}
	}
	return false
}

// Toast is a short notice in OpenCode's terminal interface.
type Toast struct {
	Title    string        `json:"title,omitempty"`
	Message  string        `json:"message"`
	Variant  string        `json:"variant"` // info, success, warning or error
	Duration time.Duration `json:"-"`       // 0: OpenCode's default
}
