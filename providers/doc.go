// Package providers calls language models for the ledgers. Adapters implement [Completer] in sub-packages, and a
// [Registry] opens them. The [Kind] of an [Error] tells a caller how to react; only [WithRetry] retries; [Structured]
// turns an answer into a checked Go value. A [Key] always prints as "[redacted]".
package providers
