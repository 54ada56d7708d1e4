// Package gemini is the adapter for Google's Gemini API, on top of google.golang.org/genai. Model references call it
// "google", as OpenCode does. Answers are not streamed.
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

// efforts are the levels of thinking of Gemini 3 and later. Older models refuse them.
var efforts = []string{"minimal", "low", "medium", "high"}

// keyEnv names the variables that may hold the key, the more specific one first.
var keyEnv = []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}

// Options are for [Source] and [New]. BaseURL is the address without "/v1beta/models".
type Options = adapter.Options

// Source returns "google" for a registry, with GEMINI_API_KEY or else GOOGLE_API_KEY and, if opts has no address,
// GOOGLE_GEMINI_BASE_URL. Other variables that the SDK would read are ignored.
func Source(getenv func(string) string, opts Options) providers.Source {
	opts.BaseURL = cmp.Or(opts.BaseURL, getenv("GOOGLE_GEMINI_BASE_URL"))
	return providers.Source{
		Name: name, KeyEnv: keyEnv, Address: opts.BaseURL, Efforts: efforts,
		Open: func(key providers.Key) (providers.Completer, error) { return New(key, opts) },
	}
}

// New returns a Completer. It opens no connection. A key is required, else the SDK would read the environment.
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
		// Both are defaults, but set explicitly: the environment could change them, and send key and prompts elsewhere.
		Backend:     genai.BackendGeminiAPI,
		HTTPOptions: genai.HTTPOptions{BaseURL: opts.BaseURL},
		HTTPClient:  adapter.Client(opts.HTTPClient),
	})
	if err != nil {
		return nil, errors.New("google: " + key.Scrub(err.Error())) // the SDK prints its configuration, key included
	}
	return &adapter.Adapter{
		Provider: name, Key: key, Logger: opts.Logger, Features: features,
		Call: func(ctx context.Context, req *providers.Request, use adapter.Features) (out adapter.Reply, err error) {
			// The SDK's decoding panics on wrong types (such as {"candidates":"none"}), and a server must not crash the program.
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

// Features that not every model accepts.
const (
	structured = "responseJsonSchema" // the answer is constrained to the schema
	jsonMode   = "responseMimeType"   // the answer is some JSON object. Gemma lacks even that.
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
