package anthropic

import (
	"context"
	"fmt"
	"net/http"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/failures"
	"github.com/bouldermgr/manager/providers/internal/refusals"
	"github.com/bouldermgr/manager/providers/internal/transport"
)

// Client asks one server. It implements [providers.Completer].
type Client struct {
	messages sdk.MessageService
	failures *failures.Reporter
	asker    *refusals.Asker[feature]
}

var _ providers.Completer = (*Client)(nil)

// New makes a client. It opens no connection. The zero key sends none, for a proxy that adds its own.
func New(key providers.Key, opts Options) (*Client, error) {
	opts = opts.withDefaults()
	if err := transport.CheckBaseURL(opts.BaseURL); err != nil {
		return nil, fmt.Errorf("anthropic: base URL %w", err)
	}
	options := []option.RequestOption{
		// The service is made without the SDK's client, whose defaults come from the environment and from profiles:
		// another address there would get the key and the prompts.
		option.WithBaseURL(opts.BaseURL + "/"),
		option.WithHTTPClient(transport.Client(opts.HTTPClient)),
		option.WithMaxRetries(0), // see providers.WithRetry; the SDK would sleep through any Retry-After
		// Without a timeout of its own the SDK refuses high output limits unstreamed. The context ends a call sooner.
		option.WithRequestTimeout(time.Hour),
		option.WithoutOpenTelemetry(), // prompts could get into the traces of a program that embeds us
	}
	if !key.IsZero() {
		options = append(options, option.WithAPIKey(key.Reveal()))
	}
	c := &Client{
		messages: sdk.NewMessageService(options...),
		failures: &failures.Reporter{
			Provider: name, KeyEnv: keyEnv, Key: key, Parse: parseError, Content: "message",
		},
	}
	c.asker = &refusals.Asker[feature]{
		Provider: name, Logger: opts.Logger, Statuses: []int{http.StatusBadRequest, http.StatusUnprocessableEntity},
		Cues: cues, Plan: plan, Call: c.call,
	}
	return c, nil
}

// Complete implements [providers.Completer]. What the model refuses and can do without is left out at once, and
// remembered for the model.
func (c *Client) Complete(ctx context.Context, req *providers.Request) (*providers.Response, error) {
	return c.asker.Complete(ctx, req)
}

// call is one HTTP request.
func (c *Client) call(
	ctx context.Context, req *providers.Request, ask features,
) (*providers.Response, *providers.Error) {
	ctx, answer := transport.Record(ctx)
	message, err := c.messages.New(ctx, params(req, ask))
	if err != nil {
		return nil, c.failures.Failed(req.Model, answer, err)
	}
	return c.response(req, message, answer)
}
