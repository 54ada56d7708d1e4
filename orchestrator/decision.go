package orchestrator

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/prompts"
)

// events are what a scheduler's decision comes to, with what only the run knows; none for what is work, or has to wait.
func (r *run) events(action schedule.Action) []boulder.Body {
	switch a := action.(type) {
	case schedule.Finish:
		if r.toVerify(a) || r.busy(integrateRef) { // the ref of the tip may be moving
			return nil
		}
		return finished(r.state, a.Status)
	case boulder.Starting:
		if r.halting() {
			return nil
		}
		a.Tag = fmt.Sprintf("manager:%s/%s#%d", r.state.Boulder.ID, a.SubTaskID, a.Attempt) // to find a session without an id
		if a.Shared = r.limitsShared; r.state.SubTask(a.SubTaskID).Standing == "" {         // else no agent is told anything
			a.Prompt = r.brief(r.state.Open(a.SubTaskID)).Text
		}
		action = a
	case boulder.Continuation:
		o := r.state.Open(a.SubTaskID)
		if o.Turn.Conflict != nil {
			a.Prompt = prompts.Resolve(*o.SubTask, r.conflict(o.SubTask), r.told(o))
		} else {
			a.Prompt = prompts.Continuation(*o.SubTask, *o.Turn, r.told(o)) + a.Prompt
		}
		action = a
	case boulder.Parked:
		if stop := r.work[a.AttemptRef]; stop != nil { // a turn that is at work: its result parks the sub-task
			stop(&parkError{a})
			return nil
		}
	}
	if boulder.TypeOf(action) == "" { // it is work
		return nil
	}
	return []boulder.Body{action}
}

func finished(s *boulder.State, status boulder.Status) []boulder.Body {
	return []boulder.Body{boulder.StatusChanged{Status: boulder.Synthesizing}, synthesize(s, status)}
}

// parkError stops a turn whose sub-task needs the user.
type parkError struct{ boulder.Parked }

func (e *parkError) Error() string { return e.Reason }

// maxListed is how many sub-tasks a prompt lists beside those that it is about: the list must not grow with the plan.
const maxListed = 20

// brief builds the first prompt of an attempt. It depends on stored records only.
func (r *run) brief(o *boulder.Open) boulder.Brief {
	in := prompts.Input{
		BoulderID: r.state.Boulder.ID, RunsDir: filepath.Join(r.o.cfg.Project, ".manager", "runs"),
		Plan: r.state.Revision.Plan, SubTask: *o.SubTask,
		NewFacts: r.state.Boulder.NewFacts, News: news(r.state, o.SubTask, 0),
		Diversion: r.o.cfg.Diversion(r.state.Boulder),
		Isolated:  r.state.Boulder.Isolated(), Conflict: r.conflict(o.SubTask),
	}
	for _, id := range o.SubTask.DependsOn {
		in.Dependencies = append(in.Dependencies, r.state.SubTask(id))
	}
	for _, t := range slices.Backward(r.state.Completed(maxListed + len(o.SubTask.DependsOn))) {
		if !slices.Contains(in.Dependencies, t) {
			in.Finished = append(in.Finished, t)
		}
	}
	return prompts.Build(in)
}

// conflict is why the newest result of a sub-task could not be integrated, if that is what its next turn is about.
func (r *run) conflict(t *boulder.SubTask) *prompts.Conflict {
	if len(t.Conflicts) == 0 || t.Integrated != "" {
		return nil
	}
	c := &prompts.Conflict{Conflict: t.Conflicts[len(t.Conflicts)-1]}
	for _, id := range c.With {
		c.Others = append(c.Others, *r.state.SubTask(id))
	}
	return c
}

// told is what a session is told besides what the judge found, after the turn that has ended.
func (r *run) told(o *boulder.Open) prompts.Told {
	told := prompts.Told{
		News:      news(r.state, o.SubTask, o.Turn.Seq, o.Turn.Evidence.Replied...),
		Diversion: r.o.cfg.Diversion(r.state.Boulder),
	}
	if o.Attempt.Idle >= r.o.limits.IdleTurns {
		told.Idle = o.Attempt.Idle
	}
	return told
}

// said is all that people have said about a sub-task: their notes, then their answers.
func said(s *boulder.State, t *boulder.SubTask) []string {
	all := news(s, t, 0)
	return append(all.Notes, all.Answers...)
}

// news are what people said after an event about a sub-task, and about blockers of those that it stands in the place of,
// without the blockers whose answers the session has.
func news(s *boulder.State, t *boulder.SubTask, afterSeq uint64, has ...string) prompts.News {
	notes := s.Boulder.NotesFor(t.ID, afterSeq)
	var settled []boulder.RaisedBlocker
	for ; t != nil; t = s.SubTask(t.Replaces) {
		settled = append(t.SettledSince(afterSeq), settled...)
	}
	settled = slices.DeleteFunc(settled, func(b boulder.RaisedBlocker) bool { return slices.Contains(has, b.ID) })
	return prompts.News{Notes: notes, Answers: prompts.Answers(settled)}
}
