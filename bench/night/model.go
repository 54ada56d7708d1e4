package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/wildcard"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// speed is how much faster than the wall clock the night goes by: an hour in 36 seconds.
const speed = 100

// short returns how long a part of the night takes.
func short(ofNight time.Duration) time.Duration { return ofNight / speed }

// hour is a time of the night, since its beginning.
func hour(h, m int) time.Duration { return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute }

// step is how long an agent works on one step.
const step = 15 * time.Minute

// limits are those of the night's configuration, by model.
var limits = map[string]int{"north/large": 1, "north/small": 1, "south/large": 2, "south/small": 2}

func models() []string { return slices.Sorted(maps.Keys(limits)) }

// mishap is what a provider does for a part of the night, in place of an answer.
type mishap struct {
	what        string
	from, until time.Duration
	model       string                                     // or a pattern
	reply       func(left time.Duration) scriptmodel.Reply // left: until it is over
}

func (m *mishap) concerns(model string) bool { return wildcard.Match(m.model, model) }

func mishaps() []mishap {
	refusal := func(status int, code, message string, header map[string]string) scriptmodel.Reply {
		return scriptmodel.Reply{
			Status: status, Header: header, Body: fmt.Sprintf(`{"error":{"message":%q,"code":%q}}`, message, code),
		}
	}
	usedUp := func(left time.Duration, header map[string]string) scriptmodel.Reply {
		message := fmt.Sprintf("Usage limit reached, it resets in %d seconds", int(short(left).Seconds())+1)
		return refusal(http.StatusTooManyRequests, "usage_limit_reached", message, header)
	}
	return []mishap{
		{
			"north/large has used up its quota: three hours, says its text; one second, says its header", hour(1, 0), hour(4, 0), "north/large",
			func(left time.Duration) scriptmodel.Reply { return usedUp(left, map[string]string{"Retry-After": "1"}) },
		},
		{
			"south/large is overloaded, and names a reset that has gone by", hour(2, 0), hour(2, 30), "south/large",
			func(time.Duration) scriptmodel.Reply {
				past := time.Now().Add(-time.Hour).Unix()
				return refusal(http.StatusServiceUnavailable, "overloaded", "The model is overloaded", map[string]string{
					"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": fmt.Sprint(past),
				})
			},
		},
		{
			"north/judge, the first of the ledgers, has used up its quota", hour(2, 30), hour(5, 30), "north/judge",
			func(left time.Duration) scriptmodel.Reply { return usedUp(left, nil) },
		},
		{
			"south refuses its key, and will until the morning", hour(6, 15), hour(24, 0), "south/*",
			func(time.Duration) scriptmodel.Reply {
				return refusal(http.StatusUnauthorized, "invalid_api_key", "Incorrect API key provided", nil)
			},
		},
	}
}

// night is the model's side: what the providers answer, and what they count.
type night struct {
	mishaps []mishap
	note    func(at time.Duration, what string)

	mu      sync.Mutex
	began   time.Time           // of the first request of an agent
	refused map[string]int      // by mishap
	back    map[string]int      // answers after it, by mishap
	working map[string]int      // agents' requests under way, by model
	most    map[string]int      // of those at once
	paid    map[asked]int       // answers to agents
	cut     int                 // answers that were broken off
	at      map[string][]string // sessions that worked on a sub-task
}

// asked is what an agent's model was asked: a conversation, by its digest.
type asked [sha256.Size]byte

func newNight(note func(time.Duration, string)) *night {
	return &night{
		mishaps: mishaps(), note: note, refused: map[string]int{}, back: map[string]int{}, working: map[string]int{},
		most: map[string]int{}, paid: map[asked]int{}, at: map[string][]string{},
	}
}

// count adds one.
func (n *night) count(in map[string]int, what string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	in[what]++
	return in[what]
}

// now returns the time of the night, or 0 before it began.
func (n *night) now() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.began.IsZero() {
		return 0
	}
	return time.Since(n.began) * speed
}

// reply is the handler of both providers, which are told apart by their keys.
func (n *night) reply(ctx context.Context, r scriptmodel.Request) scriptmodel.Reply {
	model := r.Key + "/" + r.Model
	agent := r.Kind() == scriptmodel.KindAgent
	if agent {
		n.mu.Lock()
		if n.began.IsZero() {
			n.began = time.Now()
		}
		n.mu.Unlock()
	}
	at := n.now()
	for i := range n.mishaps {
		if m := &n.mishaps[i]; m.concerns(model) && at >= m.from && at < m.until {
			if n.count(n.refused, m.what) == 1 {
				n.note(at, m.what)
			}
			return m.reply(m.until - at)
		}
	}
	switch {
	case r.Kind() == scriptmodel.KindTitle:
		return scriptmodel.Reply{Text: "A night"}
	case !agent:
		return n.pay(ctx, r, model, accepted)
	}
	now := n.count(n.working, model)
	n.mu.Lock()
	n.most[model] = max(n.most[model], now)
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.working[model]--
	}()
	select {
	case <-time.After(short(step)):
	case <-ctx.Done():
	}
	return n.pay(ctx, r, model, n.work(r))
}

// pay counts an answer that somebody is still there for.
func (n *night) pay(ctx context.Context, r scriptmodel.Request, model string, reply scriptmodel.Reply) scriptmodel.Reply {
	at := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if ctx.Err() != nil {
		n.cut++
		return reply
	}
	for i := range n.mishaps {
		if m := &n.mishaps[i]; m.concerns(model) && at >= m.until {
			n.back[m.what]++
		}
	}
	if r.Kind() == scriptmodel.KindAgent {
		n.paid[sha256.Sum256(fmt.Append(nil, r.SessionID, r.Messages))]++
		if id := subTaskOf(r); !slices.Contains(n.at[id], r.SessionID) {
			n.at[id] = append(n.at[id], r.SessionID)
		}
	}
	return reply
}

// busy reports whether an agent's request is under way.
func (n *night) busy() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, requests := range n.working {
		if requests > 0 {
			return true
		}
	}
	return false
}

func subTaskOf(r scriptmodel.Request) string {
	_, rest, _ := strings.Cut(r.FirstUser(), "# Sub-task: ")
	id, _, _ := strings.Cut(rest, " ")
	return id
}

// The sub-task whose question waits until the morning, and what is asked.
const (
	asks     = "refunds"
	question = "Do refunds of old invoices use the old tax rate?"
	answer   = "Yes, the rate of the invoice."
	chosen   = "Do mails name the old rate, too?" // a question that an agent answers for itself
)

// work is an agent's next step. It works until the time at which its sub-task ends.
func (n *night) work(r scriptmodel.Request) scriptmodel.Reply {
	id := subTaskOf(r)
	i := slices.IndexFunc(plan, func(t subTask) bool { return t.id == id })
	if i < 0 {
		return scriptmodel.Errorf("no sub-task is known for: %.200s", r.FirstUser())
	}
	steps, answered := r.AssistantTurns(), strings.Contains(r.FirstUser(), answer)
	over := n.now() >= plan[i].until
	if id == asks {
		over = answered
	}
	switch {
	case id == asks && !answered && steps == 1:
		return scriptmodel.Call(boulder.BlockerTool, map[string]any{
			"category": "question", "question": question, "blocks_progress": true,
			"context": "The law leaves it open, and the money is that of customers.",
		})
	case id == asks && !answered && steps > 1:
		return scriptmodel.Reply{Text: "shop/refunds.txt is begun. It needs the user's word on the rate.\n" + boulder.DoneMarker}
	case id == "mails" && steps == 1:
		return scriptmodel.Call(boulder.BlockerTool, map[string]any{
			"category": "question", "question": chosen, "blocks_progress": false,
			"context": "Both are lawful.", "options": []string{"both", "the new one", "none"}, "chosen_option": "both",
			"chosen_reasoning": "Customers can compare, and it is easily taken back.",
		})
	case over && r.TurnsSinceUser() > 0:
		return scriptmodel.Reply{Text: fmt.Sprintf("shop/%s.txt has the new tax rate, and I have looked at it once more.", id)}
	}
	return scriptmodel.Bash(fmt.Sprintf("mkdir -p shop && echo 'Step %d.' >> shop/%s.txt", steps+1, id))
}

// accepted is the verdict on all that is done.
var accepted = scriptmodel.Reply{JSON: map[string]any{
	"criteria": []any{map[string]any{"id": "C1", "evidence": "The gate passed.", "met": true}}, "completed": true,
	"summary": "The new tax rate is in, and the gate passed.",
}}
