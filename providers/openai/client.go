package openai

import (
	"context"
	"log/slog"

	sdk "github.com/sashabaranov/go-openai"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/failures"
	"github.com/bouldermgr/manager/providers/internal/transport"
)

// Client asks one endpoint. It implements [providers.Completer].
type Client struct {
	endpoint Endpoint
	sdk      *sdk.Client
	failures *failures.Reporter
	formats  *formats
	log      *slog.Logger
}

var _ providers.Completer = (*Client)(nil)

// New makes a client. It opens no connection. The zero key sends none.
func New(endpoint Endpoint, key providers.Key, opts Options) (*Client, error) {
	if err := endpoint.Validate(); err != nil {
		return nil, err
	}
	endpoint = endpoint.withDefaults()
	config := sdk.DefaultConfig(key.Reveal())
	config.BaseURL = endpoint.BaseURL
	config.HTTPClient = transport.Client(opts.HTTPClient)
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Client{
		endpoint: endpoint,
		sdk:      sdk.NewClientWithConfig(config),
		failures: &failures.Reporter{
			Provider: endpoint.Name, KeyEnv: endpoint.KeyEnv, Key: key, Parse: parseError, Content: "choices",
		},
		formats: newFormats(endpoint.Structured),
		log:     log,
	}, nil
}

// Complete implements [providers.Completer]. Where the endpoint refuses a form of structured output, the next weaker
// one is asked for at once and remembered for the model.
func (c *Client) Complete(ctx context.Context, req *providers.Request) (*providers.Response, error) {
	for {
		format := c.formats.of(req.Model)
		resp, failure := c.call(ctx, req, format)
		if failure == nil {
			return resp, nil
		}
		if req.Schema == nil || !refusesFormat(failure) || !c.formats.stepDown(req.Model, format) {
			return nil, failure
		}
		c.log.WarnContext(ctx, "endpoint refuses the response format, asking for a weaker one from now on",
			"provider", c.endpoint.Name, "model", req.Model, "format", string(format), "error", failure)
	}
}

// call is one HTTP request.
func (c *Client) call(
	ctx context.Context, req *providers.Request, format Structured,
) (*providers.Response, *providers.Error) {
	ctx, answer := transport.Record(ctx)
	body := c.body(req, format)
	resp, err := c.sdk.CreateChatCompletion(ctx, body)
	if err != nil {
		return nil, c.failures.Failed(req.Model, answer, err)
	}
	return c.response(req, &body, &resp, answer)
}
