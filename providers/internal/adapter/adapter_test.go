package adapter_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/adapter"
)

// Only a refusal that names a feature which was asked for, with the endpoint's status for that, leads to another call.
func TestWhatIsARefusal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status int
		text   string
		calls  int
	}{
		"refusal":            {400, "no Effort here", 2},
		"another status":     {409, "effort", 1},
		"another kind":       {400, "prompt is too long, effort", 1},
		"nothing is named":   {400, "roles", 1},
		"it was not used":    {400, "tools", 1},
		"the first one goes": {400, "tools and effort", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			a := adapter.Adapter{
				Provider: "p",
				Parse:    func([]byte) adapter.Said { return adapter.Said{Text: tt.text} },
				Features: []adapter.Feature{
					{Name: "tool", Words: []string{"tools"}},
					{Name: "effort", Wanted: adapter.Effort, Words: []string{"effort"}},
				},
				Call: func(ctx context.Context, _ *providers.Request, _ adapter.Features) (adapter.Reply, error) {
					calls++
					return adapter.Reply{}, post(ctx, tt.status)
				},
			}
			_, err := a.Complete(t.Context(), &providers.Request{Model: "m", Effort: "low"})
			if failure, ok := errors.AsType[*providers.Error](err); !ok || failure.Message != tt.text {
				t.Errorf("got %v", err)
			}
			if calls != tt.calls {
				t.Errorf("%d calls, want %d", calls, tt.calls)
			}
		})
	}
}

type answering int

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Body: http.NoBody}, nil
}

// post is a call of an SDK that was answered with a status.
func post(ctx context.Context, status int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host", strings.NewReader("question"))
	if err != nil {
		return err
	}
	resp, err := adapter.Client(&http.Client{Transport: answering(status)}).Do(req)
	if err != nil {
		return err
	}
	return errors.Join(errors.New("refused"), resp.Body.Close())
}
