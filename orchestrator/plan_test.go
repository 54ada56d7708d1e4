package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var asked boulder.PlanRequest
	answer := plans(diamond())
	r.cfg.Planner = plannerFunc(func(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
		asked = req
		return answer(ctx, req)
	})
	plan, usage, err := r.orchestrator().Plan(t.Context(), boulder.PlanRequest{Task: "x"}, "abc")
	if err != nil || plan.Seal.Base != "abc" || usage.Calls != 1 || asked.Project != "/project" || plan.Edited() {
		t.Errorf("plan %+v, usage %+v, %v; asked for %+v", plan, usage, err, asked)
	}
	r.cfg.Planner = nil
	if _, _, err := r.orchestrator().Plan(t.Context(), boulder.PlanRequest{}, ""); err == nil {
		t.Error("no planner, no error")
	}
}

// gated is a plan with a gate written by a model.
func gated() *boulder.Plan {
	plan := planOf(spec("a"), spec("b", "a"))
	plan.SubTasks[0].Gates = []string{"make test"}
	return plan
}

func TestApprove(t *testing.T) {
	t.Parallel()
	type answer struct {
		edit  func(*boulder.Plan)
		gates bool
		err   error
	}
	tests := map[string]struct {
		answer   *answer
		revision int
		edited   bool
		gates    bool
	}{
		"nobody is asked":    {nil, 1, false, false},
		"yes":                {&answer{gates: true}, 1, false, true},
		"yes, but not gates": {&answer{}, 1, false, false},
		"edit": {
			&answer{gates: true, edit: func(p *boulder.Plan) { p.SubTasks[1].Description = "else" }}, 2, true, true,
		},
		"edit an id":          {&answer{edit: func(p *boulder.Plan) { p.SubTasks[1].ID = "c" }}, 2, true, false},
		"edit without a seal": {&answer{edit: func(p *boulder.Plan) { p.Goal, p.Seal = "else", nil }}, 2, true, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.cfg.Planner = plans(gated())
			req := orchestrator.Request{Task: "the task", Settings: boulder.Settings{Base: "abc"}}
			if a := test.answer; a != nil {
				req.Approve = func(_ context.Context, p *boulder.Plan) (orchestrator.Approval, error) {
					if a.edit != nil {
						a.edit(p)
					}
					return orchestrator.Approval{Plan: p, Gates: a.gates}, a.err
				}
			}
			r.completes(r.request(req))
			head, subTasks := r.store.load(t)
			revisions := r.store.revisions()
			proposed, rev := revisions[0], revisions[len(revisions)-1]
			if head.Revision != test.revision || rev.Edited != test.edited {
				t.Errorf("revision %d, edited %v", head.Revision, rev.Edited)
			}
			if a := subTasks["a"]; (len(a.Gates) == 1) != test.gates || (len(a.GateHints) == 1) == test.gates {
				t.Errorf("gates %q, hints %q", a.Gates, a.GateHints)
			}
			// The proposed revision is kept unchanged, whatever the answer.
			if proposed.Edited || proposed.Plan.Edited() || proposed.Plan.Seal.Base != "abc" {
				t.Errorf("revision 1 is not what was proposed: %+v", proposed)
			}
			if head.Usage.Calls != 3 {
				t.Errorf("%d model calls, want the plan's and two judgements", head.Usage.Calls)
			}
		})
	}
}

// TestPlansAreCopies: a committed revision survives an approval that edits in place, and a caller that reuses its plan.
func TestPlansAreCopies(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Planner = plans(gated())
	approve := func(_ context.Context, p *boulder.Plan) (orchestrator.Approval, error) {
		p.SubTasks[0].Description, p.SubTasks[1].DependsOn[0] = "else", "a"
		return orchestrator.Approval{Plan: p}, nil
	}
	r.completes(r.request(orchestrator.Request{Task: "t", Approve: approve}))
	other, given := newRig(t), gated()
	for e := range other.orchestrator().Run(t.Context(), orchestrator.Request{Plan: given}) {
		given.SubTasks[0].Description = boulder.TypeOf(e.Body)
	}
	revisions := append(r.store.revisions(), other.store.revisions()...)
	if len(revisions) != 4 { // each plan is proposed, then adopted
		t.Fatalf("%d revisions were committed", len(revisions))
	}
	for i, rev := range revisions {
		if rev.Plan.Hash() != rev.Hash {
			t.Errorf("commit %d: revision %d changed after it was committed", i, rev.Number)
		}
	}
}

func TestDeclined(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Planner = plans(gated())
	approve := func(context.Context, *boulder.Plan) (orchestrator.Approval, error) {
		return orchestrator.Approval{}, orchestrator.ErrDeclined
	}
	_, err := r.request(orchestrator.Request{Task: "t", Approve: approve})
	if head, _ := r.store.load(t); !errors.Is(err, orchestrator.ErrDeclined) || head.Status != boulder.Cancelled {
		t.Errorf("got %v, and the boulder is %s", err, head.Status)
	}
	if _, err := r.resume(); !errors.Is(err, boulder.ErrFinished) {
		t.Errorf("a declined boulder is resumed: %v", err)
	}
}

// TestApprovalIsAskedAgain: a boulder that waits for approval survives any interruption of the question.
func TestApprovalIsAskedAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answer func(o *orchestrator.Orchestrator, ctx context.Context) error
		want   error
	}{
		"terminal gone": {func(*orchestrator.Orchestrator, context.Context) error { return errSignal }, errSignal},
		"stop": {func(o *orchestrator.Orchestrator, ctx context.Context) error {
			o.Stop()
			<-ctx.Done() // the user does not answer
			return ctx.Err()
		}, orchestrator.ErrStopped},
		"no answer at all": {func(*orchestrator.Orchestrator, context.Context) error { return nil }, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.cfg.Planner = plans(gated())
			o := r.orchestrator()
			req := orchestrator.Request{Task: "t", Approve: func(
				ctx context.Context, _ *boulder.Plan,
			) (orchestrator.Approval, error) {
				return orchestrator.Approval{}, test.answer(o, ctx)
			}}
			_, err := r.collect(o.Run(t.Context(), req))
			if err == nil || (test.want != nil && !errors.Is(err, test.want)) {
				t.Fatalf("got %v", err)
			}
			if head, _ := r.store.load(t); head.Status != boulder.Paused || head.Reason != err.Error() {
				t.Errorf("the boulder is %s because %q", head.Status, head.Reason)
			}
			r.cfg.Planner = nil // the plan is stored, and not made again
			var seen boulder.Plan
			approve := func(_ context.Context, p *boulder.Plan) (orchestrator.Approval, error) {
				seen = p.Clone()
				return orchestrator.Approval{Plan: p, Gates: true}, nil
			}
			r.completes(r.request(orchestrator.Request{Resume: "b1", Approve: approve}))
			seen.Seal = nil
			if d := cmp.Diff(gated(), &seen); d != "" {
				t.Errorf("the plan that was shown again (-want +got):\n%s", d)
			}
		})
	}
}

// TestNobodyAgreedYet: a plan that needs approval waits wherever the user cannot be asked, however often it is resumed,
// whether made or given. An approval by another process, perhaps of an edited plan, ends the wait.
func TestNobodyAgreedYet(t *testing.T) {
	t.Parallel()
	asks := boulder.Settings{AskPlan: true}
	for name, req := range map[string]orchestrator.Request{
		"made": {Task: "t", GatesApproved: true, Settings: asks}, "given": {Plan: gated(), Settings: asks},
	} {
		for _, gates := range []bool{true, false} {
			t.Run(fmt.Sprint(name, gates), func(t *testing.T) {
				r := newRig(t)
				r.cfg.Planner = plans(gated())
				for _, req := range []orchestrator.Request{req, {Resume: "b1"}, {Resume: "b1", GatesApproved: true}} {
					_, err := r.request(req)
					if head, subTasks := r.store.load(t); !errors.Is(err, orchestrator.ErrWaiting) || len(subTasks) > 0 ||
						head.Status != boulder.Paused || !strings.HasSuffix(head.Reason, "the plan is not approved yet") {
						t.Fatalf("%v; the boulder is %s because %q, with %d sub-tasks", err, head.Status, head.Reason, len(subTasks))
					}
				}
				edited := gated()
				edited.SubTasks[1].Description = "else"
				r.completes(r.request(orchestrator.Request{
					Resume: "b1", Plan: edited, GatesApproved: gates, Settings: boulder.Settings{Model: "p/agreed"},
				}))
				head, subTasks := r.store.load(t)
				if a, b := subTasks["a"], subTasks["b"]; (len(a.Gates) == 1) != gates || b.Description != "else" ||
					b.Model != "p/agreed" || head.Revision != 2 {
					t.Errorf("revision %d: gates %q of a, %q with %s", head.Revision, a.Gates, b.Description, b.Model)
				}
			})
		}
	}
}

// TestGatesOfAGivenPlan run, unless the request says otherwise: then they are hints.
func TestGatesOfAGivenPlan(t *testing.T) {
	t.Parallel()
	for _, hints := range []bool{false, true} {
		r := newRig(t)
		r.completes(r.request(orchestrator.Request{Plan: gated(), GatesAsHints: hints}))
		_, subTasks := r.store.load(t)
		if a := subTasks["a"]; (len(a.Gates) == 1) == hints || (len(a.GateHints) == 1) != hints || (len(a.GateRuns) == 1) == hints {
			t.Errorf("as hints %v: gates %q, hints %q, runs %+v", hints, a.Gates, a.GateHints, a.GateRuns)
		}
	}
}

// TestPlannerFails: the boulder is paused with the reason, the cost of all calls is recorded, and a resume plans again.
// Outages are waited out first.
func TestPlannerFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err   error
		want  string
		ended error
		calls int
	}{
		"fatal":   {errors.Join(errors.New("no key: set OPENAI_API_KEY"), boulder.ErrFatal), "OPENAI_API_KEY", boulder.ErrFatal, 1},
		"outage":  {errors.Join(errors.New("503"), boulder.ErrTrouble), "3 times in a row: plan: 503", orchestrator.ErrWaiting, 3},
		"nothing": {nil, "neither a plan nor an error", nil, 1},
		"limit": {
			&boulder.TroubleError{Kind: boulder.TroubleRateLimit, RetryAfter: 76 * time.Hour, Err: errors.New("monthly spend limit")},
			"is limited until " + time.Now().Add(76*time.Hour).Format("Mon 2 Jan"), orchestrator.ErrWaiting, 1,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.cfg.Limits = new(orchestrator.DefaultLimits())
			r.cfg.Limits.Backoff = time.Millisecond
			r.cfg.Planner = plannerFunc(func(context.Context, boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
				return nil, boulder.Usage{Calls: 2}, test.err
			})
			_, err := r.request(orchestrator.Request{Task: "t"})
			if err == nil || !strings.Contains(err.Error(), test.want) || test.ended != nil && !errors.Is(err, test.ended) {
				t.Fatalf("got %v", err)
			}
			head, _ := r.store.load(t)
			if head.Status != boulder.Paused || head.Usage.Calls != int64(2*test.calls) || !strings.Contains(head.Reason, test.want) {
				t.Errorf("the boulder is %s because %q, and cost %+v", head.Status, head.Reason, head.Usage)
			}
			r.cfg.Planner = plans(diamond())
			r.completes(r.resume())
		})
	}
}

// Without a boulder a planner's outage is waited out, too, with word of it, and a limit only if it is short.
func TestPlanPatiently(t *testing.T) {
	t.Parallel()
	outage := fmt.Errorf("%w: connection refused", boulder.ErrTrouble)
	limited := func(wait time.Duration) error {
		return &boulder.TroubleError{Kind: boulder.TroubleRateLimit, RetryAfter: wait, Err: errors.New("429")}
	}
	fatal := fmt.Errorf("%w: wrong key", boulder.ErrFatal)
	noCredit := fmt.Errorf("%w: 402", boulder.ErrNoCredit)
	for name, test := range map[string]struct {
		faults []error
		stop   bool // during the first wait
		waits  []time.Duration
		want   string // of the error
		models boulder.Models
	}{
		"no credit":         {[]error{noCredit}, false, nil, "", "p/one,q/two"},
		"none with credit":  {[]error{noCredit, noCredit}, false, nil, "p/one cannot be used: 402; q/two cannot", "p/one,q/two"},
		"another model":     {[]error{limited(76 * time.Hour)}, false, nil, "", "p/one,q/two"},
		"an outage":         {[]error{outage, outage}, false, []time.Duration{500 * time.Millisecond, time.Second}, "", ""},
		"a long outage":     {[]error{outage, outage, outage}, false, []time.Duration{500 * time.Millisecond, time.Second}, "3 times in a row: infra", ""},
		"a short limit":     {[]error{limited(time.Minute)}, false, []time.Duration{time.Minute}, "", ""},
		"a long limit":      {[]error{limited(76 * time.Hour)}, false, nil, "is limited until ", ""},
		"no wait for a key": {[]error{fatal}, false, nil, "wrong key", ""},
		"Ctrl-C":            {[]error{limited(time.Minute)}, true, []time.Duration{time.Minute}, "interrupted", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancelCause(t.Context())
			limits, calls := orchestrator.DefaultLimits(), 0
			limits.ResetMax = limits.CoolMax
			planner := plannerFunc(func(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
				if calls++; calls <= len(test.faults) {
					if calls > 1 && test.models != "" && req.Model != "q/two" {
						t.Errorf("%s: call %d asks %s", name, calls, req.Model)
					}
					return nil, boulder.Usage{Calls: 1}, test.faults[calls-1]
				}
				return plans(diamond())(ctx, req)
			})
			var waits []time.Duration
			_, usage, err := orchestrator.PlanPatiently(ctx, planner, test.models, orchestrator.Looks{}, nil, boulder.PlanRequest{Task: "t"}, limits, func(b boulder.Body) {
				if fault, waited := b.(boulder.PlanTrouble); waited {
					waits = append(waits, time.Until(fault.NotBefore))
				}
				if test.stop {
					stop(errors.New("interrupted"))
				}
			})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) || usage.Calls != int64(calls) {
				t.Errorf("%s: %v after %d calls, %+v", name, err, calls, usage)
			}
			if waiting := err != nil && !test.stop && name != "no wait for a key"; errors.Is(err, orchestrator.ErrWaiting) != waiting {
				t.Errorf("%s: %v is not what a run says that pauses", name, err)
			}
			longer := func(got, least time.Duration) bool { return got >= least && got <= least*5/4+time.Second }
			if !slices.EqualFunc(waits, test.waits, longer) {
				t.Errorf("%s: waited %v, want %v", name, waits, test.waits)
			}
		})
	}
}

func TestNoTask(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Planner = plans(diamond())
	_, err := r.request(orchestrator.Request{Task: " "})
	if err == nil || !strings.Contains(err.Error(), "there is no task") || r.store.commits != 0 {
		t.Errorf("got %v after %d commits", err, r.store.commits)
	}
}

// TestStopWhilePlanning: the call is cancelled; a plan that it returns nevertheless is booked and kept.
func TestStopWhilePlanning(t *testing.T) {
	t.Parallel()
	for name, honours := range map[string]bool{"planner gives up": true, "planner answers": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			var o *orchestrator.Orchestrator
			calls := 0
			r.cfg.Planner = plannerFunc(func(
				ctx context.Context, req boulder.PlanRequest,
			) (*boulder.Plan, boulder.Usage, error) {
				if calls++; calls > 1 {
					return plans(diamond())(ctx, req)
				}
				o.Stop()
				<-ctx.Done()
				if honours {
					return nil, boulder.Usage{}, ctx.Err()
				}
				return plans(diamond())(ctx, req)
			})
			o = r.orchestrator()
			_, err := r.collect(o.Run(t.Context(), orchestrator.Request{Task: "t"}))
			head, _ := r.store.load(t)
			if !errors.Is(err, orchestrator.ErrStopped) || head.Status != boulder.Paused {
				t.Fatalf("got %v, and the boulder is %s", err, head.Status)
			}
			r.completes(r.resume())
			if want := map[bool]int{true: 2, false: 1}[honours]; calls != want {
				t.Errorf("%d planning calls, want %d", calls, want)
			}
		})
	}
}

// TestPlanFile: a given plan runs as written, and an edited one is recorded as edited.
func TestPlanFile(t *testing.T) {
	t.Parallel()
	sealed, edited := gated(), gated()
	sealed.Seal = &boulder.Seal{Hash: sealed.Hash(), Origin: boulder.OriginModel}
	edited.Seal = sealed.Seal
	edited.SubTasks[0].Subject = "Something else"
	for name, test := range map[string]struct {
		plan   *boulder.Plan
		origin boulder.Origin
		edited bool
	}{
		"as planned": {sealed, boulder.OriginModel, false},
		"edited":     {edited, boulder.OriginModel, true},
		"by hand":    {gated(), boulder.OriginHand, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			events, err := r.request(orchestrator.Request{
				Plan: test.plan, Settings: boulder.Settings{Model: "p/m"},
			})
			r.completes(events, err)
			d := events[2].Body.(boulder.Decomposed)
			if d.Edited != test.edited || d.Origin != test.origin || d.Revision != 1 || d.SubTasks[0].Model != "p/m" {
				t.Errorf("decomposed: %+v", d)
			}
			_, subTasks := r.store.load(t)
			if a := subTasks["a"]; a.Model != "p/m" || len(a.Gates) != 1 || a.Subject != test.plan.SubTasks[0].Subject {
				t.Errorf("sub-task a: %+v", a)
			}
		})
	}
}

// TestApprovePlanByOrder: an order approves a plan, as proposed or as the user edited it, with its gates.
func TestApprovePlanByOrder(t *testing.T) {
	t.Parallel()
	for _, atWork := range []bool{true, false} {
		r := newRig(t)
		proposed, mine := planOf(spec("a")), planOf(spec("b"), spec("c", "b"))
		mine.SubTasks[0].Gates = []string{"make mine"}
		asked := make(chan struct{})
		req := orchestrator.Request{Plan: proposed, Settings: boulder.Settings{AskPlan: true}}
		if atWork {
			req.Approve = func(ctx context.Context, _ *boulder.Plan) (orchestrator.Approval, error) {
				close(asked)
				<-ctx.Done()
				return orchestrator.Approval{}, context.Cause(ctx)
			}
		} else {
			close(asked)
		}
		o := r.orchestrator()
		over := r.begin(o, req)
		<-asked
		if !atWork {
			if err := <-over; !errors.Is(err, orchestrator.ErrWaiting) {
				t.Fatal(err)
			}
		}
		order := boulder.Order{Do: boulder.OrderDecline, Hash: proposed.Hash()}
		if err := o.Order(t.Context(), "b1", order); !errors.Is(err, boulder.ErrRefused) || !strings.Contains(err.Error(), "manager cancel -b b1") {
			t.Errorf("a decline: %v", err)
		}
		order.Do, order.Plan = boulder.OrderApprove, mine
		if err := o.Order(t.Context(), "b1", order); err != nil {
			t.Fatal(err)
		}
		var err error
		if atWork {
			err = <-over
		} else {
			_, err = r.resume()
		}
		head, subTasks := r.store.load(t)
		if err != nil || head.Status != boulder.Completed || len(subTasks) != 2 || !slices.Equal(subTasks["b"].Gates, []string{"make mine"}) {
			t.Errorf("at work %v: %v, %+v", atWork, err, head)
		}
	}
}

// A plan without any of the model's thoughts, since its answers were unusable, runs only if the user says so.
func TestFallbackNeverRunsUnasked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.cfg.Planner = plannerFunc(func(context.Context, boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
		p := planOf(spec("a"))
		p.Seal = &boulder.Seal{Hash: p.Hash(), Origin: boulder.OriginFallback}
		return p, boulder.Usage{}, nil
	})
	_, err := r.request(orchestrator.Request{Task: "t"})
	if head, _ := r.store.load(t); !errors.Is(err, orchestrator.ErrWaiting) || head.Status != boulder.Paused {
		t.Errorf("got %v, and the boulder is %s", err, head.Status)
	}
	if _, err := r.resume(); !errors.Is(err, orchestrator.ErrWaiting) {
		t.Errorf("a resume runs it: %v", err)
	}
}
