package opencode

import (
	"context"
	"slices"
	"time"
)

// Catalogue is what the server can use: the providers that are connected, with their models by id. Nothing else is read
// of the answer, which holds keys.
type Catalogue struct {
	Providers []struct {
		ID     string
		Models map[string]struct{}
	}
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

// Catalogue lists the connected providers and their models. It is also the call that warms a directory: the first one
// takes about two seconds, which the first prompt then does not.
func (d *Directory) Catalogue(ctx context.Context) (Catalogue, error) {
	return get[Catalogue](ctx, d, "list providers", "/config/providers", nil)
}

// DefaultModel gives the model that the user's configuration names, or none: then the server chooses, by what was
// used last and what is connected.
func (d *Directory) DefaultModel(ctx context.Context) (string, error) {
	config, err := get[struct{ Model string }](ctx, d, "get configuration", "/config", nil)
	return config.Model, err
}

// Agents lists the names of the agents that are defined in the directory.
func (d *Directory) Agents(ctx context.Context) (names []string, err error) {
	all, err := get[[]struct{ Name string }](ctx, d, "list agents", "/agent", nil)
	for _, agent := range all {
		names = append(names, agent.Name)
	}
	return names, err
}

// HasLanguageServer reports whether one works in the directory. OpenCode starts one with the first file of its kind that
// an agent edits, if it is installed; which kinds one is for is not told. Without any, editing tools report empty
// diagnostics, the same as for files without a fault.
func (d *Directory) HasLanguageServer(ctx context.Context) (bool, error) {
	type server struct{ Status string }
	all, err := get[[]server](ctx, d, "list language servers", "/lsp", nil)
	return slices.Contains(all, server{"connected"}), err
}

// Toast is a short notice in OpenCode's terminal interface.
type Toast struct {
	Title    string        `json:"title,omitempty"`
	Message  string        `json:"message"`
	Variant  string        `json:"variant"` // info, success, warning or error
	Duration time.Duration `json:"-"`       // 0: OpenCode's default
}

// ShowToast shows a notice to whoever has the terminal interface open on this server; nobody having it open is no error.
func (d *Directory) ShowToast(ctx context.Context, t Toast) error {
	return d.post(ctx, "show toast", "/tui/show-toast", struct {
		Toast
		Milliseconds int64 `json:"duration,omitempty"`
	}{t, t.Duration.Milliseconds()})
}
