// Package providers calls language models for the ledgers.
//
// It holds what all providers share, and nothing that belongs to one of them:
//
//   - [Completer], the one-attempt interface that an adapter implements, with its [Request], [Response] and [Usage];
//   - [Error], whose [Kind] tells a caller how to react, and [Classify], the one place that decides it;
//   - [WithRetry], the one place that tries again;
//   - [Structured], which turns a model's answer into a checked Go value, and [Decode], the pure part of it;
//   - [Registry], which opens the adapters that the environment and the configuration make available.
//
// Adapters live in sub-packages and are wired by the program; this package imports none of them.
// Keys travel as [Key], which prints as "[redacted]" wherever it ends up.
package providers
