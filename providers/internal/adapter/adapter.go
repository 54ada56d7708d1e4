// Package adapter is what the adapters that talk HTTP have in common: the way from a request to an answer or an error,
// and a memory of what the models of an endpoint do not take. Which model takes which parameter changes monthly and
// differs between a vendor's own server and its imitations, so adapters ask, and learn from the refusal.
package adapter

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/bouldermgr/manager/providers"
)

// Options are those of every adapter.
type Options struct {
	BaseURL string // the address up to and without the path of the API. Defaults to the vendor's own server.
	// HTTPClient is copied, and extended by the recording of answers and a redirect policy. Defaults to a client with
	// the default transport. Leave its Timeout zero: attempts are bounded by their context.
	HTTPClient *http.Client
	Logger     *slog.Logger // defaults to none
}

// Feature is a part of a request that not every model takes, and that the request can do without.
type Feature struct {
	Name string // of the API's parameter
	// Wanted reports whether a request wants it beside those of the features before it that it uses. Nil: always.
	Wanted func(req *providers.Request, use Features) bool
	// Words name it in refusals, in small letters. There are no codes for it.
	Words []string
}

// Features are the names of those that a request uses.
type Features []string

// Has reports whether the request uses one.
func (f Features) Has(one string) bool { return slices.Contains(f, one) }

// Reply is an answer with status 200, which need not be a success.
type Reply struct {
	providers.Response        // Provider is filled in here, Model if it is empty
	Missing            string // what an answer without any content lacks, in the provider's word: "choices"
	// Refused is the kind of the error that an answer stands for which was billed and cannot be used, and Why its text.
	Refused providers.Kind
	Why     string
}

// Adapter asks the models of one endpoint. It implements [providers.Completer].
type Adapter struct {
	Provider string
	Key      providers.Key
	Logger   *slog.Logger // defaults to none
	// Parse reads the error in an answer's body; of a body without one it gives the zero value.
	Parse func(body []byte) Said
	// Features are looked for in refusals in this order: where a word of one stands for another too, the narrower one
	// goes first.
	Features []Feature
	// Call is one HTTP request with these features; the error is that of the SDK.
	Call func(ctx context.Context, req *providers.Request, use Features) (Reply, error)

	refused sync.Map // of model and feature; for as long as the adapter lives, since an endpoint may learn
}

type refusal struct{ model, feature string }

// Complete implements [providers.Completer]. What the model refuses and can do without is left out at once, and
// remembered for the model.
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
		refused, ok := a.refusedOf(use, failure)
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
	if err != nil || reply.Missing != "" {
		return nil, a.failed(req.Model, answer, reply.Missing, err)
	}
	if reply.Usage.Tokens() > 0 { // the vendors tell no prices
		reply.Usage.Unpriced = 1
	}
	if reply.Refused != "" {
		failure := providers.Classify(answer.Status, "", a.Key.Scrub(reply.Why), answer.Header, nil)
		failure.Kind, failure.Usage = reply.Refused, reply.Usage
		return nil, a.about(req.Model, failure)
	}
	resp := reply.Response
	resp.Provider, resp.Model = a.Provider, cmp.Or(resp.Model, req.Model)
	return &resp, nil
}

func (a *Adapter) refusedOf(used Features, failure *providers.Error) (string, bool) {
	parameter := failure.Status == http.StatusBadRequest || failure.Status == http.StatusUnprocessableEntity
	if failure.Kind != providers.KindBadRequest || !parameter {
		return "", false
	}
	text := strings.ToLower(failure.Message)
	for _, f := range a.Features {
		named := slices.ContainsFunc(f.Words, func(word string) bool { return strings.Contains(text, word) })
		if named && used.Has(f.Name) {
			return f.Name, true
		}
	}
	return "", false
}

// Prompted gives the system instruction of req, followed by its schema, for models that cannot be constrained to it. The
// word JSON in it is needed: OpenAI refuses to answer with some JSON object when no message contains it.
func Prompted(req *providers.Request) string {
	wish := "Answer with one JSON object that follows this JSON Schema, and nothing else:\n" + string(req.Schema)
	if req.System == "" {
		return wish
	}
	return req.System + "\n\n" + wish
}
