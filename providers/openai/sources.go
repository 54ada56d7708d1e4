package openai

import (
	"cmp"
	"log/slog"
	"net/http"

	"github.com/bouldermgr/manager/providers"
)

// Defaults of the configuration, not knowledge of the code: the ledger models that are used when the user named none.
// Both are the vendors' small-to-middle models of November 2026, strong enough to plan and judge; any other can be
// configured.
const (
	DefaultOpenAIModel = "gpt-5.4-mini"
	DefaultXAIModel    = "grok-4.3"
)

const (
	openAIBaseURL = "https://api.openai.com/v1"
	xAIBaseURL    = "https://api.x.ai/v1"
)

// Options are for [Sources] and [New].
type Options struct {
	// HTTPClient is copied, and extended by the recording of answers and a redirect policy. Defaults to a client with
	// the default transport. Leave its Timeout zero: attempts are bounded by their context.
	HTTPClient *http.Client
	// Logger defaults to none.
	Logger *slog.Logger
}

// Sources gives the sources for a registry: OpenAI (OPENAI_API_KEY, OPENAI_BASE_URL), xAI (XAI_API_KEY) and the
// configured endpoints. An endpoint named "openai" or "xai" replaces the built-in one.
func Sources(getenv func(string) string, endpoints []Endpoint, opts Options) ([]providers.Source, error) {
	builtin := []Endpoint{
		{
			Name: "openai", BaseURL: cmp.Or(getenv("OPENAI_BASE_URL"), openAIBaseURL), KeyEnv: "OPENAI_API_KEY",
			Model: DefaultOpenAIModel, TokenParam: MaxCompletionTokens,
		},
		{
			Name: "xai", BaseURL: xAIBaseURL, KeyEnv: "XAI_API_KEY",
			Model: DefaultXAIModel, TokenParam: MaxCompletionTokens,
		},
	}
	configured := make(map[string]bool, len(endpoints))
	for _, endpoint := range endpoints {
		configured[endpoint.Name] = true
	}
	var sources []providers.Source
	for _, endpoint := range builtin {
		if !configured[endpoint.Name] {
			sources = append(sources, source(endpoint, opts))
		}
	}
	for _, endpoint := range endpoints {
		if err := endpoint.Validate(); err != nil {
			return nil, err
		}
		sources = append(sources, source(endpoint, opts))
	}
	return sources, nil
}

func source(endpoint Endpoint, opts Options) providers.Source {
	s := providers.Source{
		Name:         endpoint.Name,
		DefaultModel: endpoint.Model,
		Open: func(key providers.Key) (providers.Completer, error) {
			return New(endpoint, key, opts)
		},
	}
	if endpoint.KeyEnv != "" {
		s.KeyEnv = []string{endpoint.KeyEnv}
	}
	return s
}
