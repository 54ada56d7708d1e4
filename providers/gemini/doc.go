// Package gemini is the adapter for Google's Gemini API, on top of google.golang.org/genai. In model references its
// name is "google", as OpenCode writes it. Answers are not streamed.
package gemini
