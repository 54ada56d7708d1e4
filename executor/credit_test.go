package executor

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
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

// OpenCode would ask five times, in 74 seconds. Once is enough, and the session goes on when there is credit again.
func TestCreditThatIsUsedUp(t *testing.T) {
	t.Parallel()
	toppedUp := make(chan struct{})
	w := newWorld(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		select {
		case <-toppedUp:
			return scriptmodel.Reply{Text: "Now I could do what was asked."}
		default:
			return withoutCredit(t)
		}
	}, func(c *Config) {
		c.Rules = new(enforcer.DefaultRules())
		c.Rules.Admission = 2 * time.Second // OpenCode swallows a prompt that comes while the turn before it still ends
	})
	a := w.newAttempt("x", "go")
	_, err := a.run(t.Context(), w)
	if !errors.Is(err, boulder.ErrNoCredit) || !strings.Contains(err.Error(), "scripted/agent: no credit left") ||
		!strings.Contains(err.Error(), "manager resume") {
		t.Fatalf("got %v", err)
	}
	if n := w.asked(); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
	if a.saw("makes it wait") {
		t.Errorf("nobody waits: %q", a.activities())
	}
	if s, err := w.dir().Statuses(t.Context()); err != nil || s[a.session()].Type != "" {
		t.Errorf("the session is %+v (%v)", s[a.session()], err)
	}
	close(toppedUp)
	e, err := a.again(t.Context(), w)
	if err != nil || e.FinalMessage != "Now I could do what was asked." || e.Ended.Error != "" {
		t.Errorf("ended %+v with %q, %v", e.Ended, e.FinalMessage, err)
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
