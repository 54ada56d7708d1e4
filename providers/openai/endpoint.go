package openai

import (
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/providers/internal/adapter"
)

// Structured says which form of structured output an endpoint offers.
type Structured string

// From strong to weak. Where an endpoint refuses the stronger form, the adapter steps down by itself and remembers it.
const (
	JSONSchema Structured = "json_schema" // the answer is constrained to the schema
	JSONObject Structured = "json_object" // the answer is some JSON object; the schema is part of the prompt
	Prompted   Structured = "none"        // nothing but the schema in the prompt
)

// TokenParam is the name of the parameter that limits the answer.
type TokenParam string

// OpenAI and xAI want the newer name; older compatible servers know only the other one and ignore the newer.
const (
	MaxTokens           TokenParam = "max_tokens"
	MaxCompletionTokens TokenParam = "max_completion_tokens"
)

// Endpoint describes an OpenAI-compatible server; the tags are those of the configuration file.
type Endpoint struct {
	Name string `yaml:"name"` // the provider's name in model references; required
	// BaseURL is the address up to and without "/chat/completions", usually ending in "/v1"; required. It may not
	// contain a password or a query: addresses are printed, secrets belong into KeyEnv.
	BaseURL string `yaml:"base_url"`
	// KeyEnv names the environment variable with the key. Empty: the server wants none.
	KeyEnv string `yaml:"key_env,omitempty"`
	// Structured is the strongest form of structured output to ask for. Defaults to json_schema.
	Structured Structured `yaml:"structured,omitempty"`
	TokenParam TokenParam `yaml:"token_param,omitempty"` // defaults to max_tokens
}

// Validate says what is wrong with a configured endpoint.
func (e Endpoint) Validate() error {
	if e.Name == "" {
		return fmt.Errorf("endpoint %s has no name", e.BaseURL)
	}
	if err := adapter.CheckBaseURL(e.BaseURL); err != nil {
		return fmt.Errorf("endpoint %s: base_url %w", e.Name, err)
	}
	if !slices.Contains([]Structured{"", JSONSchema, JSONObject, Prompted}, e.Structured) {
		return fmt.Errorf("endpoint %s: structured is %q; use %s, %s or %s",
			e.Name, e.Structured, JSONSchema, JSONObject, Prompted)
	}
	if !slices.Contains([]TokenParam{"", MaxTokens, MaxCompletionTokens}, e.TokenParam) {
		return fmt.Errorf("endpoint %s: token_param is %q; use %s or %s",
			e.Name, e.TokenParam, MaxTokens, MaxCompletionTokens)
	}
	return nil
}
