package boulder

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/dag"
)

// PlanEdited adopts the user's edit of a plan that has begun ([State.Edit]) as the next plan revision. Gates that are new
// in it may run.
type PlanEdited struct {
	Revision int         `json:"revision"`
	Added    []PlannedIn `json:"added"`
	Changed  []string    `json:"changed"` // ids of sub-tasks that the plan describes otherwise
	Removed  []string    `json:"removed"`
	Later    []string    `json:"later,omitempty"` // sub-tasks with a turn at work, which keeps its model

	Plan PlanRevision `json:"plan,omitzero" log:"only"`
}

// ModelSet changes the model, the effort or both of the sub-tasks for which neither they nor the plan name one, from their
// next turn.
type ModelSet struct {
	Model    Models   `json:"model,omitempty"`
	Effort   string   `json:"effort,omitempty"`
	SubTasks []string `json:"sub_tasks"`       // that it applies to; set by Apply
	Later    []string `json:"later,omitempty"` // as in [PlanEdited]
}

// Refusal is a part of an edited plan that a boulder cannot adopt, and what to do instead.
type Refusal struct {
	What string
	Do   string
}

func (r Refusal) String() string { return r.What + ": " + r.Do }

// Edit compares a plan with the current one, sub-task by sub-task, and returns the event that adopts it, but for its
// revision, or why it cannot be adopted; nil and nothing if they differ in their order at most. Sub-tasks may come; those
// that are neither done nor at work may change and go. Of what is at work gates, model, effort, priority and budget may change.
func (s *State) Edit(now *Plan) (*PlanEdited, []Refusal) {
	now = now.KeepAnswers(&s.Revision.Plan)
	d := &edit{
		s: s, now: now, PlanEdited: PlanEdited{Added: []PlannedIn{}, Changed: []string{}, Removed: []string{}},
		specs: map[string]*Spec{}, fields: map[string][]string{}, stuck: map[string]bool{},
	}
	d.graph()
	if len(d.refused) > 0 { // the rest needs a graph
		return nil, d.refused
	}
	wide := d.compareWide()
	for _, spec := range now.SubTasks {
		t, was := s.byID[spec.ID], s.Revision.Plan.spec(spec.ID)
		switch {
		case t == nil:
			d.Added = append(d.Added, PlannedIn{
				ID: spec.ID, Subject: spec.Subject, DependsOn: append([]string{}, spec.DependsOn...),
				Model: spec.ModelsIn(now, s.Boulder.Model, s.Boulder.Effort),
			})
			d.reachable(spec)
		case was == nil || t.Status == SubTaskSuperseded:
			d.refuse("give the new one another id", "there was a sub-task %q, which is not done any more", t.ID)
		default:
			d.compare(t, *was, spec)
		}
	}
	for _, spec := range s.Revision.Plan.SubTasks {
		if t := s.byID[spec.ID]; d.specs[spec.ID] == nil && t != nil && t.Status != SubTaskSuperseded {
			d.remove(t)
		}
	}
	if !wide && len(d.Added)+len(d.Changed)+len(d.Removed)+len(d.refused) == 0 {
		return nil, nil
	}
	switch b := &s.Boulder; {
	case b.Loop != nil:
		d.refuse("begin another one with `manager loop`", "boulder %s is a loop, which has no plan", ShortID(b.ID))
	case b.Replan != nil:
		d.refuse("edit what is there once it is adopted or declined", "a new plan for a part of boulder %s is being made", ShortID(b.ID))
	}
	if len(d.refused) == 0 {
		d.Plan.Plan = *now
		if _, _, err := s.described(&Event{}, d.PlanEdited); err != nil {
			d.refuse("correct that", "%v", err)
		}
	}
	return &d.PlanEdited, d.refused
}

// edit is a plan being compared with the current one.
type edit struct {
	PlanEdited
	s       *State
	now     *Plan
	specs   map[string]*Spec    // of now
	fields  map[string][]string // of sub-tasks: in what they differ
	stuck   map[string]bool     // memo of [edit.cannotComplete]
	refused []Refusal
}

func (d *edit) refuse(do, what string, args ...any) {
	d.refused = append(d.refused, Refusal{What: fmt.Sprintf(what, args...), Do: do})
}

// graph refuses what package taskledger refuses in a file, for plans from elsewhere.
func (d *edit) graph() {
	nodes := make([]dag.Node, len(d.now.SubTasks))
	for i, spec := range d.now.SubTasks {
		nodes[i], d.specs[spec.ID] = dag.Node{ID: spec.ID, DependsOn: spec.DependsOn}, &d.now.SubTasks[i]
		if spec.ID == "" {
			d.refuse("give it one", "a sub-task of the plan has no id")
		}
	}
	if len(nodes) == 0 {
		d.refuse("keep at least one", "the plan has no sub-tasks")
	}
	for _, f := range dag.Check(nodes) {
		d.refuse("correct its id or depends_on",
			"sub-task %q can never run: its id is taken, or its dependencies are unknown, named twice or a cycle", nodes[f.Node].ID)
	}
}

// compareWide takes up what differs, and refuses what of the whole plan stays as the boulder began with it.
func (d *edit) compareWide() (differs bool) {
	c := ComparePlans(&d.s.Revision.Plan, d.now)
	for _, p := range c.SubTasks {
		for _, f := range p.Fields {
			d.fields[p.ID] = append(d.fields[p.ID], f.Field)
		}
	}
	for _, f := range c.Fields {
		name, _, _ := strings.Cut(f.Field, ".")
		differs = differs || name != "sub_tasks" && name != "request" // only their order
		if slices.Contains([]string{"task", "isolation", "integration_gates", "scope", "generated"}, name) {
			d.refuse("put it back, or run the plan as a new boulder", "%s of a plan that has begun stays as it was", name)
		}
	}
	for _, row := range d.now.Request {
		if row.Owner != "" && d.specs[row.Owner] == nil {
			d.refuse("name the sub-task that does it, or none", "row %q of the request is owned by %q, which is not in the plan", row.ID, row.Owner)
		}
	}
	return differs || len(c.Request)+len(c.Questions) > 0
}

// compare looks at what differs of a sub-task, also by what the plan says for those that say nothing themselves.
func (d *edit) compare(t *SubTask, was, now Spec) {
	fields, old := d.fields[t.ID], &d.s.Revision.Plan
	alone, live := len(fields) > 0, d.s.atWork(t.ID)
	if cmp.Or(was.Model, old.Model) != cmp.Or(now.Model, d.now.Model) {
		fields = append(fields, "model")
	}
	if cmp.Or(was.Effort, old.Effort) != cmp.Or(now.Effort, d.now.Effort) {
		fields = append(fields, "effort")
	}
	if len(was.DoneWhen)+len(now.DoneWhen) == 0 && !live && !slices.Equal(old.DoneWhen, d.now.DoneWhen) {
		fields = append(fields, "done_when")
	}
	text := slices.ContainsFunc(fields, func(f string) bool {
		f, _, _ = strings.Cut(f, ".")
		return !slices.Contains([]string{"gates", "no_worse", "model", "effort", "priority", "budget"}, f)
	})
	switch graph := slices.Contains(fields, "depends_on"); {
	case len(fields) == 0:
		return
	case t.done():
		if alone && (t.Fresh == nil || t.Fresh.Spec != SpecOf(d.now, t.ID)) { // else the user keeps the result
			d.refuse(fmt.Sprintf("`manager redo %s` does it again as the file says; or put it back as it was", t.ID), "sub-task %q is %s", t.ID, t.Status)
		}
		return
	case live && text:
		d.refuse(fmt.Sprintf("`manager cancel %s`, then `manager retry %[1]s` begins it again as the file says; or put it back as it was", t.ID),
			"sub-task %q is under way", t.ID)
		return
	case graph && (t.Parked || t.Status == SubTaskInProgress):
		for _, id := range now.DependsOn {
			if on := d.s.byID[id]; on == nil || !on.Status.satisfies() {
				d.refuse("leave that out of its depends_on", "sub-task %q has begun, and cannot wait for %q now", t.ID, id)
				return
			}
		}
	case graph:
		d.reachable(now)
	}
	d.Changed = append(d.Changed, t.ID)
}

// done reports whether a sub-task has a result, or had one that may stand.
func (t *SubTask) done() bool { return t.Status.satisfies() || t.Reuse != "" }

func (d *edit) remove(t *SubTask) {
	switch {
	case t.done():
		d.refuse("put it back", "sub-task %q is %s, so it cannot go", t.ID, t.Status)
	case t.Generation > 0:
		d.refuse(fmt.Sprintf("put it back; `manager cancel %s` ends it", t.ID), "sub-task %q is being redone, so it cannot go", t.ID)
	case d.s.atWork(t.ID):
		d.refuse(fmt.Sprintf("`manager cancel %s` ends it first", t.ID), "sub-task %q is under way, so it cannot go", t.ID)
	default:
		d.Removed = append(d.Removed, t.ID)
	}
}

// reachable refuses a sub-task that depends on one that can never complete.
func (d *edit) reachable(spec Spec) {
	for _, id := range spec.DependsOn {
		if on := d.s.byID[id]; on != nil && d.cannotComplete(id) { // a new one is refused itself
			d.refuse(fmt.Sprintf("`manager retry %s` first, if it is to be done after all, or leave it out", id),
				"sub-task %q depends on %q, which is %s", spec.ID, id, on.Status)
		}
	}
}

// cannotComplete reports whether a sub-task of the new plan can never complete as things are.
func (d *edit) cannotComplete(id string) bool {
	if stuck, known := d.stuck[id]; known {
		return stuck
	}
	t := d.s.byID[id]
	stuck := t != nil && (t.Status == SubTaskFailed || t.Status == SubTaskCancelled) ||
		(t == nil || !t.Status.satisfies()) && slices.ContainsFunc(d.specs[id].DependsOn, d.cannotComplete)
	d.stuck[id] = stuck
	return stuck
}

func (s *State) planEdited(e *Event, b PlanEdited) error {
	switch {
	case s.Boulder.Status != Running && s.Boulder.Status != Paused, len(s.SubTasks) == 0:
		return fmt.Errorf("boulder is %s with %d sub-tasks", s.Boulder.Status, len(s.SubTasks))
	case b.Plan.Number != s.Boulder.Revision+1:
		return fmt.Errorf("plan revision %d does not follow %d", b.Plan.Number, s.Boulder.Revision)
	}
	edit, refused := s.Edit(&b.Plan.Plan)
	switch {
	case len(refused) > 0:
		return errors.New(refused[0].String())
	case edit == nil, !slices.Equal(edit.Changed, b.Changed), !slices.Equal(edit.Removed, b.Removed), len(edit.Added) != len(b.Added):
		return errors.New("the edit changes something else")
	}
	added, changed, err := s.described(e, b)
	if err != nil {
		return err
	}
	for _, id := range b.Removed {
		s.unqueue(s.open[id])
		s.byID[id].EndSeq = e.Seq
		s.setSubTask(e, s.byID[id], SubTaskSuperseded, fmt.Sprintf("removed from the plan by the user (revision %d)", b.Plan.Number))
		if s.Boulder.WaitsFor == id {
			s.Boulder.Reason = fmt.Sprintf("sub-task %q is not in the plan any more", id)
		}
	}
	for _, n := range changed {
		s.redescribe(e, n)
		s.switchModel(e, n.ID, b.Later)
	}
	s.adopt(b.Plan)
	s.add(e, added)
	for _, n := range changed {
		for _, id := range n.DependsOn {
			addTo(&s.byID[id].Blocks, n.ID)
		}
	}
	s.requeueAll(e)
	return nil
}

// described builds the records of what an edit adds and changes, and leaves the state unchanged.
func (s *State) described(e *Event, b PlanEdited) (added, changed []*SubTask, err error) {
	for _, spec := range b.Plan.Plan.SubTasks {
		t, rev, hints := s.byID[spec.ID], b.Plan, []string(nil)
		switch {
		case t == nil:
			t = &SubTask{Status: SubTaskPending, Position: len(s.SubTasks) + len(added) + 1, CreatedAt: e.Time, UpdatedAt: e.Time}
			added = append(added, t)
		case slices.Contains(b.Changed, t.ID):
			if t = new(*t); s.atWork(t.ID) {
				rev.Plan.DoneWhen = s.Revision.Plan.DoneWhen // as in its brief
			}
			if was := s.Revision.Plan.spec(t.ID); slices.Equal(was.Gates, spec.Gates) && slices.Equal(was.NoWorse, spec.NoWorse) {
				hints = t.GateHints // the user has not touched its gates
			}
			changed = append(changed, t)
		default:
			continue
		}
		approved := func(gate string) bool { return !slices.Contains(hints, gate) }
		if err := s.specify(t, rev, spec, approved, s.Boulder.Model); err != nil {
			return nil, nil, err
		}
	}
	return added, changed, nil
}

func (s *State) atWork(id string) bool {
	o := s.open[id]
	return o != nil && o.Attempt.Status.Live()
}

// redescribe replaces the record of a sub-task that an edit describes otherwise. What the plan leaves as it was, and an
// order or a redo has changed, stays, as do the links to what it depends on now.
func (s *State) redescribe(e *Event, n *SubTask) {
	t, was := s.byID[n.ID], s.Revision.Plan.spec(n.ID)
	if was.Budget == nil && n.Budget == nil || was.Budget != nil && n.Budget != nil && *was.Budget == *n.Budget {
		n.Budget = t.Budget
	}
	if was.ExpectsChanges == n.ExpectsChanges {
		n.ExpectsChanges = t.ExpectsChanges
	}
	for _, g := range t.NoGates {
		n.NoWorse = without(n.NoWorse, []string{g.Command})
	}
	gates := func(t *SubTask) []string { return slices.Concat(t.Gates, t.NoWorse, t.Lint) }
	if has := gates(n); !slices.Equal(has, gates(t)) {
		isGate := func(g Gate) bool { return slices.Contains(has, g.Command) }
		n.Program, n.GateRuns = "", filter(t.GateRuns, isGate)
		if o := s.open[n.ID]; o != nil && o.Turn != nil && o.Turn.Evidence != nil {
			o.Turn.Evidence = new(*o.Turn.Evidence)
			o.Turn.Evidence.Gates = filter(o.Turn.Evidence.Gates, isGate)
		}
	}
	if s.Boulder.Isolated() && t.From != "" && len(without(n.DependsOn, t.DependsOn)) > 0 {
		// Earlier attempts began without what it depends on now: the next one begins at the tip, without their changes.
		n.From, n.Work, n.Snapshot, n.Tree, n.Since = "", "", "", "", t.Attempts
		if s.open[n.ID] != nil {
			n.Since--
		}
	}
	for _, id := range t.DependsOn {
		s.byID[id].Blocks = without(s.byID[id].Blocks, []string{n.ID})
	}
	n.Blocks, n.UpdatedAt = t.Blocks, e.Time // others of the edit may have changed theirs
	*t = *n
}

// switchModel gives the open attempt the model and agent of its sub-task: at once, unless its turn is at work.
func (s *State) switchModel(e *Event, id string, later []string) {
	o := s.open[id]
	switch {
	case o == nil:
	case o.Attempt.Status == AttemptQueued: // also if it follows a turn that a retry has just ended
		o.Attempt.use(o.SubTask)
		o.Attempt.Agent = o.SubTask.Agent
	case !slices.Contains(later, id):
		s.takeModel(e, o)
	}
}

// takeModel has the next prompt of a live attempt go to the model that its sub-task has now, once that does not cool down. Of
// the slots of that model it gets the last.
func (s *State) takeModel(e *Event, o *Open) {
	a := o.Attempt
	if a.Model == o.SubTask.Model {
		a.use(o.SubTask)
		return
	}
	s.instead(o)
	a.SlotSeq = e.Seq
	s.sortLive()
	if a.Status == AttemptMonitoring {
		return
	}
	delayed := a.Delayed() // it still is until it is at work: it may have to wait for a slot
	a.recovered()
	if delayed {
		a.NotBefore = e.Time
	}
	if cool := s.Boulder.Cooldowns[a.Model]; e.Time.Before(cool.Until) {
		a.Reason, a.NotBefore = cool.Reason, cool.Until
	}
}

// unqueue takes back an attempt that has not begun; nil: there is none.
func (s *State) unqueue(o *Open) {
	if o == nil {
		return
	}
	s.removeOpen(o)
	s.Attempts = without(s.Attempts, []*Attempt{o.Attempt})
	o.SubTask.Attempts--
}

// requeueAll queues, frees or takes back what waits, after an edit of what it depends on, and puts the queues in the order
// of [Restore]: models and priorities may be others.
func (s *State) requeueAll(e *Event) {
	for freed := true; freed; {
		freed = false
		for _, t := range s.SubTasks {
			if t.Status == SubTaskBlocked && !t.Parked && s.impossibleDependency(t) == nil {
				s.setSubTask(e, t, SubTaskPending, "")
				freed = true
			}
		}
	}
	for _, t := range s.SubTasks {
		o, ready := s.open[t.ID], s.ready(t)
		switch {
		case t.Status != SubTaskPending:
		case o == nil && ready:
			s.begin(e, t)
		case o != nil && !ready:
			s.unqueue(o)
		}
	}
	s.sortQueues()
}

// sortQueues puts what is queued where it belongs, after models or priorities have changed.
func (s *State) sortQueues() {
	s.queues = map[string][]*Open{}
	for _, a := range s.Attempts {
		if a.Status == AttemptQueued {
			s.queue(s.open[a.SubTaskID])
		}
	}
}

// Unnamed returns the sub-tasks without a result for which neither they nor the plan name what is set: a model or an effort.
func (s *State) Unnamed(model Models, effort string) (ids []string) {
	for _, t := range s.SubTasks {
		if t.Status.satisfies() || t.Status == SubTaskSuperseded {
			continue
		}
		noModel, noEffort := s.unnamed(t)
		if noModel && model != "" || noEffort && effort != "" {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// unnamed reports whether neither a sub-task nor the plan names a model, or an effort.
func (s *State) unnamed(t *SubTask) (model, effort bool) {
	spec, plan := s.Revision.Plan.spec(t.ID), &s.Revision.Plan
	if spec == nil {
		return false, false
	}
	return cmp.Or(spec.Model, plan.Model) == "", cmp.Or(spec.Effort, plan.Effort) == ""
}

// take has a sub-task run with the models and the effort of its plan, or of the boulder where that names none: with the first,
// and with the others while that cannot be used. Of the same models, the one in use stays.
func (s *State) take(t *SubTask, spec *Spec, plan *Plan, model Models) {
	models := spec.ModelsIn(plan, model, "").Or(s.Boulder.Fallback).With(spec.effortIn(plan, s.Boulder.Effort))
	if t.Models == "" || t.Models.Bare() != models.Bare() {
		t.Model = models.First()
	}
	t.Effort, t.Models = models.Effort(t.Model), ""
	if len(models.All()) > 1 {
		t.Models = models
	}
}

func (s *State) modelSet(e *Event, b ModelSet) error {
	if b.Model == "" && b.Effort == "" {
		return errors.New("no model and no effort is named")
	}
	s.Boulder.Model, s.Boulder.Effort = cmp.Or(b.Model, s.Boulder.Model), cmp.Or(b.Effort, s.Boulder.Effort)
	b.SubTasks = append([]string{}, s.Unnamed(b.Model, b.Effort)...)
	for _, id := range b.SubTasks {
		t := s.byID[id]
		s.take(t, s.Revision.Plan.spec(id), &s.Revision.Plan, s.Boulder.Model)
		t.UpdatedAt = e.Time
		s.switchModel(e, id, b.Later)
	}
	s.requeueAll(e)
	e.Body = b
	return nil
}
