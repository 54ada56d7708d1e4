package worker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// hostAgents note their host. An attempt is judged complete after its third turn.
type hostAgents struct {
	agents
	host string
}

func (v hostAgents) Run(ctx context.Context, job boulder.Job, report func(boulder.Body) error) (boulder.Evidence, error) {
	v.note(v.host+" has a turn of", job.Attempt.AttemptRef)
	return v.agents.Run(ctx, job, report)
}

func (v hostAgents) Judge(_ context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	return boulder.Verdict{Completed: req.Turn.Number == 3, Summary: "done", IsProgress: true, ContinuationPrompt: "Go on"}, boulder.Usage{Calls: 1}, nil
}

// TestHosts: an attempt's turns stay on the host of its session while a worker runs there, then move to another one.
func TestHosts(t *testing.T) {
	r := newRig(t, 2*time.Second, "a")
	workers := map[string]Worker{}
	for _, host := range []string{"one", "two", "three"} {
		v := hostAgents{r.agents, host}
		w := New(r.client, queue, 10, Parts{Judge: v, Runner: v, Host: host})
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		workers[host] = w
	}
	r.until("at work a#1", 1)
	first, _, _ := strings.Cut(r.notes()[0], " ")
	workers[first].Stop()
	r.until("at work a#1", 2)
	r.finish("a")
	r.completed()
	turns := map[string]int{}
	for _, note := range r.notes() {
		if host, ok := strings.CutSuffix(note, " has a turn of a#1"); ok {
			turns[host]++
		}
	}
	if len(turns) != 2 || turns[first] != 1 || !slices.Contains(slices.Collect(maps.Values(turns)), 3) {
		t.Errorf("turns by host, of which %s was stopped: %v", first, turns)
	}
}
