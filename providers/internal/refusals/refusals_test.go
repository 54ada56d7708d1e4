package refusals_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/refusals"
)

type feature string

// Only a refusal that names a feature which was asked for, with the endpoint's status for that, leads to another call.
func TestWhatIsARefusal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		failure providers.Error
		calls   int
	}{
		"refusal":            {providers.Error{Kind: providers.KindBadRequest, Status: 400, Message: "no Effort here"}, 2},
		"another status":     {providers.Error{Kind: providers.KindBadRequest, Status: 422, Message: "effort"}, 1},
		"another kind":       {providers.Error{Kind: providers.KindContextLength, Status: 400, Message: "effort"}, 1},
		"nothing is named":   {providers.Error{Kind: providers.KindBadRequest, Status: 400, Message: "roles"}, 1},
		"it was not used":    {providers.Error{Kind: providers.KindBadRequest, Status: 400, Message: "tools"}, 1},
		"the first one goes": {providers.Error{Kind: providers.KindBadRequest, Status: 400, Message: "tools and effort"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			a := refusals.Asker[feature]{
				Provider: "p", Logger: slog.New(slog.DiscardHandler), Statuses: []int{400},
				Cues: []refusals.Cue[feature]{
					{Feature: "tool", Words: []string{"tools"}}, {Feature: "effort", Words: []string{"effort"}},
				},
				Plan: func(_ *providers.Request, refused func(feature) bool) refusals.Features[feature] {
					if refused("effort") {
						return nil
					}
					return refusals.Features[feature]{"effort"}
				},
				Call: func(
					context.Context, *providers.Request, refusals.Features[feature],
				) (*providers.Response, *providers.Error) {
					calls++
					return nil, &tt.failure
				},
			}
			if _, err := a.Complete(t.Context(), &providers.Request{Model: "m"}); !errors.Is(err, &tt.failure) {
				t.Errorf("got %v", err)
			}
			if calls != tt.calls {
				t.Errorf("%d calls, want %d", calls, tt.calls)
			}
		})
	}
}
