package providers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
)

type verdict struct {
	Completed bool     `json:"completed"`
	Summary   string   `json:"summary"`
	Remaining []string `json:"remaining"`
	Criteria  []struct {
		Met bool   `json:"met"`
		ID  string `json:"id"`
	} `json:"criteria"`
}

func needsSummary(v *verdict) error {
	if v.Summary == "" {
		return errors.New(`"summary" is missing; say in one sentence what was done`)
	}
	return nil
}

type step func() (*providers.Response, error)

// script is a Completer that plays steps and records its requests.
type script struct {
	steps []step
	asked []providers.Request
	at    []time.Time
}

func says(text string) step {
	return func() (*providers.Response, error) {
		return &providers.Response{
			Text: text, Provider: "p", Model: "m", Usage: boulder.Usage{Input: 10, Output: 1},
		}, nil
	}
}

func fails(failure providers.Error) step {
	return func() (*providers.Response, error) { return nil, &failure }
}

func (s *script) Complete(_ context.Context, req *providers.Request) (*providers.Response, error) {
	own := *req
	own.Messages = append([]providers.Message(nil), req.Messages...)
	s.asked, s.at = append(s.asked, own), append(s.at, time.Now())
	if len(s.asked) > len(s.steps) {
		return nil, &providers.Error{Kind: providers.KindBadRequest, Message: "asked too often"}
	}
	return s.steps[len(s.asked)-1]()
}

type bill struct {
	boulder.Usage
	calls int
}

func (b *bill) add(u boulder.Usage) { b.Usage, b.calls = b.Add(u), b.calls+1 }

func request() *providers.Request {
	return &providers.Request{
		Messages: []providers.Message{{Role: providers.RoleUser, Text: "Judge."}}, Schema: json.RawMessage(`{}`),
		MaxOutputTokens: 500,
	}
}

// structured makes a request to a model that plays steps, and returns the result, the model, and the usage.
func structured(
	t *testing.T, check func(*verdict) error, steps ...step,
) (got verdict, model *script, spent bill, err error) {
	t.Helper()
	model = &script{steps: steps}
	synctest.Test(t, func(t *testing.T) {
		req := request()
		got, err = providers.Structured(t.Context(), model, req, check, spent.add)
		if diff := cmp.Diff(request(), req); diff != "" {
			t.Errorf("the request was changed:\n%s", diff)
		}
	})
	return got, model, spent, err
}

func kindOf(err error) providers.Kind {
	if failure, ok := errors.AsType[*providers.Error](err); ok {
		return failure.Kind
	}
	return ""
}

// Each bad answer and its exact mistake are in the next request.
func TestStructuredRepairs(t *testing.T) {
	t.Parallel()
	got, model, spent, err := structured(t, needsSummary,
		says("It is done."), says(`{"completed": "maybe"}`), says(`{"completed": true}`),
		says(`{"completed": true, "summary": "ok"}`))
	if err != nil || !got.Completed || got.Summary != "ok" {
		t.Fatalf("got %+v, %v", got, err)
	}
	if spent.Input != 40 || spent.Output != 4 || spent.calls != 4 {
		t.Errorf("%d calls reported: %v", spent.calls, spent)
	}
	last := model.asked[3].Messages
	for i, want := range []providers.Message{
		{Role: providers.RoleUser, Text: "Judge."},
		{Role: providers.RoleAssistant, Text: "It is done."},
		{Role: providers.RoleUser, Text: "contains no JSON object"},
		{Role: providers.RoleAssistant, Text: `"maybe"`},
		{Role: providers.RoleUser, Text: `"completed" must be true or false, not string`},
		{Role: providers.RoleAssistant, Text: `{"completed": true}`},
		{Role: providers.RoleUser, Text: "say in one sentence what was done"},
	} {
		if len(last) != 7 || last[i].Role != want.Role || !strings.Contains(last[i].Text, want.Text) {
			t.Fatalf("message %d of %d is not %s %q: %q", i, len(last), want.Role, want.Text, last)
		}
	}
	for i, want := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond} {
		if pause := model.at[i+1].Sub(model.at[i]); pause != want {
			t.Errorf("pause %d is %s, want %s", i+1, pause, want)
		}
	}
}

func TestStructuredGivesUp(t *testing.T) {
	t.Parallel()
	prose := says("no, sk-abcdefgh12345678")
	_, model, spent, err := structured(t, nil, prose, prose, prose, prose, prose)
	if kindOf(err) != providers.KindMalformedOutput || !strings.HasPrefix(err.Error(), "p/m: ") ||
		!strings.Contains(err.Error(), "no JSON object") {
		t.Errorf("got %v", err)
	}
	if len(model.asked) != 4 || spent.Output != 4 {
		t.Errorf("%d calls, usage %v", len(model.asked), spent)
	}
}

// After a truncated answer the next request asks for a shorter one, and once for more tokens. Its usage counts.
func TestStructuredTruncated(t *testing.T) {
	t.Parallel()
	cut := fails(providers.Error{Kind: providers.KindTruncated, Usage: boulder.Usage{Input: 10, Output: 500}})
	got, model, spent, err := structured(t, nil, cut, cut, says(`{"completed": true}`))
	if err != nil || !got.Completed || spent.Output != 1001 {
		t.Fatalf("got %+v, usage %v, %v", got, spent, err)
	}
	for i, want := range []int{500, 1000, 1000} {
		if limit := model.asked[i].MaxOutputTokens; limit != want {
			t.Errorf("limit %d is %d, want %d", i, limit, want)
		}
	}
	second := model.asked[1].Messages
	if second[1].Text == "" || !strings.Contains(second[2].Text, "shorter") {
		t.Errorf("second request: %+v", second)
	}
	if _, _, _, err = structured(t, nil, cut, cut, cut, cut); kindOf(err) != providers.KindTruncated {
		t.Errorf("got %v", err)
	}
}

// Errors of the provider are not repaired. The usage so far is reported.
func TestStructuredPassesErrorsOn(t *testing.T) {
	t.Parallel()
	_, model, spent, err := structured(t, nil, says("prose"), fails(providers.Error{Kind: providers.KindAuth}))
	if kindOf(err) != providers.KindAuth || len(model.asked) != 2 || spent.Output != 1 {
		t.Errorf("%d calls, usage %v, %v", len(model.asked), spent, err)
	}
}

func TestStructuredStopsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // ends in the first pause
		defer cancel()
		model := &script{steps: []step{says("prose")}}
		_, err := providers.Structured[verdict](ctx, model, request(), nil, new(bill).add)
		if kindOf(err) != providers.KindCanceled || !errors.Is(err, context.DeadlineExceeded) || len(model.asked) != 1 {
			t.Errorf("%d calls, %v", len(model.asked), err)
		}
	})
}

// A long bad answer is cut in later requests, and an empty one is not sent as an empty turn: providers refuse that.
func TestStructuredQuotesBounded(t *testing.T) {
	t.Parallel()
	_, model, _, err := structured(t, nil, says(strings.Repeat("prose ", 100_000)), says(""), says(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	messages := model.asked[2].Messages
	if n := len(messages[1].Text); n > 9000 || !strings.Contains(messages[1].Text, "[cut: ") || messages[3].Text == "" {
		t.Errorf("the bad answers are quoted with %d and %d bytes", n, len(messages[3].Text))
	}
}

func TestDecodeToleratesForms(t *testing.T) {
	t.Parallel()
	const text = `{"completed": "True", "summary": 42, "remaining": "one thing", "extra": [1],
		"criteria": {"met": "false", "id": 3}}`
	got, err := providers.Decode[verdict](text, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := verdict{Completed: true, Summary: "42", Remaining: []string{"one thing"}}
	want.Criteria = append(want.Criteria, struct {
		Met bool   `json:"met"`
		ID  string `json:"id"`
	}{false, "3"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeDoesNotInvent(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		`{"completed": "yes, mostly"}`:    `"completed" must be true or false`,
		`{"completed": 1}`:                `"completed" must be true or false, not number`,
		`{"summary": true}`:               `"summary" must be a string`,
		`{"criteria": [{"met": "half"}]}`: `"criteria.met" must be true or false`,
	} {
		got, err := providers.Decode[verdict](text, nil)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %+v, %v, want an error that says %s", text, got, err, says)
		}
	}
}

// The last object that passes the check counts. If none does, the error is about the last one.
func TestDecodePrefersTheLastGoodOne(t *testing.T) {
	t.Parallel()
	got, err := providers.Decode(`{"summary": "a"} {"summary": "b"} {"example": 1}`, needsSummary)
	if err != nil || got.Summary != "b" {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = providers.Decode(`{"summary": [1, 2]} {"example": 1}`, needsSummary)
	if err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("got %v", err)
	}
}

// A decoded answer survives a round trip, and a refusal is short and valid UTF-8.
func FuzzDecode(f *testing.F) {
	for _, archive := range answers(f) {
		f.Add(string(archive.Files[0].Data))
	}
	f.Add(`{"completed": "True", "remaining": {"a": [1]}, "criteria": {"met": "false"}}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := providers.Decode(text, needsSummary)
		if err != nil {
			if !utf8.ValidString(err.Error()) || len(err.Error()) > 2_000 && len(text) < 1_000 {
				t.Fatalf("error %q", err)
			}
			return
		}
		encoded, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		again, err := providers.Decode(string(encoded), needsSummary)
		if err != nil {
			t.Fatalf("%s is not read again: %v", encoded, err)
		}
		if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func ExampleDecode() {
	type answer struct {
		Done bool `json:"done"`
	}
	got, err := providers.Decode[answer]("Here you are:\n```json\n{\"done\": True,}\n```", nil)
	fmt.Println(got.Done, err)
	// Output: true <nil>
}
