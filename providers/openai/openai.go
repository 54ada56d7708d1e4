// Package openai is the adapter for OpenAI, xAI and every endpoint with OpenAI's chat completions, on top of go-openai.
// [Endpoint] states how they differ; the adapter does not guess.
package openai

import (
	"cmp"
	"context"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adapter"
)

// Options are for sources and [New]. Their BaseURL has no effect: each endpoint has its own.
type Options = adapter.Options

// Source returns OpenAI for a registry: "openai", with OPENAI_API_KEY and OPENAI_BASE_URL.
func Source(getenv func(string) string, opts Options) providers.Source {
	return Endpoint{
		Name: "openai", BaseURL: cmp.Or(getenv("OPENAI_BASE_URL"), "https://api.openai.com/v1"),
		KeyEnv: "OPENAI_API_KEY", TokenParam: MaxCompletionTokens,
	}.Source(opts)
}

// XAI returns xAI for a registry: "xai", with XAI_API_KEY.
func XAI(opts Options) providers.Source {
	return Endpoint{
		Name: "xai", BaseURL: "https://api.x.ai/v1",
		KeyEnv: "XAI_API_KEY", TokenParam: MaxCompletionTokens,
	}.Source(opts)
}

// efforts are those of OpenAI's models. Which of them a model or another server has, its refusal says.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh"}

// Source returns the endpoint for a registry.
func (e Endpoint) Source(opts Options) providers.Source {
	source := providers.Source{
		Name: e.Name, Address: e.BaseURL, Efforts: efforts,
		Open: func(key providers.Key) (providers.Completer, error) { return New(e, key, opts) },
	}
	if e.KeyEnv != "" {
		source.KeyEnv = []string{e.KeyEnv}
	}
	return source
}

// New returns a Completer. It opens no connection. The zero key sends none.
func New(endpoint Endpoint, key providers.Key, opts Options) (providers.Completer, error) {
	if err := endpoint.Validate(); err != nil {
		return nil, err
	}
	config := sdk.DefaultConfig(key.Reveal())
	config.BaseURL = endpoint.BaseURL
	httpClient := adapter.Client(opts.HTTPClient)
	httpClient.Transport = lenient{httpClient.Transport}
	config.HTTPClient = httpClient
	client := sdk.NewClientWithConfig(config)
	return &adapter.Adapter{
		Provider: endpoint.Name, Key: key, Logger: opts.Logger, Features: endpoint.features(),
		Call: func(ctx context.Context, req *providers.Request, use adapter.Features) (adapter.Reply, error) {
			body := endpoint.body(req, use)
			resp, err := client.CreateChatCompletion(ctx, body)
			if err != nil {
				return adapter.Reply{}, err
			}
			return reply(&body, &resp), nil
		},
	}, nil
}

// features are the forms of structured output; the strongest that endpoint and model accept is used.
func (e Endpoint) features() []adapter.Feature {
	words := []string{"response_format", "json_schema", "json_object"}
	return []adapter.Feature{
		{Name: string(JSONSchema), Words: words, Wanted: func(*providers.Request, adapter.Features) bool {
			return cmp.Or(e.Structured, JSONSchema) == JSONSchema
		}},
		{Name: string(JSONObject), Words: words, Wanted: func(_ *providers.Request, use adapter.Features) bool {
			return e.Structured != Prompted && !use.Has(string(JSONSchema))
		}},
	}
}
