package boulder

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Reason says why a completed sub-task is out of date, or was done again.
type Reason string

const (
	ReasonAsked  Reason = "asked"        // the user asked for it
	ReasonEdited Reason = "edited"       // its text, gates or constraints in the plan file changed
	ReasonModel  Reason = "model"        // its model or agent in the plan file changed
	ReasonInput  Reason = "input"        // results that it builds on changed, or an answer differs from its choice
	ReasonAnswer Reason = "answer"       // a question of the plan on which it depends was answered differently
	ReasonBase   Reason = "base moved"   // later commits changed files that it changed
	ReasonGate   Reason = "gate red now" // one of its gates is red on the present files
)

// Files says what happens to a sub-task's changes when it is done again.
type Files string

const (
	FilesKeep   Files = "keep"   // they stay, and the next session finds them
	FilesRevert Files = "revert" // they are reverted first
)

// Reuse is the state of the result of a completed sub-task while its dependencies are redone.
type Reuse string

const (
	// ReusePerhaps: the result stands if its dependencies' results stay the same; otherwise the sub-task is redone.
	ReusePerhaps Reuse = "perhaps"
	// ReuseKept: the result stands. In an isolated boulder it is put onto the new trunk without an agent.
	ReuseKept Reuse = "kept"
)

// Redoing is a redo that is not ordered yet.
type Redoing struct {
	Order Order    // not for the boulder if Anew is set: Redone.SubTasks then says what a fork redoes
	After *State   // the resulting state; if Anew is set, as it is
	Moved []string // see [Redone]
	Paths []string // project files that would be reverted
	Why   string   // why changes are kept instead of reverted; else empty
	Anew  string   // why only a new boulder can do it, a [Fork]; else empty
}

// Redone begins a new generation of completed sub-tasks, as the user ordered. Dependents wait to see whether the
// results change. A finished boulder is paused.
type Redone struct {
	SubTasks     []string            `json:"sub_tasks"`
	Reasons      map[string][]Reason `json:"reasons,omitempty"` // by sub-task
	Files        Files               `json:"files"`
	NoDependents bool                `json:"no_dependents,omitempty"` // dependents' results stand in any case

	Perhaps []string `json:"perhaps,omitempty"` // dependents, in plan order; set by Apply, as Moved and Tip are
	Moved   []string `json:"moved,omitempty"`   // others whose results are put onto the new trunk (isolated boulders)
	Tip     string   `json:"tip,omitempty"`     // where the new trunk begins (isolated boulders)

	Plan *PlanRevision `json:"plan,omitempty" log:"only"` // the new plan; nil: unchanged
	// Patches are the earlier changes of the sub-tasks and their dependents, for the next brief.
	Patches map[string]string `json:"patches,omitempty" log:"only"`
}

// Kept says that the user accepts a sub-task's result as up to date.
type Kept struct {
	SubTaskID string `json:"sub_task_id"`
	Fresh
}

// Fresh is what the user compared a result with when accepting it.
type Fresh struct {
	Spec string `json:"spec,omitempty"` // [SpecOf] by the plan file
	Head string `json:"head,omitempty"` // commit of the project
}

// Earlier is the outcome of a sub-task's previous generation.
type Earlier struct {
	Summary string   `json:"summary,omitempty"`
	Patch   string   `json:"patch,omitempty"`
	Files   Files    `json:"files,omitempty"`
	Reasons []Reason `json:"reasons,omitempty"`
}

// TreeChange is a change of the project's files between two snapshots.
type TreeChange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// SpecOf hashes a sub-task's spec with the plan's constraints, criteria and model; empty if it is not in the plan.
func SpecOf(p *Plan, id string) string {
	s := p.spec(id)
	if s == nil {
		return ""
	}
	return textOf(p, *s) + modelOf(p, *s)
}

func (p *Plan) spec(id string) *Spec {
	if i := slices.IndexFunc(p.SubTasks, func(s Spec) bool { return s.ID == id }); i >= 0 {
		return &p.SubTasks[i]
	}
	return nil
}

func textOf(p *Plan, s Spec) string {
	s.Model, s.Effort, s.Agent, s.Priority, s.Budget, s.DependsOn = "", "", "", "", nil, nil
	text, err := json.Marshal([]any{s, p.Constraints, p.DoneWhen})
	if err != nil {
		panic(err) // a Spec holds nothing that JSON cannot say
	}
	return hashOf(strings.TrimSpace(string(text)))
}

func modelOf(p *Plan, s Spec) string {
	text := string(s.Model) + "\x00" + string(p.Model) + "\x00" + s.Agent
	if effort := s.effortIn(p, ""); effort != "" {
		text += "\x00" + effort
	}
	return hashOf(text)
}

// Edited returns the differences of a sub-task between two plans, none if a plan lacks it.
func Edited(was, now *Plan, id string) (reasons []Reason) {
	before, after := was.spec(id), now.spec(id)
	if before == nil || after == nil {
		return nil
	}
	if textOf(was, *before) != textOf(now, *after) {
		reasons = append(reasons, ReasonEdited)
	}
	if modelOf(was, *before) != modelOf(now, *after) {
		reasons = append(reasons, ReasonModel)
	}
	return reasons
}

// StaleInput reports whether inputs of a completed sub-task changed: dependencies' results or the user's answers.
func (s *State) StaleInput(t *SubTask) bool {
	return s.inputs(t) != t.Inputs || slices.ContainsFunc(t.SettledSince(t.EndSeq), func(b Blocker) bool {
		return b.Status == BlockerAnswered && b.Answer != "" && b.Answer != b.ChosenOption
	})
}

// inputs returns a hash of the results that a sub-task builds on.
func (s *State) inputs(t *SubTask) string {
	var all []string
	for _, id := range t.DependsOn {
		d := s.byID[id]
		all = append(all, id, string(d.Status), d.Output, d.Change)
	}
	return hashOf(strings.Join(all, "\x00"))
}

// StaleAnswer reports whether a question of the plan on which a completed sub-task depends has another answer now.
func (s *State) StaleAnswer(t *SubTask) bool { return s.rests(t) != t.Rests }

// rests returns a hash of the answers on which a sub-task depends, or "" if there are none.
func (s *State) rests(t *SubTask) string {
	var all []string
	for _, q := range s.Questions(t) {
		all = append(all, q.ID, q.Answer)
	}
	if len(all) == 0 {
		return ""
	}
	return hashOf(strings.Join(all, "\x00"))
}

// changed records the changes of a turn. No further change on top of kept earlier ones counts as the same change.
func (t *SubTask) changed(seq uint64, d Diff) {
	switch {
	case d.Unavailable != "":
		t.Change = fmt.Sprintf("unknown at %d", seq)
	case d.Hash != "" || t.Earlier == nil || t.Earlier.Files != FilesKeep:
		t.Change = d.Hash
	}
}

// Closed reports whether a boulder is over for good, because its external engine does not restart it.
func (b *Boulder) Closed() bool { return b.Engine != "" && b.Status.Terminal() }

// ErrAnew is in the chain of errors about a redo that only a new boulder can do, see [Fork].
var ErrAnew = errors.New("a new boulder has to redo it")

// Redoable returns why the boulder cannot redo sub-tasks now, or nil.
func (s *State) Redoable(ids []string) error {
	b, anew := &s.Boulder, ""
	switch {
	case b.Closed():
		return fmt.Errorf("boulder %s is over, and %s begins it no more: start another one", ShortID(b.ID), b.Engine)
	case b.Loop != nil && !b.Status.Terminal():
		return fmt.Errorf("boulder %s is a loop that is not over: cancel it first, or begin another one with `manager loop`", ShortID(b.ID))
	case b.Loop != nil:
		anew = fmt.Sprintf("boulder %s is a loop", ShortID(b.ID))
	case b.Status == Cancelled:
		anew = fmt.Sprintf("boulder %s was cancelled", ShortID(b.ID))
	case b.Trunk.Landed != nil:
		anew = fmt.Sprintf("the results of boulder %s have left it (%s)", ShortID(b.ID), b.Trunk.Landed.How)
	case b.Replan != nil:
		return fmt.Errorf("a new plan is being made: try again when it is there")
	case b.Trunk.Integrating != nil:
		return fmt.Errorf("the result of %q is being integrated: try again in a moment", b.Trunk.Integrating.SubTaskID)
	}
	for _, o := range s.Live() { // while the boulder is paused it is not completed: a trunk cut below it would lose it
		if o.SubTask.Integrated != "" {
			return fmt.Errorf("the result of %q is integrated, and not recorded as complete yet: `manager resume` does that", o.SubTask.ID)
		}
	}
	for i, id := range ids {
		t, err := s.known(id)
		switch {
		case err != nil:
			return err
		case slices.Contains(ids[:i], id):
			return fmt.Errorf("sub-task %q is named twice", id)
		case t.Status == SubTaskSkipped && !b.Status.Terminal():
			return fmt.Errorf("sub-task %q is skipped: what is skipped can be redone once the boulder is over", id)
		case t.Status == SubTaskSuperseded:
			return fmt.Errorf("sub-task %q is %s, so there is nothing to redo", id, t.Status)
		case t.Status != SubTaskCompleted && b.Status.Terminal():
			anew = cmp.Or(anew, fmt.Sprintf("boulder %s is over, and sub-task %q is %s", ShortID(b.ID), id, t.Status))
		case t.Status != SubTaskCompleted:
			return fmt.Errorf("sub-task %q is %s, and only what is completed can be redone: use `manager retry %[1]s`", id, t.Status)
		case t.Attempts == 0:
			anew = cmp.Or(anew, fmt.Sprintf("sub-task %q was taken over from boulder %s", id, ShortID(b.ForkOf.BoulderID)))
		}
	}
	if anew != "" {
		if only := s.onTipOnly(ids); b.Trunk.Landed == nil && len(only) > 0 {
			return fmt.Errorf("%s, and a new boulder, which would redo it, begins with your files: they do not have the results of %s yet. "+
				"`manager land %s` brings them there; then redo it", anew, strings.Join(only, ", "), ShortID(b.ID))
		}
		return fmt.Errorf("%s: %w", anew, ErrAnew)
	}
	dependents := s.dependentsOfAll(ids)
	off, _, _ := s.offTrunk(ids, dependents)
	for _, t := range s.dependentsOfAll(append(idsOf(off), ids...)) {
		why := "which builds on it"
		if !slices.Contains(dependents, t) {
			why = "which builds on what comes after it on the tip"
		}
		if t.Status == SubTaskInProgress || t.Parked {
			return fmt.Errorf("sub-task %q, %s, is %s: wait for it, or cancel it first", t.ID, why, t.Status)
		}
	}
	return nil
}

// onTipOnly returns the sub-tasks whose results a fork would take over although they changed files on the trunk alone.
func (s *State) onTipOnly(redone []string) (ids []string) {
	results := s.Inherited(redone)
	for _, t := range s.SubTasks {
		if _, kept := results[t.ID]; kept && s.Boulder.Isolated() && t.Attempts > 0 && len(t.Files) > 0 {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// Inherited returns the results that a fork takes over if it redoes sub-tasks: those of completed others that depend on
// such sub-tasks only, and that were not dropped. It works in rounds, because a plan may list a sub-task before its dependencies.
func (s *State) Inherited(redone []string) map[string]Inherited {
	results := map[string]Inherited{}
	again := func(id string) bool { _, ok := results[id]; return !ok }
	for grown := true; grown; {
		grown = false
		for _, spec := range s.Revision.Plan.SubTasks {
			t := s.byID[spec.ID]
			if l := s.Boulder.Trunk.Landed; l != nil && l.How == LandedDropped && t.Attempts > 0 && len(t.Files) > 0 {
				continue
			}
			if again(t.ID) && !slices.Contains(redone, t.ID) && t.Status == SubTaskCompleted && !slices.ContainsFunc(spec.DependsOn, again) {
				results[t.ID] = Inherited{Summary: t.Summary, Output: t.Output, Files: t.Files, Baseline: t.Baseline}
				grown = true
			}
		}
	}
	return results
}

// dependentsOfAll returns all that build on the given sub-tasks, following completed, unfinished and parked ones.
func (s *State) dependentsOfAll(ids []string) (all []*SubTask) {
	for _, id := range ids {
		for _, t := range s.dependentsOf(s.byID[id], func(d *SubTask) bool {
			return d.Status == SubTaskCompleted || d.Unfinished() || d.Parked
		}) {
			if !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	return all
}

func (s *State) redone(e *Event, b Redone) error {
	if len(b.SubTasks) == 0 || b.Files != FilesKeep && b.Files != FilesRevert {
		return fmt.Errorf("%d sub-tasks are redone, and their changes are %q", len(b.SubTasks), b.Files)
	}
	if err := s.Redoable(b.SubTasks); err != nil {
		return err
	}
	if err := s.respecify(b); err != nil {
		return err
	}
	if s.Boulder.Status.Terminal() {
		s.Boulder.Status, s.Boulder.Reason, s.Boulder.Summary, s.Boulder.Answer = Paused, "sub-tasks are to be redone", "", ""
	}
	dependents := s.dependentsOfAll(b.SubTasks)
	moved, tip, tree := s.offTrunk(b.SubTasks, dependents)
	if l := &s.Boulder.Trunk; len(moved) > 0 && tip != l.Tip {
		l.Before, l.Tip, l.Tree = l.Tip, tip, tree
	}
	var waiting, perhaps []*SubTask
	for _, t := range slices.Clone(s.done) {
		reuse := ReusePerhaps
		switch {
		case slices.Contains(b.SubTasks, t.ID):
			reuse = ""
		case slices.Contains(moved, t) && !slices.Contains(dependents, t):
			reuse = ReuseKept
		case !slices.Contains(dependents, t):
			continue
		case b.NoDependents:
			reuse = ReuseKept
		}
		t.Earlier = &Earlier{Summary: t.Summary, Patch: b.Patches[t.ID], Files: b.Files, Reasons: b.Reasons[t.ID]}
		t.Reuse, t.Integrated, t.Conflicts, t.Unresolved = reuse, "", nil, 0
		t.TestedWith, t.Place = "", 0
		waiting = append(waiting, t)
		if slices.Contains(dependents, t) && reuse != "" {
			perhaps = append(perhaps, t)
		}
	}
	b.Perhaps, b.Moved, b.Tip = idsOf(perhaps), nil, s.Boulder.Trunk.Tip
	for _, t := range waiting {
		s.done, s.Root(t).Judged = without(s.done, []*SubTask{t}), 0
		s.setSubTask(e, t, SubTaskPending, "")
		switch {
		case t.Reuse == "":
			s.nextGeneration(t, b.Files)
		case !slices.Contains(dependents, t):
			b.Moved = append(b.Moved, t.ID)
		}
	}
	for _, t := range s.dependentsOfAll(idsOf(waiting)) {
		if o := s.Open(t.ID); o != nil { // it was queued
			s.finish(e, o, AttemptCancelled, "what it depends on is redone")
		}
		if t.Reuse == ReuseKept && !b.NoDependents && slices.Contains(dependents, t) { // by an earlier redo
			t.Reuse = ReusePerhaps
		}
	}
	for _, t := range waiting {
		if s.ready(t) && s.open[t.ID] == nil && t.Status == SubTaskPending {
			s.begin(e, t)
		}
	}
	s.Boulder.ReplansWanted = filter(s.Boulder.ReplansWanted, func(w Replanning) bool { return s.byID[w.SubTaskID].Status == SubTaskCompleted })
	e.Body = b
	return nil
}

// respecify adopts a plan with new specs of redone sub-tasks. Their dependencies must not change.
func (s *State) respecify(b Redone) error {
	if b.Plan == nil {
		return nil
	}
	if b.Plan.Number != s.Boulder.Revision+1 {
		return fmt.Errorf("plan revision %d does not follow %d", b.Plan.Number, s.Boulder.Revision)
	}
	var fresh []SubTask
	for _, spec := range b.Plan.Plan.SubTasks {
		t := s.byID[spec.ID]
		if t == nil || !slices.Contains(b.SubTasks, spec.ID) {
			continue
		}
		if !slices.Equal(spec.DependsOn, t.DependsOn) {
			return fmt.Errorf("sub-task %q depends on others than before: run the plan as a new boulder", spec.ID)
		}
		n := *t
		if err := s.specify(&n, *b.Plan, spec, func(string) bool { return true }, s.Boulder.Model); err != nil {
			return err
		}
		fresh = append(fresh, n)
	}
	for _, n := range fresh {
		*s.byID[n.ID] = n
	}
	s.adopt(*b.Plan)
	return nil
}

// offTrunk returns what leaves the trunk when it is cut before the first of ids and dependents, and its new tip and tree.
func (s *State) offTrunk(ids []string, dependents []*SubTask) (off []*SubTask, tip, tree string) {
	if tip = s.Boulder.Trunk.Base; tip == "" {
		return nil, "", ""
	}
	for _, t := range s.done { // in the order of the trunk
		switch {
		case t.Integrated == "":
		case len(off) > 0 || slices.Contains(ids, t.ID) || slices.Contains(dependents, t):
			off = append(off, t)
		default:
			tip, tree = t.Integrated, t.Snapshot
		}
	}
	return off, tip, tree
}

// nextGeneration resets a sub-task for another generation. Its attempts and their usage stay.
func (s *State) nextGeneration(t *SubTask, files Files) {
	t.Generation++
	t.Reuse, t.Revert, t.Earlier.Files = "", nil, files
	if files == FilesRevert {
		t.Since = t.Attempts
		if !s.Boulder.Isolated() && t.Snapshot != t.Tree {
			t.Revert = &TreeChange{From: t.Snapshot, To: t.Tree}
		}
	} else {
		t.ExpectsChanges = false // its changes are there already
	}
	t.Tries, t.Lost, t.Stalls, t.NeedsUser, t.LastResult, t.EndSeq, t.Track, t.Fresh = 0, 0, 0, 0, "", 0, nil, nil
	t.Summary, t.Output, t.Answer, t.Remaining, t.Failures, t.Before, t.PartialSummary, t.PartialMet = "", "", "", nil, nil, "", "", nil
	t.Snapshot, t.Tree, t.GateRuns, t.Shared, t.Checkpoint = "", "", nil, false, nil
	t.From, t.Work, t.Repo = "", "", nil
	// Which the user may have set since:
	if model, effort := s.unnamed(t); model && s.Boulder.Model != "" || effort && s.Boulder.Effort != "" {
		s.take(t, s.Revision.Plan.spec(t.ID), &s.Revision.Plan, s.Boulder.Model)
	}
}

// begin queues a pending sub-task that nothing blocks any more, or completes it if its result stands.
func (s *State) begin(e *Event, t *SubTask) {
	onLine, files, reason := s.Boulder.Isolated() && t.Work != "", FilesKeep, Reason("")
	switch {
	case t.Reuse == ReusePerhaps && s.inputs(t) != t.Inputs:
		reason = ReasonInput
	case t.Reuse == ReusePerhaps && s.StaleAnswer(t):
		reason = ReasonAnswer
	case t.Reuse != "" && onLine && len(t.Unverified()) > 0:
		reason = ReasonGate
	case t.Reuse != "":
		t.Reuse = ReuseKept
	}
	switch {
	case reason != "":
		if s.Boulder.Isolated() {
			files = t.Earlier.Files
		}
		t.Earlier.Reasons = []Reason{reason}
		s.nextGeneration(t, files)
	case t.Reuse == ReuseKept && !onLine:
		t.EndSeq = e.Seq
		s.setSubTask(e, t, SubTaskCompleted, "")
		return
	}
	s.enqueue(e, t)
}

// reuse sets up an attempt that only puts a result that stands onto the trunk again.
func (o *Open) reuse(e *Event) {
	t := o.SubTask
	t.Reuse, t.Tries = "", 0 // it may conflict, and then needs tries
	o.Attempt.Status = AttemptMonitoring
	o.Turn.Kind, o.Turn.EndedAt, o.Turn.JudgedAt = TurnReuse, e.Time, e.Time
	o.Turn.Evidence = &Evidence{Diff: Diff{Tree: t.Tree, Commit: t.Work}, Gates: t.GateRuns}
	o.Turn.Verdict = &Verdict{Completed: true, Summary: t.Summary, OutputData: t.Output, Answer: t.Answer, Remaining: t.Remaining}
}

func (s *State) kept(_ *Event, b Kept) error {
	t, err := s.known(b.SubTaskID)
	switch {
	case err != nil:
		return err
	case t.Reuse == ReusePerhaps:
		t.Reuse = ReuseKept
	case t.Status != SubTaskCompleted:
		return fmt.Errorf("sub-task %q is %s, so it has no result to keep", t.ID, t.Status)
	}
	t.Fresh, t.Inputs, t.Rests = &b.Fresh, s.inputs(t), s.rests(t)
	return nil
}
