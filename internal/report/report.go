// Package report is the morning report: what a boulder came to, for whoever finds it in the morning. It says what to do
// next, which questions wait, what was not done and why, what was done and how that was verified, and what it took.
//
// [New] makes a [Report] of stored records; it asks no model and says nothing that is not on record. Its printers of
// records (gates, verdicts, changes, blockers) are those of all views. The package is pure: no clock, no files.
package report

import (
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Input is what is stored about a boulder.
type Input struct {
	Boulder  boulder.Boulder
	SubTasks []*boulder.SubTask // in plan order
	Attempts []*boulder.Attempt
	// Turns are the newest ones that have evidence or a verdict, by sub-task.
	Turns map[string]boulder.Turn
	// Blockers are the full records of the boulder's, oldest first. What the boulder's own records have besides is added.
	Blockers []boulder.Blocker
	Running  bool // a process is at it
	Now      time.Time
}

// Report is what `manager report --json` prints: one object. Fields are added in later versions, never changed. Texts
// are as they were stored: whoever shows them makes them harmless.
type Report struct {
	Type      string         `json:"type"` // report
	BoulderID string         `json:"boulder_id"`
	Task      string         `json:"task"`
	Goal      string         `json:"goal,omitempty"`
	Project   string         `json:"project"`
	Base      string         `json:"base,omitempty"` // commit the plan was made on
	Status    boulder.Status `json:"status"`
	Reason    string         `json:"reason,omitempty"`
	Running   bool           `json:"running"` // a process is at it: this is not its end

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	MadeAt    time.Time `json:"made_at"` // the report

	Tally    boulder.Tally   `json:"tally"` // of the sub-tasks
	Attempts int             `json:"attempts"`
	Replans  int             `json:"replans"`
	Usage    boulder.Usage   `json:"usage"`     // of everything, with turns that are at work or were cut off
	WorkedMS int64           `json:"worked_ms"` // wall clock without pauses
	Budget   *boulder.Budget `json:"budget"`    // of the run; null: none

	Limited  []Limit   `json:"limited,omitempty"`
	Next     []Step    `json:"next"`      // what to do now, the first thing first
	Blockers []Blocker `json:"blockers"`  // those that a sub-task waits for first, then by age
	SubTasks []SubTask `json:"sub_tasks"` // in plan order, without superseded ones
	// Files are all that sub-tasks were found to have changed, relative to the project, sorted.
	Files []string `json:"files"`
	// Results are those of an isolated boulder; null: there are none, or it works in place.
	Results *Results `json:"results,omitempty"`

	zone    *time.Location  // in which people read times: that of Input.Now
	loop    bool            // it is a loop, which has no sub-tasks for its user
	claimed map[string]bool // see [boulder.Claimed]
}

// Limit is that of a provider for which a sub-task waits, and perhaps others.
type Limit struct {
	Model     string    `json:"model"`
	SubTaskID string    `json:"sub_task_id"`
	Until     time.Time `json:"until"`
}

// Results are what an isolated boulder came to: the tree that lands, or has landed, and what passed on it.
type Results struct {
	Tree   string          `json:"tree"`
	Commit string          `json:"commit"`
	Gates  []string        `json:"gates"`  // that passed on that tree
	Landed *boulder.Landed `json:"landed"` // null: not yet
}

// resultsOf are those of a boulder. What was published without the user's uncommitted files had all its gates run once more.
func resultsOf(in *Input) *Results {
	l := &in.Boulder.Line
	if l.Tip == l.Base {
		return nil
	}
	r := &Results{Tree: l.Tree, Commit: l.Tip, Gates: []string{}, Landed: l.Landed}
	if l.Landed != nil {
		r.Tree, r.Commit = l.Landed.Tree, l.Landed.Commit
	}
	if r.Tree != l.Tree {
		for _, t := range in.SubTasks {
			if t.Status == boulder.SubTaskCompleted {
				r.Gates = append(r.Gates, t.Gates...)
			}
		}
		r.Gates = append(r.Gates, in.Boulder.IntegrationGates...)
	}
	for _, g := range l.Green {
		if g.Tree == r.Tree {
			r.Gates = append(r.Gates, g.Command)
		}
	}
	slices.Sort(r.Gates)
	r.Gates = slices.Compact(r.Gates)
	return r
}

// New makes the report.
func New(in Input) *Report {
	b, until := in.Boulder, in.Boulder.UpdatedAt // what no process is at has not gone on since its last event
	if in.Running {
		until = in.Now
	}
	r := &Report{
		Type: "report", BoulderID: b.ID, Task: b.Task, Goal: b.Goal, Project: b.Project, Base: b.Base, Status: b.Status,
		Reason: b.Reason, Running: in.Running, CreatedAt: b.CreatedAt, UpdatedAt: b.UpdatedAt, MadeAt: in.Now.UTC(),
		Attempts: b.Attempts, Replans: b.Replans, Usage: b.Usage, WorkedMS: b.WorkedBy(until).Milliseconds(), Budget: b.Budget,
		Tally: b.Tally, SubTasks: []SubTask{}, Files: []string{},
		zone: in.Now.Location(), loop: b.Loop != nil, claimed: boulder.Claimed(in.SubTasks),
	}
	running := map[string]boulder.Usage{} // what turns used that are at work or were cut off
	for _, a := range in.Attempts {
		running[a.SubTaskID] = running[a.SubTaskID].Add(a.Running())
		r.Usage = r.Usage.Add(a.Running())
		model := a.Model
		if a.Status == boulder.AttemptMonitoring {
			model = b.LedgerModel
		}
		until, known := b.Cooldowns[model].Until, func(l Limit) bool { return l.Model == model }
		if !a.Status.Terminal() && in.Now.Before(until) && !slices.ContainsFunc(r.Limited, known) {
			r.Limited = append(r.Limited, Limit{model, a.SubTaskID, until})
		}
	}
	for _, t := range in.SubTasks {
		r.Files = append(r.Files, t.Files...)
		if t.Status != boulder.SubTaskSuperseded { // else what took its place is there
			s := newSubTask(t, &in, running[t.ID])
			r.SubTasks = append(r.SubTasks, s)
			_, unclaimed, _ := boulder.Diff{Files: s.Changes}.Split(r.claimed)
			for _, f := range unclaimed {
				r.Files = append(r.Files, f.Path)
			}
		}
	}
	slices.Sort(r.Files)
	r.Files = slices.Compact(r.Files)
	r.Blockers = Blockers(b, in.SubTasks, in.Blockers, in.Now)
	r.Results = resultsOf(&in)
	r.Next = r.next()
	return r
}

// Awaited are the blockers that a sub-task waits for.
func (r *Report) Awaited() []Blocker {
	return slices.DeleteFunc(slices.Clone(r.Blockers), func(b Blocker) bool { return !b.Awaited })
}
