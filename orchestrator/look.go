package orchestrator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
	"github.com/bouldermgr/manager/prompts"
)

// prepared returns what is known of a task before it is split, and sets req.Known; zero if the planner need not be asked for
// it, because neither a look nor a question to the user can follow.
func prepared(
	ctx context.Context, p Planner, asks, looks bool, req *boulder.PlanRequest,
) (known boulder.Prepared, usage boulder.Usage, err error) {
	preparer, can := p.(Preparer)
	looks = looks && req.Look != boulder.LookNever
	if !can || !looks && !asks || req.Was != nil || req.Known != nil {
		return known, usage, nil
	}
	known, usage, err = preparer.Prepare(ctx, *req)
	if req.Known = known.Known; !looks {
		known.Find = nil
	}
	return known, usage, err
}

// Ask asks the user what the planner asks, before the task is split, and returns the answers by place. An empty one agrees to the
// default; questions without one stay undecided, as if nobody could be asked. Any error pauses the run, and a resume asks
// again. ctx is done when the run is to end, also after [Orchestrator.Stop].
type Ask func(ctx context.Context, questions []boulder.Question) (answers []string, err error)

// asked returns what is known with the user's answers.
func asked(ctx context.Context, ask Ask, known boulder.Prepared) (boulder.Prepared, error) {
	answers, err := ask(ctx, slices.Clone(known.Known.Facts.Questions))
	if err != nil {
		return known, err
	}
	return known.Answer(answers)
}

// asksUser reports whether the user has to be asked something before anything else.
func asksUser(ask Ask, known boulder.Prepared) bool {
	return ask != nil && !known.Asked && known.Known != nil && len(known.Known.Facts.Questions) > 0
}

// lookBefore returns when a look may come before the replan in progress.
func (r *run) lookBefore() boulder.LookMode {
	if _, can := r.o.cfg.Runner.(Looker); !can || r.busy(planWork) {
		return boulder.LookNever
	}
	return schedule.LookBefore(r.state, r.o.limits, r.now)
}

func lookStarted(id, model string, questions []string, known *boulder.Plan) boulder.LookStarted {
	return boulder.LookStarted{Questions: questions, Tag: fmt.Sprintf("manager:%s/look", id), Model: model, Known: known}
}

func lookJob(id, task string, l boulder.Look, limits Limits) boulder.LookJob {
	return boulder.LookJob{
		BoulderID: id, Look: l, Prompt: prompts.Look(task, "", l.Questions, limits.LookFindings), Resume: prompts.ResumeLook(),
		Time: limits.LookTime, Findings: limits.LookFindings,
	}
}

// found returns what is known after a look that is over, for another call of the planner, or nil.
func found(l *boulder.Look) *boulder.Plan {
	if l == nil || l.Looked == nil {
		return nil
	}
	known := l.Known.Clone()
	known.Facts.Found = l.Looked.Findings
	return &known
}

// startLook has the runner look at the project, or go on with it. A stop, a pause or a cancel aborts the look, and a resume
// continues it. One that fails is void, and the plan is made without it.
func (r *run) startLook() {
	b := &r.state.Boulder
	if r.busy(integrateWork) {
		return // the tip's ref may be moving
	}
	job := lookJob(b.ID, b.Task, *b.Look, r.o.limits)
	switch b.Look.For {
	case boulder.LookReplan:
		job.Trunk = b.Trunk
		job.Prompt = prompts.Look(b.Task, prompts.NotDone(r.replanRequest()), b.Look.Questions, job.Findings)
	case boulder.LookReview:
		job.Trunk = b.Trunk
		job.Prompt = prompts.Review(b.Task, r.state.Revision.Plan.Request, cmp.Or(b.Trunk.Base, b.Base), job.Findings)
	}
	job.Recovered, r.looked = r.looked, true
	var end boulder.Looked
	var usage boulder.Usage
	r.launchUntilStop(planWork, func(ctx context.Context) (err error) {
		end, usage, err = r.o.cfg.Runner.(Looker).Look(ctx, job, r.reporter(ctx, planWork))
		return err
	}, func(err error) error {
		if r.state.Boulder.Looking() == nil || err != nil && r.cutShort(err) {
			return nil
		}
		bodies := []boulder.Body{end}
		if err != nil {
			bodies = schedule.LookFailed(r.state, r.o.limits, r.now, err)
		}
		if _, over := bodies[0].(boulder.Looked); over && usage != (boulder.Usage{}) {
			bodies = append([]boulder.Body{lookUsage(job.Look, usage)}, bodies...)
		}
		return r.apply(bodies...)
	})
}

func lookUsage(l boulder.Look, used boulder.Usage) boulder.Body {
	return boulder.UsageReport{Source: boulder.UsageLook, Model: l.Model, Usage: used}
}

// lookOnce looks at the project without a boulder. told gets how it begins and ends.
func lookOnce(
	ctx context.Context, looker Looker, l boulder.Look, task string, limits Limits, told func(boulder.Body),
) (known *boulder.Plan, usage boulder.Usage, err error) {
	told(l.LookStarted)
	unstored := func(boulder.Body) error { return nil }
	end, usage, err := looker.Look(ctx, lookJob("", task, l, limits), unstored)
	if err != nil {
		end = boulder.Looked{Void: err.Error()}
	}
	l.Looked = &end
	if usage != (boulder.Usage{}) {
		told(lookUsage(l, usage))
	}
	told(end)
	return found(&l), usage, context.Cause(ctx)
}

// lookModel is the model of a boulder's looks.
func lookModel(s *boulder.State, now time.Time) string {
	return cmp.Or(s.Boulder.LookModel, schedule.ModelNow(s, s.Boulder.Model, now))
}
