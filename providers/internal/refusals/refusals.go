// Package refusals remembers what the models of an endpoint do not take. Which model takes which parameter changes
// monthly and differs between a vendor's own server and its imitations, so adapters ask, and learn from the refusal.
package refusals

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/providers"
)

// Features are the parts that a request uses of those that not every model takes, and that it can do without. F is an
// adapter's own type; its values are the names of the API's parameters.
type Features[F ~string] []F

// Has reports whether the request uses one.
func (f Features[F]) Has(one F) bool { return slices.Contains(f, one) }

// Cue is a feature and the words by which refusals name it, in small letters. There are no codes for it.
type Cue[F ~string] struct {
	Feature F
	Words   []string
}

// Asker asks the models of one endpoint for what they are not known to refuse. It may be used from many goroutines.
type Asker[F ~string] struct {
	// Provider is for the log.
	Provider string
	Logger   *slog.Logger
	// Statuses are those that the endpoint refuses a parameter with.
	Statuses []int
	// Cues are looked for in this order: where a word of one would stand for another too, the narrower one goes first.
	Cues []Cue[F]
	// Plan gives the features that a request wants, without those that its model refuses.
	Plan func(req *providers.Request, refused func(F) bool) Features[F]
	// Call is one HTTP request with these features.
	Call func(context.Context, *providers.Request, Features[F]) (*providers.Response, *providers.Error)

	memory memory[F]
}

// Complete implements [providers.Completer]. What the model refuses and can do without is left out at once, and
// remembered for the model.
func (a *Asker[F]) Complete(ctx context.Context, req *providers.Request) (*providers.Response, error) {
	for {
		ask := a.Plan(req, func(one F) bool { return a.memory.has(req.Model, one) })
		resp, failure := a.Call(ctx, req, ask)
		if failure == nil {
			return resp, nil
		}
		refused, ok := a.refused(ask, failure)
		if !ok {
			return nil, failure
		}
		a.memory.add(req.Model, refused)
		a.Logger.WarnContext(ctx, "model refuses a parameter, doing without from now on",
			"provider", a.Provider, "model", req.Model, "parameter", string(refused), "error", failure)
	}
}

// refused tells which of the used features the endpoint did not take.
func (a *Asker[F]) refused(used Features[F], failure *providers.Error) (F, bool) {
	if failure.Kind != providers.KindBadRequest || !slices.Contains(a.Statuses, failure.Status) {
		return "", false
	}
	text := strings.ToLower(failure.Message)
	for _, cue := range a.Cues {
		named := slices.ContainsFunc(cue.Words, func(word string) bool { return strings.Contains(text, word) })
		if named && used.Has(cue.Feature) {
			return cue.Feature, true
		}
	}
	return "", false
}
