// Package anthropic is the adapter for Anthropic's Messages API, on top of anthropic-sdk-go. Answers are not streamed.
package anthropic
