package orchestrator_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// lookout is a server whose sessions outlive its orchestrators, and that can look at the project.
type lookout struct {
	*server
	mu       sync.Mutex
	sessions map[string]string // by tag
	prompts  map[string]int    // by message id: how often it was sent
	jobs     []boulder.LookJob
	faults   []error // of the next looks, after their prompt
	end      boulder.Looked
}

func (l *lookout) Look(_ context.Context, job boulder.LookJob, report func(boulder.Body) error) (boulder.Looked, boulder.Usage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, job)
	at := job.Look.LookSession
	if at.SessionID == "" && job.Recovered {
		at.SessionID = l.sessions[job.Look.Tag]
	}
	if at.SessionID == "" {
		at.SessionID = fmt.Sprint("s", len(l.sessions)+1)
		if l.sessions[job.Look.Tag] != "" {
			at.SessionID += " is a second one"
		}
		l.sessions[job.Look.Tag] = at.SessionID
	}
	if at.MessageID == "" {
		at.MessageID = fmt.Sprint("m", len(l.prompts)+1)
		if err := report(at); err != nil {
			return boulder.Looked{}, boulder.Usage{}, err
		}
	}
	l.prompts[at.MessageID]++
	used := boulder.Usage{Calls: 1, Input: 7}
	if len(l.faults) > 0 {
		err := l.faults[0]
		l.faults = l.faults[1:]
		return boulder.Looked{}, used, err
	}
	return l.end, used, nil
}

// prepares is a planner that wants a look, and names in its plan what it was told.
type prepares struct {
	plannerFunc
	calls     *[]boulder.PlanRequest
	questions []string
}

func (p prepares) Prepare(_ context.Context, req boulder.PlanRequest) (boulder.Prepared, boulder.Usage, error) {
	*p.calls = append(*p.calls, req)
	known := planOf(spec("whole"))
	known.Goal = "known"
	return boulder.Prepared{Known: known, Find: p.questions}, boulder.Usage{Calls: 1, Input: 20}, nil
}

func looking(t *testing.T) (r *rig, l *lookout, asked *[]boulder.PlanRequest) {
	r = newRig(t)
	l = &lookout{
		server: r.server, sessions: map[string]string{}, prompts: map[string]int{},
		end: boulder.Looked{Findings: []boulder.Finding{{ID: "f1", Statement: "here", File: "a.go", Line: 3}}},
	}
	asked = &[]boulder.PlanRequest{}
	r.cfg.Runner = l
	r.cfg.Planner = prepares{func(_ context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
		*asked = append(*asked, req)
		plan := planOf(spec("a"))
		if req.Known != nil {
			plan.Facts.Found = req.Known.Facts.Found
		}
		return plans(plan)(context.Background(), req)
	}, asked, []string{"where?"}}
	return r, l, asked
}

func TestLookBeforeAPlan(t *testing.T) {
	t.Parallel()
	r, l, asked := looking(t)
	events, err := r.request(orchestrator.Request{Task: "t", Settings: boulder.Settings{Model: "p/m", LookModel: "p/looks", LookMode: boulder.LookAlways}})
	r.completes(events, err)
	if len(*asked) != 2 || (*asked)[0].Look != boulder.LookAlways || (*asked)[0].Known != nil || (*asked)[1].Known.Goal != "known" ||
		!reflect.DeepEqual((*asked)[1].Known.Facts.Found, l.end.Findings) {
		t.Errorf("asked %+v", *asked)
	}
	if job := l.jobs[0]; len(l.jobs) != 1 || job.Look.Model != "p/looks" || job.Recovered || job.Findings != 10 || job.Time.Minutes() != 12 {
		t.Errorf("%+v", l.jobs)
	}
	head, _ := r.store.load(t)
	if head.LookUsage.Input != 7 || head.Usage.Input != 20+7+100+10 {
		t.Errorf("used %+v", head.Usage)
	}
	if rev := r.store.revisions()[0]; !reflect.DeepEqual(rev.Plan.Facts.Found, l.end.Findings) {
		t.Errorf("%+v", rev.Plan)
	}
	if check, err := orchestrator.CheckDecisions(r.store.log("b1")); err != nil || check.Difference != nil {
		t.Errorf("replayed: %v, %+v", err, check)
	}
}

// Where no look is possible or wanted, the planner is asked once.
func TestNoLook(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*rig, *orchestrator.Request){
		"no runner can": func(r *rig, _ *orchestrator.Request) { r.cfg.Runner = r.server },
		"switched off":  func(_ *rig, req *orchestrator.Request) { req.LookMode = boulder.LookNever },
		"no time for it": func(r *rig, _ *orchestrator.Request) {
			r.cfg.Limits = new(orchestrator.DefaultLimits())
			r.cfg.Limits.LookTime = 0
		},
		"nothing to find": func(r *rig, _ *orchestrator.Request) {
			p := r.cfg.Planner.(prepares)
			p.questions = nil
			r.cfg.Planner = p
		},
		"no such planner": func(r *rig, _ *orchestrator.Request) { r.cfg.Planner = r.cfg.Planner.(prepares).plannerFunc },
	} {
		r, l, _ := looking(t)
		req := orchestrator.Request{Task: "t"}
		change(r, &req)
		r.completes(r.request(req))
		if len(l.jobs) != 0 {
			t.Errorf("%s: %+v", name, l.jobs)
		}
	}
}

// A crash at any commit: one session, one prompt, one bill, and the plan has the findings.
func TestLookIsPaidOnce(t *testing.T) {
	t.Parallel()
	for crash := range crashes(t) {
		r, l, asked := looking(t)
		if !r.survives(crash, orchestrator.Request{Task: "t"}) {
			continue
		}
		head, _ := r.store.load(t)
		if head.Status != boulder.Completed || head.LookUsage.Input != 7 || len(l.sessions) != 1 || l.sessions["manager:b1/look"] != "s1" {
			t.Errorf("%v: %s, looks used %+v in %v", crash, head.Status, head.LookUsage, l.sessions)
		}
		stored := head.Look.MessageID
		for id := range l.prompts {
			if id != stored {
				t.Errorf("%v: prompts %v, and %s is stored", crash, l.prompts, stored)
			}
		}
		if last := (*asked)[len(*asked)-1]; last.Known == nil || len(last.Known.Facts.Found) != 1 {
			t.Errorf("%v: planned with %+v", crash, last.Known)
		}
		if !crash.came && crash.commit < 8 {
			t.Errorf("only %d commits", crash.commit)
		}
	}
}

// A fault is waited out in the same session; a look that fails, or fails too often, is void, and the plan is made without it.
func TestLookFails(t *testing.T) {
	t.Parallel()
	trouble := fmt.Errorf("%w: gone", boulder.ErrTrouble)
	for name, test := range map[string]struct {
		faults []error
		looks  int
		void   string
	}{
		"trouble":       {[]error{trouble, trouble}, 3, ""},
		"too much":      {[]error{trouble, trouble, trouble}, 3, "infrastructure trouble: gone"},
		"lost":          {[]error{boulder.ErrSessionLost}, 1, "session lost"},
		"no such model": {[]error{fmt.Errorf("%w: no such model", boulder.ErrFatal)}, 1, "cannot continue: no such model"},
	} {
		r, l, asked := looking(t)
		l.faults = test.faults
		r.cfg.Limits = new(orchestrator.DefaultLimits())
		r.cfg.Limits.Backoff = 1
		r.completes(r.request(orchestrator.Request{Task: "t"}))
		head, _ := r.store.load(t)
		found := (*asked)[len(*asked)-1].Known.Facts.Found
		if len(l.jobs) != test.looks || head.Look.Looked.Void != test.void || (len(found) == 0) != (test.void != "") || len(l.sessions) != 1 ||
			head.LookUsage.Input != 7 || slices.ContainsFunc(l.jobs[1:], func(j boulder.LookJob) bool { return !j.Recovered }) {
			t.Errorf("%s: %d looks, %+v, used %+v, found %v", name, len(l.jobs), head.Look.Looked, head.LookUsage, found)
		}
	}
}

// Without a boulder a look is told, and paid for in the sum.
func TestPlanPatientlyLooks(t *testing.T) {
	t.Parallel()
	r, l, asked := looking(t)
	for _, fails := range []error{nil, errors.New("no OpenCode")} {
		*asked = nil
		if fails != nil {
			l.faults = []error{fails}
		}
		var told []string
		_, usage, err := orchestrator.PlanPatiently(t.Context(), r.cfg.Planner, "", orchestrator.Looks{Looker: l, Model: "p/m"}, nil,
			boulder.PlanRequest{Task: "t"}, orchestrator.DefaultLimits(), func(b boulder.Body) {
				told = append(told, boulder.TypeOf(b))
				if end, ok := b.(boulder.Looked); ok && end.Void != fmt.Sprint(cmp.Or[any](fails, "")) {
					t.Errorf("%+v after %v", end, fails)
				}
			})
		if err != nil || usage.Input != 20+7+100 || !slices.Equal(told, []string{"look-started", "usage", "looked"}) || len(*asked) != 2 {
			t.Errorf("%v: %v, used %+v, told %v", fails, err, usage, told)
		}
	}
}

// A review is a look before the check of the request, once after all work, whenever a crash comes. What has a place is told to
// the check; an opinion is not.
func TestReview(t *testing.T) {
	t.Parallel()
	begun := func() (*rig, *lookout, *checker) {
		r, l, _ := looking(t)
		l.end.Findings = append(l.end.Findings, boulder.Finding{ID: "f2", Statement: "ugly"})
		c := checks(r, missing, met)
		return r, l, c
	}
	req := orchestrator.Request{
		Plan: planOf(spec("a"), spec("b", "a")), Settings: boulder.Settings{Review: true, ReviewModel: "p/reviews"},
	}
	r, l, c := begun()
	events, err := r.request(req)
	if end := last(t, events, err); !end.AllCompleted || len(c.asked) != 2 || len(l.jobs) != 2 || l.jobs[0].Look.Model != "p/reviews" {
		t.Errorf("%d checks, %d looks: %+v", len(c.asked), len(l.jobs), end)
	}
	for _, asked := range c.asked {
		if len(asked.Review) != 1 || asked.Review[0].ID != "f1" {
			t.Errorf("the check is told %+v", asked.Review)
		}
	}
	if check, err := orchestrator.CheckDecisions(events); err != nil || check.Difference != nil {
		t.Errorf("replayed: %v, %+v", err, check.Difference)
	}
	for crash := range crashes(t) {
		r, l, _ := begun()
		if !r.survives(crash, req) {
			continue
		}
		head, _ := r.store.load(t)
		n := 1 + head.Extensions // a check that was lost may not ask for one again
		if head.Status != boulder.Completed || head.LookUsage.Input != int64(7*n) || len(l.sessions) != n || len(l.prompts) != n {
			t.Errorf("%v: %s, looks used %+v, sessions %v, prompts %v", crash, head.Status, head.LookUsage, l.sessions, l.prompts)
		}
		if !crash.came && (n != 2 || crash.commit < 20) {
			t.Errorf("%d commits, sessions %v", crash.commit, l.sessions)
		}
	}
}

// A look may come before a replan, once, whenever a crash comes; its findings are in the new plan. The planner is asked again after
// it, with what it found.
func TestLookBeforeAReplan(t *testing.T) {
	t.Parallel()
	var asked []boulder.ReplanRequest
	begun := func() (*rig, *lookout) {
		r, l, _ := looking(t)
		asked = nil
		answer := replaces(&asked)
		r.cfg.Planner = replanner(func(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
			made, used, err := answer(ctx, req)
			if made.SubTasks[0].Found = []string{"f2"}; req.Look != boulder.LookNever {
				made = boulder.Replacement{Questions: []string{"why?"}}
			}
			return made, used, err
		})
		r.cfg.Judge = stalling("hard")
		return r, l
	}
	plan := planOf(spec("done"), spec("hard", "done"), spec("behind", "hard"))
	plan.Facts.Found = []boulder.Finding{{ID: "f1", Statement: "known"}}
	req := orchestrator.Request{Plan: plan, Settings: boulder.Settings{LookModel: "p/looks"}}
	for crash := range crashes(t) {
		r, l := begun()
		if !r.survives(crash, req) {
			continue
		}
		head, _ := r.store.load(t)
		log := r.store.log("b1")
		found := replannedFacts(log)
		if head.LookUsage.Input != 7 || len(l.prompts) != 1 || l.sessions["manager:b1/replan#1"] != "s1" || len(found) != 2 || found[1].Statement != "here" {
			t.Errorf("%v: looks used %+v in %v, prompts %v, found %+v", crash, head.LookUsage, l.sessions, l.prompts, found)
		}
		if crash.came {
			continue
		}
		if len(asked) != 2 || asked[0].Look != "" || len(asked[0].Facts.Found) != 1 || asked[1].Look != boulder.LookNever ||
			len(asked[1].Facts.Found) != 2 || asked[1].Facts.Found[1].ID != "f2" || l.jobs[0].Look.Model != "p/looks" || crash.commit < 20 {
			t.Errorf("%d commits, %+v, asked %+v", crash.commit, l.jobs, asked)
		}
		if check, err := orchestrator.CheckDecisions(log); err != nil || check.Difference != nil {
			t.Errorf("replayed: %v, %+v", err, check.Difference)
		}
	}
}

// No look comes before a replan while others are at work, which would change the files.
func TestNoLookBesideOthers(t *testing.T) {
	t.Parallel()
	r, l, _ := looking(t)
	var asked []boulder.ReplanRequest
	r.cfg.Judge = stalling("hard")
	replanned := make(chan bool)
	answer := replaces(&asked)
	r.cfg.Planner = replanner(func(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
		defer close(replanned)
		return answer(ctx, req)
	})
	l.turn = func(_ context.Context, job boulder.Job) (boulder.Evidence, error) {
		if job.SubTask.ID == "beside" {
			<-replanned
		}
		return boulder.Evidence{FinalMessage: "done", ToolCount: 1}, nil
	}
	events, err := r.request(orchestrator.Request{Plan: hardPlan(), Settings: boulder.Settings{LookMode: boulder.LookAlways}})
	r.completes(events, err)
	if len(asked) != 1 || asked[0].Look != boulder.LookNever || len(l.jobs) != 0 {
		t.Errorf("asked %+v, %d looks", asked, len(l.jobs))
	}
}

func replannedFacts(events []boulder.Event) []boulder.Finding {
	for _, e := range events {
		if b, ok := e.Body.(boulder.Replanned); ok {
			return b.Plan.Plan.Facts.Found
		}
	}
	return nil
}
