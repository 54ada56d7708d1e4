// Package adapter is what HTTP adapters share: sending a request, and remembering which features a model refuses. Which
// model accepts which parameter changes monthly and differs between compatible servers, so adapters try and learn.
package adapter

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
)

// Options are common to all adapters.
type Options struct {
	BaseURL string // without the path of the API. Defaults to the vendor's own server.
	// HTTPClient is copied, and the copy records answers and limits redirects. Defaults to a client with the default
	// transport. Leave its Timeout zero: the context bounds an attempt.
	HTTPClient *http.Client
	Logger     *slog.Logger // defaults to none
}

// Feature is an optional part of a request that not every model accepts.
type Feature struct {
	Name string // of the API's parameter
	// Wanted reports whether a request wants it, given the earlier features in use. Nil: always.
	Wanted func(req *providers.Request, use Features) bool
	// Words identify it in the text of a refusal, in lower case: there are no codes.
	Words []string
}

// Features are the names of the features that a request uses.
type Features []string

// Has reports whether the request uses a feature.
func (f Features) Has(one string) bool { return slices.Contains(f, one) }

// Reply is an answer with status 200, which may still be a failure.
type Reply struct {
	providers.Response        // Provider is filled in here, Model if it is empty
	Missing            string // what an answer without content lacks, as the provider calls it: "choices"
	// Refused and Why are the kind and text of the error for an answer that was billed but cannot be used.
	Refused providers.Kind
	Why     string
}

// Adapter asks the models of one endpoint. It implements [providers.Completer].
type Adapter struct {
	Provider string
	Key      providers.Key
	Logger   *slog.Logger // defaults to none
	// Features are looked for in refusals in this order: if the words of two overlap, the narrower one comes first.
	Features []Feature
	// Call makes one HTTP request with these features, and returns the SDK's error.
	Call func(ctx context.Context, req *providers.Request, use Features) (Reply, error)

	refused sync.Map // by model and feature; not stored, since endpoints change
}

type refusal struct{ model, feature string }

// Complete implements [providers.Completer]. It drops features that a model refuses, at once and for good.
func (a *Adapter) Complete(ctx context.Context, req *providers.Request) (*providers.Response, error) {
	for {
		var use Features
		for _, f := range a.Features {
			if _, refused := a.refused.Load(refusal{req.Model, f.Name}); !refused && (f.Wanted == nil || f.Wanted(req, use)) {
				use = append(use, f.Name)
			}
		}
		resp, failure := a.attempt(ctx, req, use)
		if failure == nil {
			return resp, nil
		}
		refused, ok := a.refusedOf(req, use, failure)
		if !ok {
			return nil, failure
		}
		a.refused.Store(refusal{req.Model, refused}, true)
		if a.Logger != nil {
			a.Logger.WarnContext(ctx, "model refuses a parameter, doing without from now on",
				"provider", a.Provider, "model", req.Model, "parameter", refused, "error", failure)
		}
	}
}

func (a *Adapter) attempt(
	ctx context.Context, req *providers.Request, use Features,
) (*providers.Response, *providers.Error) {
	answer := new(recorded)
	reply, err := a.Call(context.WithValue(ctx, answerKey{}, answer), req, use)
	if err == nil && reply.Text == "" && reply.Usage == (boulder.Usage{}) && reply.Refused == "" && reply.Missing == "" {
		reply.Missing = "text and no usage" // no model has worked on it: an outage, as gateways report it
	}
	if err != nil || reply.Missing != "" {
		return nil, a.failed(req.Model, answer, reply.Missing, err)
	}
	if sane := reply.Usage.Sane(); sane != reply.Usage {
		if a.Logger != nil {
			a.Logger.WarnContext(ctx, "the provider reports an impossible usage, which does not count",
				"provider", a.Provider, "model", req.Model, "usage", reply.Usage)
		}
		reply.Usage = sane
	}
	if reply.Usage.Tokens() > 0 { // the vendors report no prices
		reply.Usage.Unpriced = 1
	}
	if reply.Refused != "" {
		failure := providers.Classify(answer.Status, "", a.Key.Scrub(reply.Why), answer.Header, nil)
		failure.Kind, failure.Usage = reply.Refused, reply.Usage
		return nil, a.attribute(req.Model, failure)
	}
	resp := reply.Response
	resp.Provider, resp.Model = a.Provider, cmp.Or(resp.Model, req.Model)
	return &resp, nil
}

func (a *Adapter) refusedOf(req *providers.Request, used Features, failure *providers.Error) (string, bool) {
	parameter := failure.Status == http.StatusBadRequest || failure.Status == http.StatusUnprocessableEntity
	if failure.Kind != providers.KindBadRequest || !parameter {
		return "", false
	}
	text := strings.ToLower(failure.Message)
	if req.Effort != "" && (strings.Contains(text, "effort") || strings.Contains(text, "thinking")) {
		return "", false // the user wants that
	}
	for _, f := range a.Features {
		named := slices.ContainsFunc(f.Words, func(word string) bool { return strings.Contains(text, word) })
		if named && used.Has(f.Name) {
			return f.Name, true
		}
	}
	return "", false
}

// Prompted returns the system instruction of req followed by its schema, for models that cannot be constrained to it.
// It must contain the word JSON: OpenAI's JSON mode requires that.
func Prompted(req *providers.Request) string {
	wish := "Answer with one JSON object that follows this JSON Schema, and nothing else:\n" + string(req.Schema)
	if req.System == "" {
		return wish
	}
	return req.System + "\n\n" + wish
}
