package orchestrator

import (
	"cmp"
	"context"
	"fmt"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator/internal/schedule"
	"github.com/bouldermgr/manager/prompts"
)

// prepared asks for a plan, or, if looks are possible and one has to come first, for what it should find out.
func prepared(
	ctx context.Context, p Planner, looks bool, req *boulder.PlanRequest,
) (questions []string, usage boulder.Usage, err error) {
	preparer, can := p.(Preparer)
	if !can || !looks || req.Was != nil || req.Known != nil || req.Look == boulder.LookNever {
		return nil, usage, nil
	}
	known, usage, err := preparer.Prepare(ctx, *req)
	req.Known = known.Known
	return known.Questions, usage, err
}

func lookStarted(id, model string, questions []string, known *boulder.Plan) boulder.LookStarted {
	return boulder.LookStarted{Questions: questions, Tag: fmt.Sprintf("manager:%s/look", id), Model: model, Known: known}
}

func lookJob(id, task string, l boulder.Look, limits Limits) boulder.LookJob {
	return boulder.LookJob{
		BoulderID: id, Look: l, Prompt: prompts.Look(task, l.Questions, limits.LookFindings), Resume: prompts.ResumeLook(),
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
	job := lookJob(b.ID, b.Task, *b.Look, r.o.limits)
	if b.Look.For == boulder.LookReview {
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
func lookModel(b *boulder.Boulder) string { return cmp.Or(b.LookModel, b.Model) }
