package opencode

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// Catalogue is what the server can use: the providers that are connected, with
// their models. Keys are not read from the answer.
type Catalogue struct {
	Providers []Provider `json:"providers"`
	// Default names a model for each provider id. It is a suggestion of the server
	// by kind of model, not the user's choice; see [Directory.DefaultModel].
	Default map[string]string `json:"default"`
}

// Provider is a connected provider.
type Provider struct {
	ID     string           `json:"id"`
	Name   string           `json:"name"`
	Models map[string]Model `json:"models"` // by model id
}

// Model is what the server knows of a model. Zero costs mean free or unknown; zero
// limits mean unknown.
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
	Capabilities struct {
		ToolCall  bool `json:"toolcall"`
		Reasoning bool `json:"reasoning"`
	} `json:"capabilities"`
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

// Catalogue lists the connected providers and their models. It is also the call
// that warms a directory: the first one takes about two seconds, which the first
// prompt then does not.
func (d *Directory) Catalogue(ctx context.Context) (Catalogue, error) {
	var out Catalogue
	err := d.call(ctx, request{
		op: "list providers", method: http.MethodGet, path: "/config/providers", out: &out,
	})
	return out, err
}

// DefaultModel gives the model that the user's configuration names, or none: then
// the server chooses, by what was used last and what is connected.
func (d *Directory) DefaultModel(ctx context.Context) (ModelRef, error) {
	var out struct {
		Model string `json:"model"`
	}
	err := d.call(ctx, request{op: "get configuration", method: http.MethodGet, path: "/config", out: &out})
	provider, model, _ := strings.Cut(out.Model, "/")
	return ModelRef{ProviderID: provider, ModelID: model}, err
}

// Agent is an agent that a prompt can name.
type Agent struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Mode        string    `json:"mode"` // primary, subagent or all
	Hidden      bool      `json:"hidden"`
	Model       *ModelRef `json:"model"`
}

// Agents lists the agents that are defined in the directory.
func (d *Directory) Agents(ctx context.Context) ([]Agent, error) {
	var out []Agent
	err := d.call(ctx, request{op: "list agents", method: http.MethodGet, path: "/agent", out: &out})
	return out, err
}

// Toast is a short notice in OpenCode's terminal interface.
type Toast struct {
	Title    string
	Message  string
	Variant  string        // info, success, warning or error
	Duration time.Duration // 0: OpenCode's default
}

// ShowToast shows a notice to whoever has the terminal interface open on this
// server; nobody having it open is no error.
func (d *Directory) ShowToast(ctx context.Context, t Toast) error {
	body := struct {
		Title    string `json:"title,omitempty"`
		Message  string `json:"message"`
		Variant  string `json:"variant"`
		Duration int64  `json:"duration,omitempty"` // milliseconds
	}{t.Title, t.Message, t.Variant, t.Duration.Milliseconds()}
	return d.call(ctx, request{op: "show toast", method: http.MethodPost, path: "/tui/show-toast", in: body})
}
