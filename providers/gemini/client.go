package gemini

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/genai"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/failures"
	"github.com/bouldermgr/manager/providers/internal/refusals"
	"github.com/bouldermgr/manager/providers/internal/transport"
)

// Client asks one server. It implements [providers.Completer].
type Client struct {
	sdk      *genai.Client
	failures *failures.Reporter
	asker    *refusals.Asker[feature]
}

var _ providers.Completer = (*Client)(nil)

// New makes a client. It opens no connection. A key is required: without one the SDK would look for it in the
// environment.
func New(key providers.Key, opts Options) (*Client, error) {
	opts = opts.withDefaults()
	if key.IsZero() {
		return nil, fmt.Errorf("google: no key; set %s", opts.KeyEnv)
	}
	if err := transport.CheckBaseURL(opts.BaseURL); err != nil {
		return nil, fmt.Errorf("google: base URL %w", err)
	}
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: key.Reveal(),
		// Both are set although they are the defaults: the environment could change them, and another address would get
		// the key and the prompts.
		Backend:     genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: opts.BaseURL},
		HTTPClient:  transport.Client(opts.HTTPClient),
	})
	if err != nil {
		return nil, errors.New("google: " + key.Scrub(err.Error())) // the SDK prints its configuration, key included
	}
	c := &Client{
		sdk: client,
		failures: &failures.Reporter{
			Provider: name, KeyEnv: opts.KeyEnv, Key: key, Parse: parseError, Content: "candidates",
		},
	}
	c.asker = &refusals.Asker[feature]{
		Provider: name, Logger: opts.Logger, Statuses: []int{http.StatusBadRequest},
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
	resp, err := c.generate(ctx, req, ask)
	if err != nil {
		return nil, c.failures.Failed(req.Model, answer, err)
	}
	return c.response(req, resp, answer)
}

// generate makes an error of a panic in the SDK: its decoding asserts types ({"candidates":"none"} is enough), and what
// a server sends may not end the program.
func (c *Client) generate(
	ctx context.Context, req *providers.Request, ask features,
) (resp *genai.GenerateContentResponse, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			resp, err = nil, fmt.Errorf("genai panicked: %v", cause)
		}
	}()
	return c.sdk.Models.GenerateContent(ctx, req.Model, contents(req), config(req, ask))
}
