package project

import (
	"context"
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
)

// Change is what one sub-task changed.
type Change struct {
	SubTask  *boulder.SubTask
	From, To string   // commits, or snapshots where it worked in place
	Files    []string // no others are shown; nil: all
	OnTip    bool     // it is a part of the results of an isolated boulder
}

// Changes tells whose change is whose: what is on the line of an isolated boulder, in that order, or what each sub-task left in
// place. With the id of a sub-task only its own, and also what it has in its slot so far; that there is none is an error then.
func Changes(b *boulder.Snapshot, events []boulder.Event, only string) (all []Change, err error) {
	byID := map[string]*boulder.SubTask{}
	for _, t := range b.SubTasks {
		byID[t.ID] = t
		c := Change{SubTask: t, From: t.Snapshot, To: t.Tree}
		if t.Shared {
			c.Files = append([]string{}, t.Files...)
		}
		if b.Boulder.Isolated() {
			c = Change{SubTask: t, From: t.Work + "^", To: t.Work} // From has moved on if it had a conflict
		}
		wanted := only == t.ID && t.Integrated == "" || only == "" && !b.Boulder.Isolated()
		if wanted && c.From != "" && c.To != "" {
			all = append(all, c)
		}
	}
	tip := b.Boulder.Line.Base
	for _, e := range events {
		switch i := e.Body.(type) {
		case boulder.Redone:
			tip = i.Tip
		case boulder.Integrated:
			if t := byID[i.SubTaskID]; t != nil && t.Integrated == i.Commit && (only == "" || only == t.ID) {
				all = append(all, Change{SubTask: t, From: tip, To: i.Commit, OnTip: true})
			}
			tip = i.Commit
		}
	}
	if t := byID[only]; t != nil && len(all) == 0 {
		return nil, fmt.Errorf("sub-task %q has no change to show: no snapshot was taken after a turn of it", t.ID)
	}
	return all, nil
}

// Patch is what git prints of a change, uncut; how is -p, --stat or --name-only. Call [Project.OpenWorkspace] before.
func (p *Project) Patch(ctx context.Context, c Change, how string) (string, error) {
	if c.Files != nil && len(c.Files) == 0 {
		return "", nil
	}
	return p.work.Patch(ctx, c.From, c.To, how, slices.Clone(c.Files))
}
