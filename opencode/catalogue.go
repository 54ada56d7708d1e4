package opencode

import (
	"context"
	"strings"
	"time"
)

// Catalogue is what the server can use: the providers that are connected, with their models. Keys are not read from
// the answer.
type Catalogue struct {
	Providers []Provider `json:"providers"`
}

// Provider is a connected provider.
type Provider struct {
	ID     string           `json:"id"`
	Name   string           `json:"name"`
	Models map[string]Model `json:"models"` // by model id
}

// Model is what the server knows of a model. Zero costs mean free or unknown; zero limits mean unknown.
type Model struct {
	ID         string `json:"id"`
	ProviderID string `json:"providerID"`
	Name       string `json:"name"`
	Status     string `json:"status"` // active, alpha, beta or deprecated
	// Cost in US dollars per million tokens.
	Cost struct {
		Input  float64 `json:"input"`
		Output float64 `json:"output"`
		Cache  struct {
			Read  float64 `json:"read"`
			Write float64 `json:"write"`
		} `json:"cache"`
	} `json:"cost"`
	// Limit in tokens.
	Limit struct {
		Context float64 `json:"context"`
		Input   float64 `json:"input"`
		Output  float64 `json:"output"`
	} `json:"limit"`
}

// Model finds a model of the catalogue.
func (c Catalogue) Model(ref ModelRef) (Model, bool) {
	for _, provider := range c.Providers {
		if provider.ID == ref.ProviderID {
			model, ok := provider.Models[ref.ModelID]
			return model, ok
		}
	}
	return Model{}, false
}

// Catalogue lists the connected providers and their models. It is also the call that warms a directory: the first one
// takes about two seconds, which the first prompt then does not.
func (d *Directory) Catalogue(ctx context.Context) (Catalogue, error) {
	return get[Catalogue](ctx, d, "list providers", "/config/providers", nil)
}

// DefaultModel gives the model that the user's configuration names, or none: then the server chooses, by what was
// used last and what is connected.
func (d *Directory) DefaultModel(ctx context.Context) (ModelRef, error) {
	config, err := get[struct{ Model string }](ctx, d, "get configuration", "/config", nil)
	provider, model, _ := strings.Cut(config.Model, "/")
	return ModelRef{ProviderID: provider, ModelID: model}, err
}

// Agent is an agent that a prompt can name.
type Agent struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Mode        string    `json:"mode"` // primary, subagent or all
	Model       *ModelRef `json:"model"`
}

// Agents lists the agents that are defined in the directory.
func (d *Directory) Agents(ctx context.Context) ([]Agent, error) {
	return get[[]Agent](ctx, d, "list agents", "/agent", nil)
}

// Toast is a short notice in OpenCode's terminal interface.
type Toast struct {
	Title    string
	Message  string
	Variant  string        // info, success, warning or error
	Duration time.Duration // 0: OpenCode's default
}

// ShowToast shows a notice to whoever has the terminal interface open on this server; nobody having it open is no
// error.
func (d *Directory) ShowToast(ctx context.Context, t Toast) error {
	body := struct {
		Title    string `json:"title,omitempty"`
		Message  string `json:"message"`
		Variant  string `json:"variant"`
		Duration int64  `json:"duration,omitempty"` // milliseconds
	}{t.Title, t.Message, t.Variant, t.Duration.Milliseconds()}
	return d.post(ctx, "show toast", "/tui/show-toast", body)
}
