// Package simulate is a deterministic simulation of whole boulders: the real orchestrator on the real store, in a world
// that a seed determines. It runs in a testing/synctest bubble, so hours of work take no time. Processes crash before
// and after any commit, are killed, stopped, cancelled, and steered by the user, while sessions continue to work. The
// next process resumes the boulder, until it is over.
//
// It is for tests only. docs/simulation.md says what is drawn, what is checked, and how to replay a failure. [Script]
// plays the same worlds without crashes, for tests of another engine.
package simulate

import (
	"fmt"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/orchestrator"
)

// class says what a world may contain, see docs/simulation.md.
type class string

const (
	anything class = "anything" // all that can happen; the end may depend on when a crash came
	// serial: one attempt at a time, one model and no questions, so that what competes for replans, or for the goal, comes
	// in one order, and a cool-down holds up everything. It has to end as it would without crashes.
	serial class = "serial"
	// parallel: many attempts at once, which compete only for slots. It also has to end as it would without crashes.
	parallel class = "parallel"
)

// same reports whether a boulder of the class has to end as it would without crashes.
func (c class) same() bool { return c != anything }

// scenario is everything about a world that is drawn in advance.
type scenario struct {
	seed   uint64
	class  class
	plan   boulder.Plan
	limits orchestrator.Limits
	grace  time.Duration // of a polite stop

	planned bool // a Planner makes the plan; otherwise the user supplies it
	looks   bool // after a look at the project; so may replans
	reviews bool // a look at the changes comes before the check of the request
	// atTerminal: the user is asked what the planner asks.
	atTerminal bool
	approval   string // the user's answer to the plan: "" (not asked), yes, edit, no, later
	asked      bool   // the user has to approve replans
	startsIn   time.Duration

	budget  *boulder.Budget
	trouble float64 // probability that a turn meets an infrastructure error
	brittle float64 // probability that the evidence of a turn cannot be collected
	good    float64 // probability that a turn completes its sub-task
	crash   float64 // probability that a commit is the last of its process
	orders  float64 // probability that the user steers a process
	asks    float64 // probability that an agent needs the user
	calm    bool    // no process is disturbed: the run to compare with

	outages []outage       // of models
	ledgers boulder.Models // of both ledgers

	generation int           // of OpenCode
	isolated   bool          // in slots
	gateTime   time.Duration // longest run of a gate on combined files, for which other results wait
}

var models = []string{"", "a/one", "a/two", "b/one"}

// ledger is the model of both ledgers; sub-tasks use it too.
const ledger = "b/one"

func newScenario(seed uint64) scenario {
	d := throw(seed, "scenario")
	sc := scenario{
		seed: seed, class: pick(d, anything, anything, anything, serial, parallel),
		trouble: pick(d, 0, 0.05, 0.2), good: pick(d, 0.3, 0.5, 0.7, 0.95), crash: pick(d, 0.02, 0.1, 0.3),
		brittle: pick(d, 0.02, 0.02, 0.02, 0.2), planned: d.is(0.3),
		approval: pick(d, "", "yes", "edit"),
	}
	sc.limits = drawLimits(d, sc.class)
	sc.plan = drawPlan(d, sc.class)
	sc.grace = pick(d, 10*time.Second, 2*time.Minute, 30*time.Minute)
	sc.orders = pick(d, 0, 0, 0.3, 0.8)
	sc.asks = pick(throw(seed, "asks"), 0, 0, 0.1, 0.4)
	sc.limits.EvaluationsTotal = throw(seed, "total").from(2, 15)
	sc.limits.Batch = throw(seed, "batch").from(1, 5)
	sc.gateTime = pick(throw(seed, "gate time"), 10*time.Minute, 20*time.Hour)
	sc.generation = pick(throw(seed, "generation"), 1, 2)
	sc.isolated, sc.looks = throw(seed, "isolated").is(0.15), throw(seed, "looks").is(0.7)
	if sc.isolated && sc.class != serial && throw(seed, "fan").is(0.5) {
		sc.fanOut(throw(seed, "fan out"))
	}
	sc.plan = withQuestions(sc.plan, throw(seed, "plan questions"))
	sc.atTerminal = sc.class == anything && throw(seed, "at a terminal").is(0.5)
	sc.startsIn = pick(throw(seed, "start"), 0, 0, 0, 0, time.Hour+540_013)
	sc.reviews = throw(seed, "reviews").is(0.3)
	if sc.class == serial {
		sc.asks = 0
	}
	if sc.ledgers = ledger; sc.class != serial && throw(seed, "outages").is(0.3) {
		sc.drawOutages(throw(seed, "outages of models"))
		if sc.class.same() {
			sc.asks = 0 // a turn that is cut off by an outage, and asks again, would depend on when
		}
	}
	if sc.class == anything {
		sc.approval = pick(d, "", "yes", "edit", "later", "no")
		sc.asked = d.is(0.2)
		if d.is(0.25) {
			sc.budget = drawBudget(d, len(sc.plan.SubTasks))
		}
	}
	return sc
}

// fanOut has all sub-tasks at work at once, so that results wait for each other.
func (sc *scenario) fanOut(d dice) {
	sc.limits.Global, sc.limits.PerModel, sc.limits.Models, sc.limits.Providers = 20, 20, nil, nil
	sc.limits.Batch, sc.gateTime = d.from(2, 6), 20*time.Hour
	sc.plan.SubTasks = nil
	for i := range d.from(4, 6) {
		s := drawSpec(d, fmt.Sprintf("s%d", i+1), sc.class)
		s.Writes, s.Gates = nil, []string{"check " + s.ID}
		sc.plan.SubTasks = append(sc.plan.SubTasks, s)
	}
}

func drawLimits(d dice, c class) orchestrator.Limits {
	l := orchestrator.DefaultLimits()
	l.Global, l.PerModel = pick(d, 1, 2, 3, 20), pick(d, 1, 2, 5)
	l.Models = nil
	if d.is(0.4) {
		l.Models = append(l.Models, orchestrator.ModelLimit{Pattern: "a/*", Limit: d.from(1, 3)})
	}
	if d.is(0.4) {
		l.Providers = map[string]int{"a": d.from(1, 3)}
	}
	l.Attempts, l.Evaluations, l.Stalls, l.IdleTurns = d.from(1, 3), d.from(1, 5), d.from(1, 3), d.from(1, 3)
	l.Replans, l.Troubles, l.Cooldowns = d.from(0, 2), d.from(1, 3), pick(d, 0, 1, 3, 10)
	l.Extensions = l.Attempts - 1
	// Odd nanoseconds, so that the scheduler's waits end at moments of their own.
	l.Backoff, l.CoolBase, l.CoolMax = 500*time.Millisecond+510_007, 5*time.Second+520_011, 5*time.Minute+530_017
	switch c {
	case serial:
		l.Global, l.Troubles, l.Cooldowns = 1, 3, 1_000
	case parallel:
		l.Replans, l.Troubles, l.Cooldowns = 0, 3, 100_000
	}
	return l
}

// withQuestions adds questions that are answered by default, or by the user, and says what rests on them.
func withQuestions(p boulder.Plan, d dice) boulder.Plan {
	for i := range pick(d, 0, 0, 1, 3) {
		q := boulder.Question{ID: fmt.Sprint("q", i+1), Question: fmt.Sprintf("question %d of the plan", i+1), Default: "the default", Answer: pick(d, "", "", "mine")}
		q.Fill()
		p.Facts.Questions = append(p.Facts.Questions, q)
		for n := range p.SubTasks {
			if d.is(0.5) {
				p.SubTasks[n].Questions = append(p.SubTasks[n].Questions, q.ID)
			}
		}
	}
	return p
}

func drawPlan(d dice, c class) boulder.Plan {
	n := d.from(1, 3) // many small worlds find more than a few large ones
	if d.is(0.3) {
		n = d.from(3, 6)
	}
	if d.is(0.04) {
		n = d.from(7, 12)
	}
	p := boulder.Plan{Version: 1, Task: "the task", Goal: "the goal", Constraints: []string{"never touch vendor/"}}
	shape := pick(d, 0, 0.2, 0.5, 0.9) // probability of an edge
	for i := range n {
		s := drawSpec(d, fmt.Sprintf("s%d", i+1), c)
		for j := range i {
			if d.is(shape / float64(max(1, min(i, 4)))) {
				s.DependsOn = append(s.DependsOn, fmt.Sprintf("s%d", j+1))
			}
		}
		p.SubTasks = append(p.SubTasks, s)
	}
	// The order of the plan need not be that of the graph.
	d.Shuffle(n, func(i, j int) { p.SubTasks[i], p.SubTasks[j] = p.SubTasks[j], p.SubTasks[i] })
	return p
}

// lists are models with others behind them. Sub-tasks of parallel worlds have no others during outages: they would end the
// run, which cuts off what is at work.
var lists = []boulder.Models{"a/one#high,b/one#high", "a/one,a/two#low,b/one", "a/two,b/one", "b/one,a/one"}

// drawOutages has models refuse for a time, and gives sub-tasks and ledgers others.
func (sc *scenario) drawOutages(d dice) {
	for _, m := range models[1:] {
		for range d.from(0, 2) {
			from := d.span(time.Second, 10*time.Hour)
			o := outage{model: m, from: from, until: from + d.span(time.Minute, 20*time.Hour), kind: pick(d, outageKinds...)}
			if o.says = -1; d.is(0.4) {
				o.says = pick(d, 0, time.Minute, 76*time.Hour) // it lies
			}
			sc.outages = append(sc.outages, o)
		}
	}
	for i := range sc.plan.SubTasks {
		sc.plan.SubTasks[i].Model = sc.listed(d, sc.plan.SubTasks[i].Model)
	}
	sc.ledgers = pick(d, lists...)
}

func (sc *scenario) listed(d dice, model boulder.Models) boulder.Models {
	if len(sc.outages) == 0 || sc.class == anything && d.is(0.3) {
		return model
	}
	return pick(d, lists...)
}

func drawSpec(d dice, id string, c class) boulder.Spec {
	s := boulder.Spec{
		ID: id, Subject: "Do " + id, Description: "Do all of " + id, SuccessCriteria: []string{id + " is done"},
		Priority: pick(d, "", boulder.High, boulder.Medium, boulder.Low), Model: boulder.Models(pick(d, models...)),
	}
	if c == serial {
		s.Model = ledger
	}
	if s.Priority == boulder.High {
		s.Writes = []string{"src/"}
	}
	if d.is(0.25) {
		s.Gates = []string{"check " + id}
	}
	if c == anything && d.is(0.08) {
		s.Budget = &boulder.Budget{Attempts: d.from(0, 4), Tokens: int64(d.from(0, 2)) * 4_000}
		if d.is(0.3) {
			s.Budget.Time = boulder.Duration(time.Duration(d.from(1, 30))*time.Minute + 540_023)
		}
	}
	return s
}

func drawBudget(d dice, n int) *boulder.Budget {
	b := &boulder.Budget{}
	switch d.IntN(5) {
	case 0:
		b.Attempts = d.from(1, 2*n)
	case 1:
		b.Tokens = int64(d.from(1, 3*n)) * 1_500
	case 2:
		b.Cost = float64(d.from(1, 4*n)) * 0.25
	case 3:
		b.Calls = int64(d.from(1, 12*n))
	case 4:
		b.Time = boulder.Duration(d.span(time.Minute, 10*time.Hour).Truncate(time.Millisecond) + 550_027)
	}
	return b
}

// Lanes of actors other than attempts: each actor wakes at nanoseconds of its own.
const (
	laneFate = 400_001 + 2*iota
	lanePerson
	lanePlanner
	laneApproval
	laneReplan
	laneBetween
	laneAnswer
	laneIntegrate
	laneCheck
	laneLook
)
