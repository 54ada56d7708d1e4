package adaptertest

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/providers"
)

// API is the wire format of a provider's refusals and answers.
type API struct {
	// Refusal returns the body of a 400 with this text.
	Refusal func(text string) string
	// Answer returns the body of a success.
	Answer func(asked map[string]any) string
	// Features names the features that a request uses, in a fixed order.
	Features func(asked map[string]any) string
}

// Rule refuses some requests.
type Rule struct {
	Refuses func(asked map[string]any) bool
	Text    string
}

// Refusing refuses requests with a value at a path of keys.
func Refusing(text string, path ...string) Rule { return Rule{Refuses: Has(path...), Text: text} }

// Has matches requests with a value at a path of keys.
func Has(path ...string) func(asked map[string]any) bool {
	return func(asked map[string]any) bool {
		for _, key := range path[:len(path)-1] {
			asked, _ = asked[key].(map[string]any)
		}
		return asked[path[len(path)-1]] != nil
	}
}

// Picky is a server that applies its rules in order, and records requests.
type Picky struct {
	Asked []map[string]any // the bodies of all requests, which must not be concurrent

	t     testing.TB
	api   API
	rules []Rule
}

// Picky returns a server for the API.
func (a API) Picky(t testing.TB, rules ...Rule) *Picky { return &Picky{t: t, api: a, rules: rules} }

// ServeHTTP implements [http.Handler].
func (p *Picky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked map[string]any
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		p.t.Error(err)
	}
	p.Asked = append(p.Asked, asked)
	w.Header().Set("Content-Type", "application/json")
	for _, rule := range p.rules {
		if rule.Refuses(asked) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, p.api.Refusal(rule.Text))
			return
		}
	}
	_, _ = io.WriteString(w, p.api.Answer(asked))
}

func (p *Picky) features() []string {
	var out []string
	for _, asked := range p.Asked {
		out = append(out, p.api.Features(asked))
	}
	return out
}

// StepDown has what a model refuses, and the features of the requests that two calls then make.
type StepDown struct {
	Rules []Rule
	Sent  []string
}

// StepsDown tests that a refused feature is dropped in the same call and never sent to that model again, and that other
// models still get every feature. req must use every feature.
func StepsDown(t *testing.T, open Open, api API, req providers.Request, steps map[string]StepDown) {
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := api.Picky(t, step.Rules...)
			c := At(t, open, server)
			for range 2 {
				if _, err := c.Complete(t.Context(), &req); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(step.Sent, server.features()); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			another := req
			another.Model = "another"
			if _, err := c.Complete(t.Context(), &another); err != nil {
				t.Fatal(err)
			}
			if got := server.features()[len(step.Sent)]; got != step.Sent[0] {
				t.Errorf("another model was first asked with %s", got)
			}
		})
	}
}
