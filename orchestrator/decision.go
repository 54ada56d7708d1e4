package orchestrator

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
	"github.com/bouldermgr/manager/prompts"
)

// events returns a decision's events; none for work, or if it has to wait.
func (r *run) events(action schedule.Action) []boulder.Body {
	switch a := action.(type) {
	case schedule.Finish:
		if r.toVerify(a) || a.Check || r.busy(integrateWork) { // the tip's ref may be moving
			return nil
		}
		return finished(r.state, a.Status)
	case schedule.Apply:
		if body := r.withRun(a.Body); body != nil {
			return []boulder.Body{body}
		}
	}
	return nil
}

// withRun returns a decided event with what only the run knows, or nil if it has to wait.
func (r *run) withRun(body boulder.Body) boulder.Body {
	switch b := body.(type) {
	case boulder.Starting:
		if r.halting() {
			return nil
		}
		b.Tag = fmt.Sprintf("manager:%s/%s#%d", r.state.Boulder.ID, b.SubTaskID, b.Attempt) // finds a session without an id
		if b.Shared = r.limitsShared; r.state.SubTask(b.SubTaskID).Reuse == "" {            // otherwise no agent is prompted
			b.Prompt = r.brief(r.state.Open(b.SubTaskID)).Text
		}
		return b
	case boulder.LookStarted:
		b.Tag = fmt.Sprintf("manager:%s/review#%d", r.state.Boulder.ID, r.state.Boulder.Attempts)
		return b
	case boulder.Continuation:
		o := r.state.Open(b.SubTaskID)
		if len(b.Aside) > 0 {
			b.Prompt = r.aside(o)
		} else if c := r.conflict(o.SubTask); c != nil {
			b.Prompt = prompts.Resolve(*o.SubTask, *o.Turn, c, r.told(o))
		} else {
			b.Prompt = prompts.Continuation(*o.SubTask, *o.Turn, r.told(o)) + b.Prompt
		}
		return b
	case boulder.Parked:
		if stop := r.work[workOf(b.AttemptRef)]; stop != nil { // stop the turn at work first: its result parks the sub-task
			stop(&parkError{b})
			return nil
		}
	}
	return body
}

func finished(s *boulder.State, status boulder.Status) []boulder.Body {
	return []boulder.Body{boulder.StatusChanged{Status: boulder.Synthesizing}, synthesize(s, status)}
}

// parkError stops a turn whose sub-task needs the user.
type parkError struct{ boulder.Parked }

func (e *parkError) Error() string { return e.Reason }

// maxListed bounds the other sub-tasks that a prompt lists: prompts must not grow with the plan.
const maxListed = 20

// brief builds the first prompt of an attempt, from stored records only.
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

// conflict returns the conflict that a sub-task's next turn has to resolve, or nil.
func (r *run) conflict(t *boulder.SubTask) *prompts.Conflict {
	last := t.Reconciling()
	if last == nil {
		return nil
	}
	c := &prompts.Conflict{Conflict: *last}
	for _, id := range c.With {
		c.Others = append(c.Others, *r.state.SubTask(id))
	}
	return c
}

// told returns what the next prompt of a session says besides the judge's findings.
func (r *run) told(o *boulder.Open) prompts.Extra {
	told := prompts.Extra{
		News:      news(r.state, o.SubTask, o.Turn.Seq),
		Diversion: r.o.cfg.Diversion(r.state.Boulder),
	}
	if o.Attempt.Idle >= r.o.limits.IdleTurns {
		told.Idle = o.Attempt.Idle
	}
	return told
}

// aside returns the prompt of a turn that leaves questions aside. Of each the session is told so once.
func (r *run) aside(o *boulder.Open) string {
	told := r.told(o)
	told.Aside = prompts.Questions(o.SubTask.AwaitedBy(o.Attempt.Attempt, o.Turn.Aside...))
	if o.Turn.Verdict == nil {
		return prompts.GoAround(*o.SubTask, told)
	}
	return prompts.Continuation(*o.SubTask, *o.Turn, told)
}

// notesAndAnswers returns all notes and answers of the user about a sub-task.
func notesAndAnswers(s *boulder.State, t *boulder.SubTask) []string {
	all := news(s, t, 0)
	return append(all.Notes, all.Answers...)
}

// news returns what the user said after an event about a sub-task and those that it replaces, but not the answers that
// the session of its attempt has.
func news(s *boulder.State, t *boulder.SubTask, afterSeq uint64) prompts.News {
	notes := s.Boulder.NotesFor(t.ID, afterSeq)
	of := t
	var settled []boulder.Blocker
	if afterSeq > 0 { // else the plan has the answers to its questions
		settled = s.SettledSince(t, afterSeq)
		t = s.SubTask(t.Replaces)
	}
	for ; t != nil; t = s.SubTask(t.Replaces) {
		settled = append(t.SettledSince(afterSeq), settled...)
	}
	settled = slices.DeleteFunc(settled, func(b boulder.Blocker) bool {
		return afterSeq > 0 && b.Replied && b.SubTaskID == of.ID && b.Attempt == of.Attempts
	})
	answers := prompts.Answers(settled)
	if afterSeq == 0 {
		answers = append(prompts.PlanAnswers(s.Questions(of)), answers...)
	}
	return prompts.News{Notes: notes, Answers: answers}
}
