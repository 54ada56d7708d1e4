// Package gemini is the adapter for Google's Gemini API, on top of google.golang.org/genai. In model references its
// name is "google", as OpenCode writes it. Answers are not streamed.
package gemini

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/genai"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adapter"
)

const (
	name    = "google"
	baseURL = "https://generativelanguage.googleapis.com"
)

// keyEnv names the variables that may hold the key, the more specific one first.
var keyEnv = []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}

// Options are for [Source] and [New]. BaseURL is the address up to and without "/v1beta/models".
type Options = adapter.Options

// Source is for a registry: "google", with GEMINI_API_KEY or else GOOGLE_API_KEY and, if opts names no
// address, GOOGLE_GEMINI_BASE_URL. Nothing else that the SDK would read from the environment counts.
func Source(getenv func(string) string, opts Options) providers.Source {
	opts.BaseURL = cmp.Or(opts.BaseURL, getenv("GOOGLE_GEMINI_BASE_URL"))
	return providers.Source{
		Name: name, KeyEnv: keyEnv,
		Open: func(key providers.Key) (providers.Completer, error) { return New(key, opts) },
	}
}

// New makes a Completer. It opens no connection. A key is required: without one the SDK would look for it in the
// environment.
func New(key providers.Key, opts Options) (providers.Completer, error) {
	if key.IsZero() {
		return nil, errors.New("google: no key; set " + keyEnv[0])
	}
	opts.BaseURL = cmp.Or(opts.BaseURL, baseURL)
	if err := adapter.CheckBaseURL(opts.BaseURL); err != nil {
		return nil, fmt.Errorf("google: base URL %w", err)
	}
	client, err := genai.NewClient(context.Background(), &genai.ClientConfig{
		APIKey: key.Reveal(),
		// Both are set although they are the defaults: the environment could change them, and another address would get
		// the key and the prompts.
		Backend:     genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: opts.BaseURL},
		HTTPClient:  adapter.Client(opts.HTTPClient),
	})
	if err != nil {
		return nil, errors.New("google: " + key.Scrub(err.Error())) // the SDK prints its configuration, key included
	}
	return &adapter.Adapter{
		Provider: name, Key: key, Logger: opts.Logger, Parse: parseError, Features: features,
		Call: func(ctx context.Context, req *providers.Request, use adapter.Features) (out adapter.Reply, err error) {
			// The SDK's decoding asserts types ({"candidates":"none"} is enough to panic), and what a server sends may not
			// end the program.
			defer func() {
				if cause := recover(); cause != nil {
					out, err = adapter.Reply{}, fmt.Errorf("genai panicked: %v", cause)
				}
			}()
			resp, err := client.Models.GenerateContent(ctx, req.Model, contents(req), config(req, use))
			if err != nil {
				return adapter.Reply{}, err
			}
			return reply(resp), nil
		},
	}, nil
}

// The parts of a request that not every model takes.
const (
	structured = "responseJsonSchema" // the answer is constrained to the schema
	jsonMode   = "responseMimeType"   // the answer is some JSON object. Gemma has not even that.
)

var features = []adapter.Feature{
	{Name: jsonMode, Words: []string{
		"json mode", "responsemimetype", "response_mime_type", "response mime type",
	}},
	{
		Name: structured, Words: []string{"schema"},
		Wanted: func(_ *providers.Request, use adapter.Features) bool { return use.Has(jsonMode) },
	},
}
