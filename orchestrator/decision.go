package orchestrator

import (
	"fmt"
	"slices"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/schedule"
	"github.com/bouldermgr/manager/prompts"
)

// decision makes the events of a scheduler's decision; none for actions that are work.
func (r *run) decision(action schedule.Action) []boulder.Body {
	switch a := action.(type) {
	case schedule.Start:
		if r.halting() {
			return nil
		}
		ref, brief := a.Open.Attempt.AttemptRef, r.brief(a.Open)
		r.files[ref] = brief.Files
		tag := fmt.Sprintf("manager:%s/%s#%d", r.state.Boulder.ID, ref.SubTaskID, ref.Attempt) // to find a session without an id
		return one(boulder.Starting{AttemptRef: ref, Tag: tag, Prompt: brief.Text})
	case schedule.Complete:
		return r.complete(a)
	case schedule.Continue:
		return one(boulder.Continuation{
			AttemptRef: a.Open.Attempt.AttemptRef, Reason: a.Reason,
			Remaining: append([]string{}, a.Open.Turn.Verdict.Remaining...), Turn: a.Open.Turn.Number + 1,
			Track: a.Track, NotBefore: a.NotBefore,
			Prompt: prompts.Continuation(*a.Open.SubTask, *a.Open.Turn, r.told(a.Open)) + prompts.Forgotten(a.Forgotten),
		})
	case schedule.Retry:
		return one(boulder.Retry{
			AttemptRef: a.Open.Attempt.AttemptRef, Reason: a.Reason, Status: a.Status, Uncounted: a.Uncounted,
			Next: a.Open.Attempt.Attempt + 1, Digest: digest(a), Track: a.Track,
		})
	case schedule.Replan:
		return one(boulder.ReplanStarted{
			AttemptRef: a.Ref, Number: r.state.Boulder.Replans + 1, Reason: a.Reason, Replaces: a.Replaces,
		})
	case schedule.RefuseReplan:
		return r.refuse(a.Reason)
	case schedule.Park:
		return r.park(a)
	case schedule.Warn:
		return one(a.Warning)
	case schedule.Fail:
		return one(boulder.SubTaskDone{
			AttemptRef: a.Open.Attempt.AttemptRef, Summary: a.Reason,
			Status: boulder.SubTaskFailed, AttemptStatus: a.Status,
		})
	case schedule.Finish:
		return []boulder.Body{boulder.StatusChanged{Status: boulder.Synthesizing}, synthesize(r.state, a.Status)}
	}
	return nil
}

func one(b boulder.Body) []boulder.Body { return []boulder.Body{b} }

func (r *run) complete(a schedule.Complete) []boulder.Body {
	v := a.Open.Turn.Verdict
	bodies := one(boulder.SubTaskDone{
		AttemptRef: a.Open.Attempt.AttemptRef, Completed: true, Summary: v.Summary, Output: v.OutputData,
		Status: boulder.SubTaskCompleted, AttemptStatus: boulder.AttemptCompleted,
	})
	for _, t := range a.Skip {
		bodies = append(bodies, boulder.SubTaskDone{
			AttemptRef: boulder.AttemptRef{SubTaskID: t.ID}, Status: boulder.SubTaskSkipped,
			AttemptStatus: boulder.AttemptCancelled,
			Summary:       fmt.Sprintf("not needed any more: the goal was achieved with %q", a.Open.SubTask.ID),
		})
	}
	return bodies
}

// park ends an attempt whose sub-task needs a person. A turn that is at work is stopped first; its result parks it.
func (r *run) park(a schedule.Park) []boulder.Body {
	ref := a.Open.Attempt.AttemptRef
	if stop := r.work[ref]; stop != nil {
		stop(&parkError{a})
		return nil
	}
	return append(brokenOff(a.Open), parked(a))
}

// digest tells the next attempt why this one failed, or ended without that. A lost session failed at nothing.
func digest(a schedule.Retry) string {
	switch {
	case a.Uncounted && a.Open.Turn != nil && a.Open.Turn.Evidence != nil:
		return prompts.WaitDigest("could not know that "+a.Reason, *a.Open.Turn.Evidence)
	case a.Uncounted:
		return ""
	case a.Open.Turn == nil || a.Open.Turn.Verdict == nil:
		return a.Reason
	}
	return prompts.Digest(*a.Open.Turn)
}

// maxListed is how many sub-tasks a prompt lists beside those that it is about: the list must not grow with the plan.
const maxListed = 20

// brief builds the first prompt of an attempt. It depends on stored records only.
func (r *run) brief(o *boulder.Open) boulder.Brief {
	in := prompts.Input{
		BoulderID: r.state.Boulder.ID, RunsDir: r.o.cfg.RunsDir, Plan: r.state.Revision.Plan, SubTask: *o.SubTask,
		NewFacts: r.state.Boulder.NewFacts, Notes: r.state.Boulder.NotesFor(o.SubTask.ID, 0),
		Answers: r.answers(o.SubTask, 0), BlockerTool: r.blockerTool(),
	}
	others := r.state.Completed(maxListed + len(o.SubTask.DependsOn))
	in.Dependencies = make([]*boulder.SubTask, 0, len(o.SubTask.DependsOn))
	in.Finished = make([]*boulder.SubTask, 0, len(others))
	needed := make(map[string]bool, len(o.SubTask.DependsOn)) // a join can need all others
	for _, id := range o.SubTask.DependsOn {
		needed[id] = true
		in.Dependencies = append(in.Dependencies, r.state.SubTask(id))
	}
	for _, t := range slices.Backward(others) {
		if !needed[t.ID] {
			in.Finished = append(in.Finished, t)
		}
	}
	return prompts.Build(in)
}

// told is what a session is told besides what the judge found, after the turn that has ended.
func (r *run) told(o *boulder.Open) prompts.Told {
	told := prompts.Told{
		Notes: r.state.Boulder.NotesFor(o.SubTask.ID, o.Turn.Seq), Answers: r.answers(o.SubTask, o.Turn.Seq),
		BlockerTool: r.blockerTool(),
	}
	if o.Attempt.Idle >= r.o.limits.IdleTurns {
		told.Idle = o.Attempt.Idle
	}
	return told
}

// said is all that people have said about a sub-task: their notes, then their answers.
func (r *run) said(t *boulder.SubTask) []string {
	return append(r.state.Boulder.NotesFor(t.ID, 0), r.answers(t, 0)...)
}

// answers are what people said after an event about blockers of a sub-task, and of those that it stands in the place of.
func (r *run) answers(t *boulder.SubTask, afterSeq uint64) []string {
	var settled []boulder.RaisedBlocker
	for ; t != nil; t = r.state.SubTask(t.Replaces) {
		settled = append(t.SettledSince(afterSeq), settled...)
	}
	return prompts.Answers(settled)
}

// blockerTool is what agents call when they need a person; empty: there is nothing to call.
func (r *run) blockerTool() string {
	if r.o.cfg.BlockerTool == nil {
		return ""
	}
	return r.o.cfg.BlockerTool(r.state.Boulder)
}

func (r *run) resumePrompt(o *boulder.Open) string {
	return prompts.Resume(prompts.ResumeInput{
		Boulder: r.state.Boulder, SubTask: *o.SubTask,
		Completed: r.state.Count(boulder.SubTaskCompleted), Total: len(r.state.SubTasks),
		Notes: r.state.Boulder.NotesFor(o.SubTask.ID, o.Turn.Seq), Answers: r.answers(o.SubTask, o.Turn.Seq),
	})
}
