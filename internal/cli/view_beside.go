package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/control"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/store"
)

// neighbour is a boulder that the same process runs, under the same limits.
type neighbour struct {
	boulderID string
	held      map[string]int // slots, by model
}

// neighboursOf reads what the boulders beside one have, if anything in it waits for a slot. One that cannot be read is
// left out: its own status tells.
func neighboursOf(ctx context.Context, r reader, holder *control.Holder, d store.Detail) []neighbour {
	queued := func(a boulder.Attempt) bool { return a.Status == boulder.AttemptQueued }
	if holder == nil || !slices.Contains(holder.Running, d.Boulder.ID) || !slices.ContainsFunc(d.Attempts, queued) {
		return nil
	}
	var all []neighbour
	for _, id := range holder.Running {
		if id == d.Boulder.ID {
			continue
		}
		other, err := r.Get(ctx, id)
		if held := heldBy(other); err == nil && len(held) > 0 {
			all = append(all, neighbour{id, held})
		}
	}
	return all
}

// heldBy counts the slots of a boulder by model. A turn that goes on although its boulder is paused has one as well.
func heldBy(d store.Detail) map[string]int {
	held, paused := map[string]int{}, d.Boulder.Status == boulder.Paused
	for _, a := range d.Attempts {
		ended := paused && a.Status == boulder.AttemptMonitoring
		if a.Status.Live() && !ended && !stopped(paused, &a) {
			held[a.Model]++
		}
	}
	return held
}

// waitsBeside adds to waits what waits only because of other boulders: alone, it could start.
func waitsBeside(waits map[string]schedule.Wait, s *boulder.State, l schedule.Limits, beside []neighbour) {
	if len(beside) == 0 {
		return
	}
	own := schedule.Share{Held: map[string]int{}}
	for _, o := range s.Live() {
		own.Held[o.Attempt.Model]++
	}
	shares := []schedule.Share{own}
	for _, n := range beside {
		shares = append(shares, schedule.Share{Held: n.held})
	}
	for _, model := range s.Models() {
		if schedule.Room(l, model, shares) {
			continue
		}
		for i := 0; s.Queued(model, i) != nil; i++ {
			id := s.Queued(model, i).SubTask.ID
			if _, known := waits[id]; !known {
				waits[id] = schedule.Wait{SubTaskID: id, Model: model, Position: i + 1, Reason: takenBeside(beside)}
			}
		}
	}
}

func takenBeside(beside []neighbour) string {
	if len(beside) == 1 {
		return fmt.Sprintf("boulder %s has the slots", beside[0].boulderID)
	}
	var ids []string
	for _, n := range beside {
		ids = append(ids, n.boulderID)
	}
	return fmt.Sprintf("boulders %s have the slots", strings.Join(ids, ", "))
}
