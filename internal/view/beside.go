package view

import (
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/store"
)

// Neighbour is a boulder that the same process runs, under the same limits.
type Neighbour struct {
	BoulderID string
	Held      map[string]int // slots, by model
}

// HeldBy counts the slots of a boulder by model. A turn that goes on although its boulder is paused has one as well.
func HeldBy(d store.Detail) map[string]int {
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
func waitsBeside(waits map[string]schedule.Wait, s *boulder.State, l schedule.Limits, beside []Neighbour) {
	if len(beside) == 0 {
		return
	}
	own := schedule.Share{Held: map[string]int{}}
	for _, o := range s.Live() {
		own.Held[o.Attempt.Model]++
	}
	shares := []schedule.Share{own}
	for _, n := range beside {
		shares = append(shares, schedule.Share{Held: n.Held})
	}
	for model, queue := range s.Queues() {
		if schedule.Room(l, model, shares...) {
			continue
		}
		for i, o := range queue {
			id := o.SubTask.ID
			if _, known := waits[id]; !known {
				waits[id] = schedule.Wait{SubTaskID: id, Model: model, Position: i + 1, Reason: takenBeside(beside)}
			}
		}
	}
}

func takenBeside(beside []Neighbour) string {
	if len(beside) == 1 {
		return fmt.Sprintf("boulder %s has the slots", beside[0].BoulderID)
	}
	var ids []string
	for _, n := range beside {
		ids = append(ids, n.BoulderID)
	}
	return fmt.Sprintf("boulders %s have the slots", strings.Join(ids, ", "))
}
