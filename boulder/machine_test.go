package boulder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// genPlan draws an acyclic plan: sub-tasks depend on earlier ones only, and are then shuffled.
func genPlan(t *rapid.T, most int) Plan {
	n := rapid.IntRange(1, most).Draw(t, "sub-tasks")
	specs := make([]Spec, n)
	for i := range specs {
		s := &specs[i]
		s.ID = fmt.Sprintf("t%02d", i)
		s.Subject, s.Description = "Do "+s.ID, "All of "+s.ID
		s.Priority = rapid.SampledFrom([]Priority{"", High, Medium, Low}).Draw(t, "priority")
		s.Model = rapid.SampledFrom([]Models{"", "p/one", "p/two#low", "q/three", "p/one#high,q/three"}).Draw(t, "model")
		s.Effort = rapid.SampledFrom([]string{"", "", "high", DefaultEffort}).Draw(t, "effort")
		s.Gates = rapid.SampledFrom([][]string{nil, {"true"}}).Draw(t, "gates")
		s.Questions = rapid.SampledFrom([][]string{nil, {"q1"}, {"q1", "q2"}}).Draw(t, "questions")
		for j := range i {
			if rapid.IntRange(0, i).Draw(t, "edge") < 2 {
				s.DependsOn = append(s.DependsOn, specs[j].ID)
			}
		}
	}
	facts := Facts{Questions: []Question{
		{ID: "q1", Question: "Which?", Default: "this one", Answer: "this one", By: ByDefault},
		{ID: "q2", Question: "Where?", Default: "this one", Answer: "this one", By: rapid.SampledFrom([]AnsweredBy{ByDefault, ByUser}).Draw(t, "by")},
	}}
	return Plan{Version: PlanVersion, Task: "task", Goal: "goal", Facts: facts, SubTasks: rapid.Permutation(specs).Draw(t, "order")}
}

// picture is the whole state in a comparable form.
func picture(t *rapid.T, s *State) string {
	queues := maps.Clone(s.Queues())
	maps.DeleteFunc(queues, func(_ string, queue []*Open) bool { return len(queue) == 0 })
	return string(encode(t, []any{s.Snapshot(), queues, append([]*SubTask{}, s.Completed(len(s.SubTasks))...), s.open}))
}

func encode[T any](t *rapid.T, v T) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func decode[T any](t *rapid.T, b []byte) T {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// machine drives a state with events, and a twin with those that the state accepted. It keeps the log as JSON.
type machine struct {
	state, twin *State
	log         [][]byte
	plan        Plan
	now         time.Time
	applied     map[string]int
	refused     map[string]int
	over        map[AttemptRef]AttemptStatus // ended attempts
}

// apply feeds one event to the state, and checks every invariant.
func (m *machine) apply(t *rapid.T, e Event) {
	pending := len(m.state.events)
	before := m.state.Boulder
	kind := TypeOf(e.Body)
	edited, isEdit := e.Body.(PlanEdited)
	var old *State
	if isEdit {
		var err error
		if old, err = Restore(decode[Snapshot](t, encode(t, m.state.Snapshot()))); err != nil {
			t.Fatal(err)
		}
	}

	logged, err := m.state.Apply(e)
	if err != nil {
		m.refused[kind]++
		if !errors.Is(err, ErrRefused) {
			t.Fatalf("%s: %v does not wrap ErrRefused", kind, err)
		}
		if d := gocmp.Diff(picture(t, m.twin), picture(t, m.state)); d != "" {
			t.Fatalf("%s was refused (%v) but changed the state:\n%s", kind, err, d)
		}
		if len(m.state.events) != pending {
			t.Fatalf("%s was refused but is in the changes", kind)
		}
		return
	}
	m.applied[kind]++
	if _, err := m.twin.Apply(e); err != nil {
		t.Fatalf("%s fits the state, but not its twin: %v", kind, err)
	}
	if status := m.state.Boulder.Status; before.Status.Terminal() && status != before.Status && kind != "redo" {
		t.Fatalf("%s turned a boulder that is %s into one that is %s", kind, before.Status, status)
	}
	if before.Status.Terminal() && !slices.Contains([]string{"archived", "session-left", "landed", "redo", "keep", "blocker-settled"}, kind) {
		t.Fatalf("%s was applied to a boulder that is over", kind)
	}
	if logged.Seq != m.state.Boulder.Seq || len(m.state.events) != pending+1 {
		t.Fatalf("%s has number %d, the boulder %d", kind, logged.Seq, m.state.Boulder.Seq)
	}
	for _, a := range m.state.Attempts {
		if was := m.over[a.AttemptRef]; was != "" && was != a.Status {
			t.Fatalf("%s: attempt %v went from %s to %s", kind, a.AttemptRef, was, a.Status)
		}
		if a.Status.Terminal() {
			m.over[a.AttemptRef] = a.Status
		}
	}
	if isEdit {
		m.checkEdited(t, old, edited)
	}
	if err := m.state.Check(); err != nil {
		t.Fatalf("after %s:\n%v\n%s", kind, err, picture(t, m.state))
	}
}

func (m *machine) event(t *rapid.T, b Body) Event {
	// Events of one commit often share a time, and clocks go backwards.
	m.now = m.now.Add(time.Duration(rapid.IntRange(-1, 2).Draw(t, "seconds")) * time.Second)
	return Event{Time: m.now, BoulderID: "b1", Body: b}
}

// lifecycle draws the next event of a boulder without sub-tasks, or ends one whose sub-tasks are all over.
func (m *machine) lifecycle(t *rapid.T) Body {
	b := m.state.Boulder
	switch {
	case b.ID == "":
		base := rapid.SampledFrom([]string{"", "base"}).Draw(t, "isolated")
		line := Trunk{Base: base, Tip: base, Trial: base != "" && rapid.Bool().Draw(t, "trial")}
		return Created{Boulder: Boulder{ID: "b1", Task: "task", Project: "/p", Trunk: line}}
	case b.Asking() || b.Status == Planning && b.Revision == 0 && b.Prepared == nil && rapid.IntRange(0, 3).Draw(t, "ask") == 0:
		return m.prepared(t)
	case b.Status == Planning && (b.Looking() != nil || b.Look == nil && rapid.Bool().Draw(t, "look")):
		return m.look(t)
	case b.Status == Planning:
		rev := PlanRevision{Number: b.Revision + 1, Plan: m.plan, Hash: m.plan.Hash()}
		return Planned{Revision: rev.Number, Plan: rev}
	case b.Status == AwaitingApproval, b.Status == Paused && m.state.Revision != nil && len(m.state.SubTasks) == 0:
		number := b.Revision + rapid.IntRange(0, 1).Draw(t, "edited")
		return Decomposed{
			Revision: number, Plan: PlanRevision{Number: number, Plan: m.plan, Hash: m.plan.Hash()},
			GatesApproved: rapid.Bool().Draw(t, "gates approved"), Model: "r/default",
		}
	case m.state.Parked() > 0 && m.state.AllOver():
		i := slices.IndexFunc(m.state.SubTasks, func(st *SubTask) bool { return st.Parked })
		st := m.state.SubTasks[i]
		if awaited := st.AwaitedBy(st.Attempts); len(awaited) > 0 {
			return m.settled(t, st.ID, awaited[0].ID)
		}
		return Unparked{SubTaskID: st.ID}
	case b.Status.Terminal():
		return rapid.SampledFrom([]Body{
			Landed{How: LandedFiles}, Landed{How: LandedFiles, Left: []string{"f"}}, Landed{How: LandedUndone}, m.question(t), m.order(t, m.someID(t)),
		}).Draw(t, "afterwards")
	case b.Status == Synthesizing:
		return TaskComplete{Status: rapid.SampledFrom([]Status{Completed, Partial, Failed, Running}).Draw(t, "end")}
	case len(m.state.SubTasks) > 0 && m.state.AllOver() && b.Status == Running:
		return m.overall(t)
	case len(m.state.SubTasks) > 0 && m.state.AllOver():
		return StatusChanged{Status: Synthesizing}
	case b.Status == Running && b.Trunk.Trial:
		return Isolated{InPlace: rapid.Bool().Draw(t, "in place"), Gates: []TreeGate{{Command: "true", Tree: "t", Passed: true}}}
	}
	return StatusChanged{Status: Running}
}

// prepared draws what is known before the first plan, or the user's answers to some of its questions.
func (m *machine) prepared(t *rapid.T) Body {
	if before := m.state.Boulder.Prepared; before != nil && rapid.IntRange(0, 5).Draw(t, "answered") > 0 {
		answered, err := before.Answer([]string{"", "that one"}[:rapid.IntRange(0, 2).Draw(t, "answers")])
		if err != nil {
			t.Fatal(err)
		}
		return answered
	}
	return Prepared{Known: &m.plan, Find: []string{"where?"}}
}

// question draws that a question of the plan becomes a blocker, or its answer.
func (m *machine) question(t *rapid.T) Body {
	if all := m.state.Boulder.Blockers; len(all) > 0 && rapid.Bool().Draw(t, "answer a question") {
		return m.settled(t, "", rapid.SampledFrom(all).Draw(t, "which question").ID)
	}
	raised, _ := m.raised(t, AttemptRef{}).(BlockerRaised)
	raised.Blocker.PlanQuestion, raised.Blocker.ChosenOption = rapid.SampledFrom([]string{"q1", "q2", "q9"}).Draw(t, "question"), "this one"
	return raised
}

// look draws the next event of a look before the first plan.
func (m *machine) look(t *rapid.T) Body {
	l := m.state.Boulder.Looking()
	if l == nil && m.state.Boulder.Replan != nil {
		return LookStarted{For: LookReplan, Questions: []string{"why?"}, Tag: fmt.Sprint("replan", m.state.Boulder.Replans)}
	}
	if l == nil {
		return LookStarted{Questions: []string{"where?"}, Tag: "look", Known: &m.plan}
	}
	s := l.LookSession
	switch rapid.IntRange(0, 5).Draw(t, "look") {
	case 0:
		s.SessionID = rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "session")
	case 1:
		s.SessionID, s.MessageID = "s1", "m1"
	case 2:
		s.ResumeID = "m2"
	case 3:
		s.Nudge = &Nudge{MessageID: rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "nudge")}
	case 4:
		return Looked{Void: "files changed"}
	default:
		return Looked{Findings: []Finding{{ID: "f1", Statement: "here", File: "a.go", Line: 3}}}
	}
	return s
}

// overall draws what follows when all sub-tasks are over: a check of the request, an extension, the end.
func (m *machine) overall(t *rapid.T) Body {
	b := m.state.Boulder
	switch check := b.Checked(); {
	case b.Replan != nil && rapid.Bool().Draw(t, "adopt it"):
		return m.replanned(t, b.Replan.AttemptRef)
	case b.Replan != nil: // nothing ends while one is being made
		return ReplanRefused{AttemptRef: b.Replan.AttemptRef, Reason: "none"}
	case b.Looking() != nil, check == nil && rapid.IntRange(0, 15).Draw(t, "review") == 0:
		if b.Looking() == nil {
			return LookStarted{For: LookReview, Questions: []string{"what is missing?"}, Tag: fmt.Sprint("review", b.Attempts)}
		}
		return m.look(t)
	case check == nil && rapid.IntRange(0, 7).Draw(t, "check") == 0:
		row := RequestRow{Request: "all of it", Evidence: "a file", Met: rapid.Bool().Draw(t, "met")}
		return rapid.SampledFrom([]Body{
			RequestChecked{RequestCheck: RequestCheck{Rows: []RequestRow{row}}},
			RequestChecked{RequestCheck: RequestCheck{Rows: []RequestRow{row}, Missing: []string{"the rest"}}},
			RequestChecked{RequestCheck: RequestCheck{Unchecked: "no answer"}}, RequestChecked{},
		}).Draw(t, "checked")
	case check != nil && len(check.Missing) > 0 && rapid.IntRange(0, 2).Draw(t, "extend") == 0:
		return ReplanStarted{Number: b.Extensions + 1, Reason: "not met", Missing: check.Missing}
	}
	return StatusChanged{Status: Synthesizing}
}

// attemptEvent draws an event that the attempt's state allows.
func (m *machine) attemptEvent(t *rapid.T, o *Open) Body {
	ref := o.Attempt.AttemptRef
	if o.Attempt.Status.Live() {
		switch rapid.IntRange(0, 29).Draw(t, "aside") {
		case 0:
			return Trouble{AttemptRef: ref, Reason: "no server", NotBefore: m.now.Add(time.Second)}
		case 1:
			return UsageReport{
				SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Usage: Usage{Input: 3, Calls: 1},
				Source: rapid.SampledFrom([]string{UsageAttempt, UsageJudge}).Draw(t, "source"),
			}
		case 2:
			return GateRun{AttemptRef: ref, Command: "true"}
		case 3:
			return SubTaskProgress{
				AttemptRef: ref, Activity: "edit", Checkpoint: &Checkpoint{File: "f", Line: 1}, Usage: Usage{Input: 2},
			}
		case 4:
			if o.Attempt.Effort != "" && rapid.Bool().Draw(t, "lacks") {
				return EffortMissing{AttemptRef: ref, Model: o.Attempt.Model, Effort: o.Attempt.Effort}
			}
			return Nudged{AttemptRef: ref, Turn: o.Turn.Number, Rule: RuleErrors, MessageID: "n", Prompt: "look"}
		case 5:
			return Parked{AttemptRef: ref, Reason: "money", Digest: "stopped"}
		case 6:
			return m.replanStarted(ref)
		case 7, 8:
			return m.raised(t, ref)
		case 9:
			return m.waitEnded(t, o, ref)
		}
	}
	if awaited := o.SubTask.AwaitedBy(ref.Attempt); o.Attempt.Status == AttemptMonitoring && len(awaited) > 0 {
		if o.Attempt.Turns >= 3 || rapid.Bool().Draw(t, "park") {
			return Parked{AttemptRef: ref, Reason: "an answer", Digest: "it waits"}
		}
		aside := Continuation{AttemptRef: ref, Turn: o.Turn.Number + 1, Prompt: "do the rest"}
		for _, b := range awaited {
			aside.Aside = append(aside.Aside, b.ID)
		}
		return aside
	}
	switch o.Attempt.Status {
	case AttemptQueued:
		return Starting{AttemptRef: ref, Tag: "tag", Prompt: "brief"}
	case AttemptStarting:
		return SubTaskStart{AttemptRef: ref, SessionID: "s"}
	case AttemptExecuting:
		switch {
		case o.Turn.MessageID == "":
			return TurnSent{AttemptRef: ref, Turn: o.Turn.Number, MessageID: "m"}
		case o.Turn.ResumeID == "" && rapid.IntRange(0, 5).Draw(t, "resume") == 0:
			return TurnSent{AttemptRef: ref, Turn: o.Turn.Number, MessageID: "r", Resume: true}
		}
		e := drawEvidence(t)
		if m.state.Boulder.Isolated() {
			e.Diff.Commit = rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(t, "captured")
		}
		return TurnEnded{AttemptRef: ref, Turn: o.Turn.Number, Evidence: e}
	}
	if o.Turn.Verdict == nil {
		return Judged{AttemptRef: ref, Turn: o.Turn.Number, Verdict: drawVerdict(t)}
	}
	now := m.state.Boulder.Trunk.Integrating
	switch {
	case m.state.Boulder.Trunk.integrating(ref) != nil && o.SubTask.Integrated == "":
		return m.integratedOrNot(t, ref)
	case o.SubTask.Work != "" && o.SubTask.Integrated == "" && o.Turn.Conflict == nil && o.Turn.Verdict.Completed:
		return Integrating{AttemptRef: ref, Tip: m.state.Boulder.Trunk.Tip, Result: o.SubTask.Work, At: m.now, Joins: now != nil}
	case o.Turn.Verdict.Completed && o.Turn.Conflict == nil:
		return SubTaskDone{
			AttemptRef: ref, Completed: true, Summary: "did it", Output: "out",
			Status: SubTaskCompleted, AttemptStatus: AttemptCompleted,
		}
	case o.Attempt.Turns < 3 && rapid.IntRange(0, 2).Draw(t, "go on") > 0:
		return Continuation{AttemptRef: ref, Turn: o.Turn.Number + 1, Prompt: "go on"}
	case o.Attempt.Attempt < 3:
		return Retry{AttemptRef: ref, Reason: "no", Status: AttemptFailed, Next: ref.Attempt + 1, Digest: "digest"}
	}
	return SubTaskDone{AttemptRef: ref, Summary: "gave up", Status: SubTaskFailed, AttemptStatus: AttemptFailed}
}

func (m *machine) integratedOrNot(t *rapid.T, ref AttemptRef) Body {
	tree := rapid.SampledFrom([]string{"t1", "t2"}).Draw(t, "tree")
	switch rapid.IntRange(0, 2).Draw(t, "integrated") {
	case 0:
		return Conflict{AttemptRef: ref, Tip: m.state.Boulder.Trunk.Tip, Tree: tree, Files: []string{"f"}}
	case 1:
		return GateRun{AttemptRef: ref, Command: "true", Tree: tree, Passed: rapid.Bool().Draw(t, "passed")}
	}
	with := ""
	if len(m.state.Boulder.Trunk.Joined) > 0 {
		with = rapid.SampledFrom([]string{"", "another"}).Draw(t, "tested with")
	}
	return Integrated{
		AttemptRef: ref, TestedWith: with, Commit: fmt.Sprint("commit", m.state.Boulder.Seq), Tree: tree, Gates: []TreeGate{{Command: "make", Tree: tree, Passed: true}},
	}
}

// raised draws a blocker, which may be known already or settled, as none may be.
func (m *machine) raised(t *rapid.T, ref AttemptRef) Body {
	b := Blocker{
		ID: fmt.Sprint("B", rapid.IntRange(1, 20).Draw(t, "blocker")), Question: "?",
		Hard: rapid.Bool().Draw(t, "hard"), Category: BlockerOther, CreatedAt: m.now,
	}
	b.Status = rapid.SampledFrom([]BlockerStatus{"", BlockerPending, BlockerPending, BlockerAnswered}).Draw(t, "raised as")
	if rapid.Bool().Draw(t, "waits") {
		b.Until = m.now.Add(time.Minute)
	}
	return BlockerRaised{AttemptRef: ref, Blocker: b}
}

func (m *machine) waitEnded(t *rapid.T, o *Open, ref AttemptRef) Body {
	ended := WaitEnded{AttemptRef: ref, BlockerID: "B1", Replied: rapid.Bool().Draw(t, "replied")}
	if o != nil && len(o.SubTask.Blockers) > 0 {
		b := rapid.SampledFrom(o.SubTask.Blockers).Draw(t, "waited for")
		ended.BlockerID = b.ID
	}
	return ended
}

func (m *machine) settled(t *rapid.T, subTask, blocker string) Body {
	return rapid.SampledFrom([]Body{
		BlockerSettled{SubTaskID: subTask, BlockerID: blocker, Status: BlockerAnswered, Answer: "this one"},
		BlockerSettled{SubTaskID: subTask, BlockerID: blocker, Status: BlockerAnswered, Allowed: true},
		BlockerSettled{SubTaskID: subTask, BlockerID: blocker, Status: BlockerSkipped},
	}).Draw(t, "settled")
}

func drawEvidence(t *rapid.T) Evidence {
	e := Evidence{
		FinalMessage: "done", ToolCount: rapid.IntRange(0, 1).Draw(t, "tools"), Duration: time.Second,
		Diff: Diff{Hash: rapid.SampledFrom([]string{"", "h1", "h2"}).Draw(t, "diff")},
	}
	e.Ended.Rule = rapid.SampledFrom([]Rule{"", "", RuleRepeat, RuleBudget}).Draw(t, "rule")
	e.Ended.Truncated = rapid.SampledFrom([]string{"", "", "length"}).Draw(t, "truncated")
	e.Gates = []Gate{{Command: "make", ExitCode: rapid.IntRange(0, 1).Draw(t, "gate")}}
	return e
}

func drawVerdict(t *rapid.T) Verdict {
	flag := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	return Verdict{
		Completed: rapid.Bool().Draw(t, "done"), Summary: "so far", IsProgress: rapid.Bool().Draw(t, "progress"),
		IsInLoop: flag("loop"), NeedReplan: flag("need replan"), JudgeUnavailable: flag("no judge"),
		ContinuationPrompt: rapid.SampledFrom([]string{"", "go on", "do b"}).Draw(t, "continuation"),
		NewFacts:           rapid.SampledFrom([][]string{nil, {"fact"}, {"one", "two"}}).Draw(t, "facts"),
	}
}

func (m *machine) replanStarted(ref AttemptRef) ReplanStarted {
	return ReplanStarted{
		AttemptRef: ref, Number: m.state.Boulder.Replans + 1, Reason: "stalled", Replaces: m.state.Remainder(ref.SubTaskID),
	}
}

// boulderEvent draws an event outside of attempts: of a replan, a cool-down, a budget, the user, or a crash.
func (m *machine) boulderEvent(t *rapid.T) Body {
	b := m.state.Boulder
	if b.Replan != nil && rapid.Bool().Draw(t, "go on with the replan") {
		switch rapid.IntRange(0, 10).Draw(t, "replan") {
		case 9, 10:
			if l := b.Looking(); b.Look == nil || l != nil && l.For == LookReplan {
				return m.look(t)
			}
		case 7:
			return RevisionAsked{Comment: "otherwise"}
		case 8:
			return RevisionRefused{Reason: "no answer"}
		case 6:
			return ReplanProposed{AttemptRef: b.Replan.AttemptRef, Replacement: Replacement{SubTasks: []Spec{{ID: "new", Subject: "New"}}}}
		case 0:
			return ReplanRefused{AttemptRef: b.Replan.AttemptRef, Reason: "none"}
		case 1:
			return PlanTrouble{Reason: "no server", NotBefore: m.now.Add(time.Second)}
		}
		return m.replanned(t, b.Replan.AttemptRef)
	}
	if len(b.ReplansWanted) > 0 && rapid.Bool().Draw(t, "begin the wanted one") {
		return m.replanStarted(b.ReplansWanted[0].AttemptRef)
	}
	model := rapid.SampledFrom([]string{"p/one", "p/two", "r/default", "q/ledger"}).Draw(t, "model")
	if rapid.IntRange(0, 7).Draw(t, "a question") == 0 {
		return m.question(t)
	}
	id := m.someID(t)
	dimension := rapid.SampledFrom([]string{"tokens", "cost"}).Draw(t, "dimension")
	return rapid.SampledFrom([]Body{
		Cooled{Model: model, Cooldown: Cooldown{
			Until: m.now.Add(time.Duration(rapid.IntRange(-1, 3).Draw(t, "wait")) * time.Second),
			Limit: rapid.IntRange(0, 4).Draw(t, "limit"), Full: rapid.IntRange(0, 4).Draw(t, "full"), Reason: "429",
			Out: rapid.SampledFrom([]Outage{"", "", OutLimit, OutKey}).Draw(t, "out"),
		}},
		m.switched(t), m.switched(t),
		BudgetSet{Budget: Budget{Tokens: 10}}, BudgetSet{Budget: Budget{Time: -1}},
		BudgetSet{SubTaskID: id, Budget: Budget{Calls: 3}},
		BudgetWarning{Dimension: dimension}, BudgetWarning{SubTaskID: id, Dimension: dimension},
		Unparked{SubTaskID: id}, Resumed{},
		ClockMoved{By: time.Duration(rapid.IntRange(-1, 1).Draw(t, "clock")) * time.Hour},
		SubTaskDone{AttemptRef: AttemptRef{SubTaskID: id}, Status: SubTaskSkipped, AttemptStatus: AttemptCancelled},
	}).Draw(t, "around")
}

// switched draws another model of a list for a sub-task, and those that are like it, or for the ledgers.
func (m *machine) switched(t *rapid.T) Body {
	b := Switched{Reason: "429", Ledger: rapid.IntRange(0, 3).Draw(t, "ledgers") == 0, To: "q/other"}
	if b.Ledger {
		b.From, b.To = m.state.Boulder.Ledger(), rapid.SampledFrom([]string{"q/ledger", "q/other", "none"}).Draw(t, "to")
		return b
	}
	for _, st := range m.state.SubTasks {
		if all := st.Models.All(); len(all) > 1 && !st.Status.Terminal() && (b.From == "" || st.Model == b.From && st.Models.All()[0] == all[0]) {
			b.From, b.SubTasks = st.Model, append(b.SubTasks, st.ID)
			b.To = all[rapid.IntRange(0, len(all)-1).Draw(t, "to")]
		}
	}
	return b
}

// order draws an order of the user, most often for a failed sub-task.
func (m *machine) order(t *rapid.T, id string) Body {
	failed := slices.IndexFunc(m.state.SubTasks, func(st *SubTask) bool { return st.Status == SubTaskFailed })
	if failed >= 0 && rapid.IntRange(0, 3).Draw(t, "the failed one") > 0 {
		id = m.state.SubTasks[failed].ID
		if rapid.Bool().Draw(t, "again") {
			return Reopened{SubTaskID: id, Reason: "retry"}
		}
	}
	if st := m.state.SubTask(id); st != nil && len(st.Blockers) > 0 && rapid.Bool().Draw(t, "answer") {
		return m.settled(t, id, rapid.SampledFrom(st.Blockers).Draw(t, "which").ID)
	}
	drop := func(status SubTaskStatus) Body {
		return SubTaskDone{
			AttemptRef: AttemptRef{SubTaskID: id}, Status: status, AttemptStatus: AttemptCancelled, ByUser: true,
		}
	}
	if done := m.state.Completed(1); len(done) > 0 && rapid.IntRange(0, 7).Draw(t, "keep") == 0 {
		return Kept{SubTaskID: done[0].ID}
	}
	switch {
	case m.state.Revision == nil:
	case rapid.IntRange(0, 3).Draw(t, "redo") == 0:
		return m.redone(t, id)
	case rapid.IntRange(0, 2).Draw(t, "edit") == 0:
		return m.edited(t)
	case rapid.IntRange(0, 5).Draw(t, "model") == 0:
		return ModelSet{
			Model:  rapid.SampledFrom([]Models{"", "p/one", "s/other#low", "s/other,p/two"}).Draw(t, "new model"),
			Effort: rapid.SampledFrom([]string{"", "high", "low"}).Draw(t, "new effort"), Later: m.later(t),
		}
	}
	return rapid.SampledFrom([]Body{
		drop(SubTaskSkipped), drop(SubTaskCancelled), Reopened{SubTaskID: id, Reason: "retry"}, Kept{SubTaskID: id},
		Noted{SubTaskID: rapid.SampledFrom([]string{"", id}).Draw(t, "to"), Text: rapid.SampledFrom([]string{"", "x"}).Draw(t, "note")},
		StatusChanged{Status: Paused, Reason: "the user"}, Archived{Archived: rapid.Bool().Draw(t, "archive")}, Landed{How: LandedFiles},
		SessionLeft{LeftSession{AttemptRef{"a", 1}, "s1", ""}, rapid.Bool().Draw(t, "stopped")},
	}).Draw(t, "order")
}

// edited draws a plan that the user has edited in one to three places. Some of that may not be.
func (m *machine) edited(t *rapid.T) Body {
	plan := m.state.Revision.Plan.Clone()
	for range rapid.IntRange(1, 3).Draw(t, "edits") {
		if len(plan.SubTasks) == 0 {
			break
		}
		i := rapid.IntRange(0, len(plan.SubTasks)-1).Draw(t, "which")
		on := plan.SubTasks[rapid.IntRange(0, len(plan.SubTasks)-1).Draw(t, "on")].ID
		switch s := &plan.SubTasks[i]; rapid.IntRange(0, 7).Draw(t, "edit") {
		case 7:
			for n := range plan.Facts.Questions {
				q := &plan.Facts.Questions[n]
				q.Answer, q.By = rapid.SampledFrom([]string{"", "this one", "that one"}).Draw(t, "its answer"), ""
				q.Fill()
			}
		case 0:
			plan.SubTasks = append(plan.SubTasks, Spec{
				ID: fmt.Sprintf("e%03d", len(m.state.SubTasks)+len(plan.SubTasks)), Subject: "New", Description: "What was forgotten",
				DependsOn: []string{on}, Gates: []string{"true"}, Budget: &Budget{Calls: 7},
			})
		case 1:
			gone := s.ID
			plan.SubTasks = slices.Delete(plan.SubTasks, i, i+1)
			for j := range plan.SubTasks {
				plan.SubTasks[j].DependsOn = without(plan.SubTasks[j].DependsOn, []string{gone})
			}
		case 2:
			s.Description, s.Outputs = fmt.Sprint("Edited at ", m.state.Boulder.Seq), []string{"name"}
		case 3:
			s.Gates, s.NoWorse = []string{rapid.SampledFrom([]string{"make", "true", "make check"}).Draw(t, "gate")}, nil
		case 4:
			s.Model, s.Agent = rapid.SampledFrom([]Models{"", "p/one", "q/three#high", "p/two,q/three"}).Draw(t, "another model"), rapid.SampledFrom([]string{"", "build"}).Draw(t, "agent")
			s.Effort = rapid.SampledFrom([]string{"", "low"}).Draw(t, "another effort")
			plan.Model = rapid.SampledFrom([]Models{"", "", "p/two"}).Draw(t, "of the plan")
			plan.Effort = rapid.SampledFrom([]string{"", "", "high"}).Draw(t, "effort of the plan")
		case 5:
			s.Priority = rapid.SampledFrom([]Priority{High, Low}).Draw(t, "another priority")
		case 6:
			if s.DependsOn = []string{on}; rapid.Bool().Draw(t, "on nothing") {
				s.DependsOn = nil
			}
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "another task") == 0 {
		plan.Task = "another"
	}
	number := m.state.Boulder.Revision + rapid.SampledFrom([]int{1, 1, 1, 1, 2}).Draw(t, "revision")
	b := PlanEdited{Later: m.later(t)}
	if edit, _ := m.state.Edit(&plan); edit != nil {
		b.Added, b.Changed, b.Removed = edit.Added, edit.Changed, edit.Removed
	}
	b.Plan = PlanRevision{Number: number, Plan: plan, Hash: plan.Hash()}
	return b
}

// later draws which turns are at work.
func (m *machine) later(t *rapid.T) (ids []string) {
	for _, o := range m.state.Live() {
		if rapid.Bool().Draw(t, "at work") {
			ids = append(ids, o.SubTask.ID)
		}
	}
	return ids
}

// checkEdited: what is done is as before, what is at work keeps its text, and all else is as the plan has it now.
func (m *machine) checkEdited(t *rapid.T, before *State, b PlanEdited) {
	for _, spec := range b.Plan.Plan.SubTasks {
		was, is := before.SubTask(spec.ID), m.state.SubTask(spec.ID)
		o := m.state.Open(spec.ID)
		switch {
		case was != nil && was.done():
			if was.Blocks = is.Blocks; string(encode(t, was)) != string(encode(t, is)) {
				t.Fatalf("%q was %s, and is another one: %s", spec.ID, was.Status, encode(t, is))
			}
			continue
		case o != nil && o.Attempt.Status.Live():
			if is.Description != was.Description || is.Status != was.Status || !slices.Equal(is.DependsOn, was.DependsOn) {
				t.Fatalf("%q is at work, and was changed: %s", spec.ID, encode(t, is))
			}
		case o != nil && (o.Attempt.Model != is.Model || o.Attempt.Effort != is.Effort || o.Attempt.Agent != is.Agent):
			t.Fatalf("the attempt of %q is queued for %s, and it is to run with %s", spec.ID, o.Attempt.Runs(), is.Wanted())
		}
		gates := filter(slices.Concat(is.Gates, is.GateHints), func(gate string) bool { return slices.Contains(spec.Gates, gate) })
		if is.Description != spec.Description || !slices.Equal(is.DependsOn, spec.DependsOn) || is.Priority != cmp.Or(spec.Priority, Medium) ||
			slices.Contains(b.Changed, spec.ID) && len(gates) < len(spec.Gates) || spec.Model != "" && is.Wanted() != spec.ModelsIn(&b.Plan.Plan, "", m.state.Boulder.Effort) {
			t.Fatalf("%q is %s, and the plan says %s", spec.ID, encode(t, is), encode(t, spec))
		}
	}
	for _, id := range b.Removed {
		if st := m.state.SubTask(id); st.Status != SubTaskSuperseded || m.state.Open(id) != nil {
			t.Fatalf("%q was removed, and is %s", id, st.Status)
		}
	}
	for _, st := range before.SubTasks {
		if is := m.state.SubTask(st.ID); is.Status != st.Status && !slices.Contains(b.Removed, st.ID) &&
			(st.Status != SubTaskBlocked || is.Status != SubTaskPending) {
			t.Fatalf("%q was %s, and is %s", st.ID, st.Status, is.Status)
		}
	}
}

func (m *machine) redone(t *rapid.T, id string) Body {
	var ids []string
	for _, st := range m.state.Completed(len(m.state.SubTasks)) {
		if st.ID == id || rapid.IntRange(0, 3).Draw(t, "too") == 0 {
			ids = append(ids, st.ID)
		}
	}
	b := Redone{
		SubTasks: append(ids, rapid.SampledFrom([][]string{nil, nil, nil, {"zz"}}).Draw(t, "stranger too")...),
		Files:    rapid.SampledFrom([]Files{FilesKeep, FilesRevert, FilesRevert, "burn"}).Draw(t, "files"), NoDependents: rapid.Bool().Draw(t, "alone"),
		Reasons: map[string][]Reason{id: {ReasonAsked}},
	}
	plan := m.state.Revision.Plan.Clone()
	i := slices.IndexFunc(plan.SubTasks, func(s Spec) bool { return slices.Contains(ids, s.ID) })
	if i >= 0 && rapid.IntRange(0, 3).Draw(t, "another plan") == 0 {
		plan.SubTasks[i].Description, plan.SubTasks[i].Gates = "All of it, otherwise", []string{"make"}
		b.Plan = &PlanRevision{Number: m.state.Boulder.Revision + 1, Plan: plan, Hash: plan.Hash()}
	}
	return b
}

func (m *machine) someID(t *rapid.T) string {
	if len(m.state.SubTasks) == 0 || rapid.IntRange(0, 9).Draw(t, "stranger") == 0 {
		return "zz"
	}
	return rapid.SampledFrom(m.state.SubTasks).Draw(t, "some").ID
}

// replanned draws new sub-tasks. Their dependencies and the revision's number are sometimes wrong.
func (m *machine) replanned(t *rapid.T, ref AttemptRef) Replanned {
	number := m.state.Boulder.Revision + rapid.SampledFrom([]int{1, 1, 1, 1, 1, 0, 2}).Draw(t, "revision")
	var specs []Spec
	for i := range rapid.IntRange(0, 3).Draw(t, "new sub-tasks") {
		s := Spec{ID: fmt.Sprintf("n%03d", len(m.state.SubTasks)+i), Subject: "Do it otherwise", Gates: []string{"true"}}
		if id := m.someID(t); id != "zz" && rapid.Bool().Draw(t, "on an old one") {
			s.DependsOn = append(s.DependsOn, id)
		}
		if i > 0 && rapid.Bool().Draw(t, "on a new one") {
			s.DependsOn = append(s.DependsOn, specs[i-1].ID)
		}
		specs = append(specs, s)
	}
	plan := Plan{Version: PlanVersion, Task: "task", Goal: "goal"}
	if r := m.state.Boulder.Replan; r != nil {
		plan.SubTasks = filter(m.state.Revision.Plan.SubTasks, func(s Spec) bool { return !slices.Contains(r.Replaces, s.ID) })
	}
	plan.SubTasks = slices.Concat(plan.SubTasks, specs)
	return Replanned{
		AttemptRef: ref, Number: m.state.Boulder.Replans, Revision: number, SubTasks: specs,
		Plan: PlanRevision{Number: number, Plan: plan, Hash: plan.Hash()}, GatesApproved: rapid.Bool().Draw(t, "gates"),
	}
}

// anyEvent draws any event for any attempt: most are refused, some are rare but legal.
func (m *machine) anyEvent(t *rapid.T) Event {
	ref := AttemptRef{SubTaskID: "zz", Attempt: 1}
	if n := len(m.state.SubTasks); n > 0 && rapid.IntRange(0, 9).Draw(t, "known") > 0 {
		st := m.state.SubTasks[rapid.IntRange(0, n-1).Draw(t, "sub-task")]
		ref = AttemptRef{SubTaskID: st.ID, Attempt: st.Attempts - rapid.SampledFrom([]int{0, 0, 0, 1, -1}).Draw(t, "off")}
	}
	turn := rapid.IntRange(0, 3).Draw(t, "turn")
	attempt := rapid.SampledFrom([]AttemptStatus{
		AttemptQueued, AttemptExecuting, AttemptCompleted, AttemptFailed, AttemptCancelled, AttemptTimeout, AttemptLost,
	}).Draw(t, "attempt status")
	subTask := rapid.SampledFrom([]SubTaskStatus{
		SubTaskPending, SubTaskInProgress, SubTaskCompleted, SubTaskBlocked, SubTaskFailed, SubTaskSkipped,
		SubTaskCancelled, SubTaskSuperseded,
	}).Draw(t, "sub-task status")
	status := rapid.SampledFrom([]Status{
		Planning, AwaitingApproval, Running, Paused, Synthesizing, Completed, Partial, Failed, Cancelled,
	}).Draw(t, "status")
	bad := Plan{SubTasks: []Spec{{ID: "a", DependsOn: []string{"b"}}, {ID: "b", DependsOn: []string{"a"}}}}
	e := m.event(t, rapid.SampledFrom([]Body{
		Created{Boulder: Boulder{ID: "b1"}},
		Planned{Plan: PlanRevision{Number: m.state.Boulder.Revision + turn}},
		RevisionAsked{Comment: rapid.SampledFrom([]string{"", "otherwise"}).Draw(t, "comment")}, RevisionRefused{},
		RevisionAsked{Comment: "mine", Plan: &PlanRevision{Number: m.state.Boulder.Revision + turn, Plan: m.plan, Hash: m.plan.Hash()}},
		Decomposed{Plan: PlanRevision{Number: m.state.Boulder.Revision + turn}},
		Decomposed{Plan: PlanRevision{Number: m.state.Boulder.Revision, Plan: bad}},
		StatusChanged{Status: status},
		Starting{AttemptRef: ref},
		SubTaskStart{AttemptRef: ref, SessionID: "s"},
		TurnSent{AttemptRef: ref, Turn: turn, MessageID: rapid.SampledFrom([]string{"", "m2"}).Draw(t, "message id")},
		TurnSent{AttemptRef: ref, Turn: turn, MessageID: "m3", Resume: true},
		EffortMissing{AttemptRef: ref, Model: "q/other", Effort: "high"},
		SubTaskProgress{AttemptRef: ref, Activity: "edit", Checkpoint: &Checkpoint{File: "f", Line: turn}},
		TurnEnded{AttemptRef: ref, Turn: turn},
		GateRun{AttemptRef: ref, Command: "true"},
		Integrating{AttemptRef: ref, Tip: "base", Result: "c1"},
		Integrating{AttemptRef: ref, Tip: "base", Result: "c1", Joins: true}, Integrated{AttemptRef: ref, Commit: "c", Tree: "t", TestedWith: "b"},
		Integrated{AttemptRef: ref, Commit: "c", Tree: "t"}, Conflict{AttemptRef: ref, Tip: "base"}, Isolated{},
		Judged{AttemptRef: ref, Turn: turn, Verdict: Verdict{Completed: turn == 1}},
		Continuation{AttemptRef: ref, Turn: turn}, Continuation{AttemptRef: ref, Turn: turn, Aside: []string{"B1"}},
		Retry{AttemptRef: ref, Status: attempt, Next: ref.Attempt + turn, Uncounted: turn == 2},
		Trouble{AttemptRef: ref, Reason: "no server", NotBefore: m.now.Add(time.Second)},
		UsageReport{SubTaskID: ref.SubTaskID, Attempt: ref.Attempt, Usage: Usage{Input: 3, Calls: 1}},
		UsageReport{Usage: Usage{Output: 2, Cost: 0.5}},
		Nudged{AttemptRef: ref, Turn: turn, MessageID: rapid.SampledFrom([]string{"", "n2"}).Draw(t, "nudge")},
		Parked{AttemptRef: ref, Reason: "a question"},
		m.raised(t, ref), m.settled(t, ref.SubTaskID, "B1"), m.waitEnded(t, m.state.Open(ref.SubTaskID), ref),
		BlockerSettled{SubTaskID: ref.SubTaskID, BlockerID: "B2", Status: BlockerAnswered},
		m.replanStarted(ref),
		ReplanStarted{AttemptRef: ref, Number: m.state.Boulder.Replans + turn, Replaces: []string{ref.SubTaskID}},
		PlanTrouble{NotBefore: m.now.Add(time.Second)}, ReplanProposed{AttemptRef: ref}, RequestChecked{RequestCheck: RequestCheck{Unchecked: "no answer"}},
		ReplanStarted{Number: m.state.Boulder.Extensions + 1, Missing: []string{"the rest"}},
		ReplanRefused{AttemptRef: ref},
		m.replanned(t, ref),
		Resumed{},
		m.look(t), Looked{}, m.prepared(t), m.question(t),
		SubTaskDone{
			AttemptRef: ref, Completed: subTask == SubTaskCompleted, Status: subTask, AttemptStatus: attempt, Summary: "s",
		},
		TaskComplete{Status: status},
	}).Draw(t, "body"))
	if rapid.IntRange(0, 30).Draw(t, "stray") == 0 {
		e.BoulderID = "b2"
	}
	return e
}

// store logs the accepted events, then rebuilds the state from the log and from a snapshot.
func (m *machine) store(t *rapid.T) {
	for _, e := range m.state.TakeEvents() {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		m.log = append(m.log, line)
	}
	if len(m.state.TakeEvents()) > 0 {
		t.Fatal("events can be taken twice")
	}
	if len(m.log) == 0 {
		return
	}
	restored, err := Restore(decode[Snapshot](t, encode(t, m.state.Snapshot())))
	if err != nil {
		t.Fatal(err)
	}
	replayed, log := NewState(), []Event{}
	for _, line := range m.log {
		log = append(log, decode[Event](t, line))
		if err := replayed.Replay(log[len(log)-1]); err != nil {
			t.Fatal(err)
		}
	}
	want := picture(t, m.state)
	if d := gocmp.Diff(want, picture(t, restored)); d != "" {
		t.Fatalf("a restored snapshot differs from the live state (-live +restored):\n%s", d)
	}
	if d := gocmp.Diff(want, picture(t, replayed)); d != "" {
		t.Fatalf("a replayed log differs from the live state (-live +replayed):\n%s", d)
	}
	turns := 0
	for _, a := range replayed.Attempts {
		turns += a.Turns
	}
	if kept := Turns(log, ""); len(kept) != turns {
		t.Fatalf("%d turns are kept, and %d were begun", len(kept), turns)
	}
}

// TestMachine feeds random events to random plans. The invariants are in machine.apply and machine.store.
func TestMachine(t *testing.T) {
	t.Parallel()
	applied, refused := map[string]int{}, map[string]int{}
	ends := map[Status]int{}
	property := func(t *rapid.T) {
		m := &machine{
			state: NewState(), twin: NewState(), over: map[AttemptRef]AttemptStatus{}, now: epoch,
			plan:    genPlan(t, rapid.SampledFrom([]int{3, 40}).Draw(t, "size")),
			applied: applied, refused: refused,
		}
		least := rapid.SampledFrom([]int{1, 150}).Draw(t, "at least") // rapid prefers small numbers
		for range rapid.IntRange(least, 300).Draw(t, "events") {
			switch rapid.IntRange(0, 31).Draw(t, "what") {
			case 10, 11, 12:
				m.apply(t, m.event(t, m.order(t, m.someID(t))))
			case 0, 1, 2, 3:
				m.apply(t, m.anyEvent(t))
			case 4, 5:
				m.store(t)
			case 6, 7, 8, 9:
				m.apply(t, m.event(t, m.boulderEvent(t)))
			default:
				if len(m.state.open) == 0 || m.state.Boulder.Status != Running || m.state.Boulder.Trunk.Trial {
					m.apply(t, m.event(t, m.lifecycle(t)))
					continue
				}
				if m.state.Boulder.Replan != nil && rapid.IntRange(0, 3).Draw(t, "replan first") == 0 {
					m.apply(t, m.event(t, m.boulderEvent(t)))
					continue
				}
				open := slices.SortedFunc(maps.Values(m.state.open), func(a, b *Open) int {
					return strings.Compare(a.SubTask.ID, b.SubTask.ID)
				})
				m.apply(t, m.event(t, m.attemptEvent(t, open[rapid.IntRange(0, len(open)-1).Draw(t, "open")])))
			}
		}
		m.store(t)
		if d := gocmp.Diff(picture(t, m.state), picture(t, m.twin)); d != "" {
			t.Fatalf("two states that were fed the same events differ:\n%s", d)
		}
		ends[m.state.Boulder.Status]++
	}
	seen := func() bool {
		for kind := range typesByName {
			if applied[kind] == 0 || refused[kind] == 0 {
				return false
			}
		}
		return ends[Running] > 0 && ends[Completed] > 0
	}
	rapid.Check(t, property)
	if testing.Short() {
		return
	}
	for more := 0; more < 20 && !seen() && !t.Failed(); more++ {
		rapid.Check(t, property) // some events are rare
	}
	// The property says nothing about an event type that was never drawn.
	for kind := range typesByName {
		if applied[kind] == 0 {
			t.Errorf("no %s event was ever applied", kind)
		}
		if refused[kind] == 0 {
			t.Errorf("no %s event was ever refused", kind)
		}
	}
	for _, status := range []Status{Running, Completed} {
		if ends[status] == 0 {
			t.Errorf("no boulder ended up %s: %v", status, ends)
		}
	}
}
