package blockers

import (
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

func TestStandingOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	of := func(hard bool) boulder.Blocker {
		at := boulder.BlockerScope{BoulderID: "b", SubTaskID: "t", Attempt: 1}
		return boulder.Blocker{ID: "B1", BlockerScope: at, Hard: hard, Status: boulder.BlockerPending}
	}
	asked := func(until time.Time) boulder.Blocker {
		b := of(false)
		b.Ask, b.Until = &boulder.Ask{}, until
		return b
	}
	alone := func(b boulder.Blocker) boulder.Blocker {
		b.BlockerScope = boulder.BlockerScope{}
		return b
	}
	answered := of(true)
	answered.Status = boulder.BlockerAnswered
	task := func(status boulder.SubTaskStatus, attempts int) *boulder.SubTask {
		return &boulder.SubTask{ID: "t", Status: status, Attempts: attempts}
	}
	parked, again := task(boulder.SubTaskBlocked, 1), task(boulder.SubTaskInProgress, 2)
	for name, test := range map[string]struct {
		b    boulder.Blocker
		t    *boulder.SubTask
		want Standing
	}{
		"hard":                        {of(true), parked, Awaited},
		"soft":                        {of(false), parked, Choice},
		"hard, tried again":           {of(true), again, Moot},
		"soft, tried again":           {of(false), again, Choice},
		"hard, completed":             {of(true), task(boulder.SubTaskCompleted, 1), Moot},
		"soft, completed":             {of(false), task(boulder.SubTaskCompleted, 1), Moot},
		"soft, failed":                {of(false), task(boulder.SubTaskFailed, 1), Moot},
		"hard, skipped":               {of(true), task(boulder.SubTaskSkipped, 1), Moot},
		"hard, the boulder is over":   {of(true), nil, Moot},
		"answered":                    {answered, parked, Over},
		"answered, over":              {answered, nil, Over},
		"a session waits":             {asked(now.Add(time.Second)), task(boulder.SubTaskInProgress, 1), Awaited},
		"one of before waited":        {asked(now.Add(time.Second)), again, Choice},
		"its time is up":              {asked(now), again, Choice},
		"its time is up, and it over": {asked(now.Add(time.Second)), nil, Moot},
		"hard, outside of a run":      {alone(of(true)), nil, Awaited},
		"soft, outside of a run":      {alone(of(false)), nil, Choice},
		"a session outside waits":     {alone(asked(now.Add(time.Hour))), nil, Awaited},
	} {
		if got := StandingOf(&test.b, test.t, "", now); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
	tasks := []*boulder.SubTask{parked, {ID: "done", Status: boulder.SubTaskCompleted}}
	for id, says := range map[string]string{"t": "", "done": `sub-task "done" is completed`, "gone": "boulder b is running"} {
		b := boulder.Blocker{BlockerScope: boulder.BlockerScope{BoulderID: "b", SubTaskID: id}}
		s, why := SubTaskOf(&b, boulder.Boulder{ID: "b", Status: boulder.Running}, tasks)
		if why != says || (s == nil) != (why != "") {
			t.Errorf("%s: %q", id, why)
		}
		if s, why := SubTaskOf(&b, boulder.Boulder{}, nil); s != nil || why != "boulder b is not here any more" {
			t.Errorf("%s without its boulder: %q", id, why)
		}
	}
}
