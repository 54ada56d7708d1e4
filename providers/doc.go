// Package providers calls language models for the ledgers. It holds what all providers share: adapters, which implement
// [Completer], live in sub-packages, are opened by a [Registry], and are wired by the program. The [Kind] of an [Error]
// tells a caller how to react; [WithRetry] is the one place that tries again; [Structured] turns an answer into a checked
// Go value. Keys travel as [Key], which prints as "[redacted]" wherever it ends up.
package providers
