// Package anthropic is the adapter for Anthropic's Messages API, on top of anthropic-sdk-go. Answers are not streamed.
package anthropic

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adapter"
)

const (
	name    = "anthropic"
	baseURL = "https://api.anthropic.com"
)

// efforts are those of output_config.effort. Which of them a model has, its refusal says.
var efforts = []string{"low", "medium", "high", "xhigh", "max"}

// Options are for [Source] and [New]. BaseURL is the address without "/v1/messages".
type Options = adapter.Options

// Source returns "anthropic" for a registry, with ANTHROPIC_API_KEY and, if opts has no address, ANTHROPIC_BASE_URL.
// Other variables and files that the SDK would read are ignored.
func Source(getenv func(string) string, opts Options) providers.Source {
	opts.BaseURL = cmp.Or(opts.BaseURL, getenv("ANTHROPIC_BASE_URL"))
	return providers.Source{
		Name: name, KeyEnv: []string{"ANTHROPIC_API_KEY"}, Address: opts.BaseURL, Efforts: efforts,
		Open: func(key providers.Key) (providers.Completer, error) { return New(key, opts) },
	}
}

// New returns a Completer. It opens no connection. The zero key sends none, for a proxy that adds its own.
func New(key providers.Key, opts Options) (providers.Completer, error) {
	opts.BaseURL = strings.TrimRight(cmp.Or(opts.BaseURL, baseURL), "/")
	if err := adapter.CheckBaseURL(opts.BaseURL); err != nil {
		return nil, fmt.Errorf("anthropic: base URL %w", err)
	}
	options := []option.RequestOption{
		// Not through the SDK's client: its defaults come from the environment and profiles, and could leak the key.
		option.WithBaseURL(opts.BaseURL + "/"),
		option.WithHTTPClient(adapter.Client(opts.HTTPClient)),
		option.WithMaxRetries(0), // see providers.WithRetry; the SDK would sleep through any Retry-After
		// Without its own timeout the SDK refuses high output limits unstreamed. The context ends a call sooner.
		option.WithRequestTimeout(time.Hour),
		option.WithoutOpenTelemetry(), // prompts could get into the traces of an embedding program
	}
	if !key.IsZero() {
		options = append(options, option.WithAPIKey(key.Reveal()))
	}
	messages := sdk.NewMessageService(options...)
	return &adapter.Adapter{
		Provider: name, Key: key, Logger: opts.Logger, Features: features,
		Call: func(ctx context.Context, req *providers.Request, use adapter.Features) (adapter.Reply, error) {
			message, err := messages.New(ctx, params(req, use))
			if err != nil {
				return adapter.Reply{}, err
			}
			return reply(message), nil
		},
	}, nil
}

// Features that not every model or endpoint accepts.
const (
	// structured: the answer is constrained to the schema by output_config. Many compatible servers lack it.
	structured = "output_config.format"
	forcedTool = "tool_choice" // the answer is the argument of a tool that must be called. Excludes thinking.
	roomy      = "max_tokens"  // an output limit of [defaultMaxTokens]. The oldest models allow less.
)

var features = []adapter.Feature{
	{
		Name: roomy, Words: []string{"max_tokens"},
		Wanted: func(req *providers.Request, _ adapter.Features) bool { return req.MaxOutputTokens == 0 },
	},
	{Name: structured, Words: []string{
		"output_config", "output_format", "output format", "json_schema", "structured output",
	}},
	{
		Name: forcedTool, Words: []string{"tool", "strict"},
		Wanted: func(_ *providers.Request, use adapter.Features) bool { return !use.Has(structured) },
	},
}
