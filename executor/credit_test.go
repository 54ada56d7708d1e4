package executor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// withoutCredit is how OpenAI refuses for want of credit: with the status of a rate limit.
func withoutCredit(t *testing.T) scriptmodel.Reply {
	body, err := json.Marshal(map[string]any{"error": map[string]any{
		"message": openAIWithoutCredit, "type": "insufficient_quota", "code": "insufficient_quota",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return scriptmodel.Reply{Status: http.StatusTooManyRequests, Body: string(body)}
}

// However often its provider refuses a turn, it is run again in the same session, and is not taken for one that was cut off
// at work. Without credit OpenCode would ask five times, in 74 seconds: once is enough.
func TestTurnIsRunAgainWhenItsProviderLetsIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		refusal  scriptmodel.Reply
		refusals int
		want     error
		says     []string
	}{
		"no credit": {withoutCredit(t), 1, boulder.ErrNoCredit, []string{"scripted/agent: no credit left", "manager resume"}},
		"wrong key": {scriptmodel.Reply{Status: http.StatusUnauthorized}, 1, boulder.ErrFatal, nil},
		"too often": {scriptmodel.Reply{Status: http.StatusTooManyRequests}, 3, boulder.ErrTrouble, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := make(chan struct{})
			w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
				select {
				case <-open:
				default:
					return test.refusal
				}
				if req.TurnsSinceUser() == 0 {
					return calls(readFile("hello.txt"))
				}
				return scriptmodel.Reply{Text: "Now I could do what was asked."}
			}, func(c *Config) {
				c.Rules = new(enforcer.DefaultRules())
				c.Rules.ProviderRetries = 0
				c.Rules.Admission = 2 * time.Second // OpenCode swallows a prompt that comes while the turn before it still ends
			})
			a := w.newAttempt("x", "go")
			for n := range test.refusals {
				run := []run{a.run, a.again}[min(n, 1)]
				if e, err := run(t.Context(), w); !errors.Is(err, test.want) {
					t.Fatalf("%+v, %v", e.Ended, err)
				} else if i := slices.IndexFunc(test.says, func(s string) bool { return !strings.Contains(err.Error(), s) }); i >= 0 {
					t.Errorf("%v does not say %q", err, test.says[i])
				}
			}
			if errors.Is(test.want, boulder.ErrNoCredit) {
				if w.asked() != 1 || a.saw("makes it wait") {
					t.Errorf("nobody waits: the model was asked %d times, %q", w.asked(), a.activities())
				}
				if s, err := w.dir().Statuses(t.Context()); err != nil || s[a.session()].Type != "" {
					t.Errorf("the session is %+v (%v)", s[a.session()], err)
				}
			}
			close(open)
			e, err := a.again(t.Context(), w)
			if err != nil || e.FinalMessage != "Now I could do what was asked." ||
				e.Ended != (boulder.Ended{Finish: "stop"}) || e.ToolCount != 1 {
				t.Errorf("ended %+v with %q, %v", e.Ended, e.FinalMessage, err)
			}
			if n := len(reported[boulder.SubTaskStart](a)); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// The model of a sub-agent can be on another account.
func TestCreditOfASubAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		if strings.Contains(req.FirstUser(), "CHILD") {
			return withoutCredit(t)
		}
		return calls(delegate(t, "Look around", "CHILD"))
	})
	a := w.newAttempt("x", "go")
	_, err := a.run(t.Context(), w)
	if !errors.Is(err, boulder.ErrFatal) || !strings.Contains(err.Error(), "add credit with the provider") || w.asked() != 2 {
		t.Errorf("got %v after %d calls", err, w.asked())
	}
}
