// Package openai is the adapter for OpenAI, xAI and every endpoint that speaks OpenAI's chat completions, on top of
// go-openai. What differs between endpoints is a field of [Endpoint], not a guess.
package openai
