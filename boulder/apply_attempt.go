package boulder

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

func (s *State) starting(e *Event, o *Open, b Starting) error {
	if s.Boulder.Status != Running {
		return fmt.Errorf("boulder is %s", s.Boulder.Status)
	}
	if s.Boulder.Trunk.Trial {
		return fmt.Errorf("the gates are not tried yet")
	}
	reuse := o.SubTask.Reuse == ReuseKept
	if !reuse {
		s.Boulder.Attempts++
	}
	s.removeOpen(o)
	o.Attempt.Status, o.Attempt.Tag, o.Attempt.Turns = AttemptStarting, b.Tag, 1
	s.addOpen(o)
	o.Attempt.SlotSeq, o.Attempt.StartedAt = e.Seq, e.Time
	o.Turn = &Turn{AttemptRef: b.AttemptRef, Number: 1, Seq: e.Seq, Kind: TurnBrief, Prompt: b.Prompt}
	if o.Attempt.Attempt == 1 {
		s.giveBaseline(o.SubTask)
	}
	if o.SubTask.Status != SubTaskInProgress {
		s.setSubTask(e, o.SubTask, SubTaskInProgress, "")
	}
	if reuse {
		o.reuse(e)
	}
	if s.Boulder.Isolated() {
		o.SubTask.Slot = b.Slot
		return nil // changes by others do not appear in its slot
	}
	if begun := filter(s.SubTasks, func(t *SubTask) bool { return t.Status == SubTaskInProgress }); len(begun) > 1 {
		for _, t := range begun {
			t.Shared = true
		}
	}
	return nil
}

func (s *State) subTaskStart(_ *Event, o *Open, b SubTaskStart) error {
	o.Attempt.Status, o.Attempt.SessionID = AttemptExecuting, b.SessionID
	o.SubTask.Snapshot, o.SubTask.Repo = cmp.Or(o.SubTask.Snapshot, b.Snapshot), cmp.Or(o.SubTask.Repo, b.Repo)
	o.SubTask.From, o.SubTask.Revert, o.SubTask.Dir = cmp.Or(o.SubTask.From, b.From), nil, b.Dir
	s.addBaselines(o.SubTask, b.Baseline)
	return nil
}

func (s *State) turnSent(e *Event, o *Open, b TurnSent) error {
	switch {
	case o.Turn.Number != b.Turn:
		return fmt.Errorf("turn %d is not turn %d", b.Turn, o.Turn.Number)
	case b.MessageID == "":
		return fmt.Errorf("the prompt of turn %d of %q has no message id", b.Turn, b.SubTaskID)
	case b.Resume && o.Turn.MessageID == "":
		return fmt.Errorf("turn %d of %q was never sent, so there is nothing to resume", b.Turn, b.SubTaskID)
	case b.Resume && o.Turn.ResumeID != "" && o.Attempt.Troubles == 0: // after faults, which are counted, there may be more
		return fmt.Errorf("turn %d of %q had its one resume prompt", b.Turn, b.SubTaskID)
	case !b.Resume && o.Turn.MessageID != "":
		return fmt.Errorf("turn %d of %q was sent", b.Turn, b.SubTaskID)
	}
	if err := unanswered(o, o.Turn.Aside...); err != nil {
		return err
	}
	o.Attempt.Server = b.Server
	if b.Resume { // ToldUpTo stays as it is: a crash must not change the outcome
		o.Turn.ResumeID = b.MessageID
	} else {
		o.Turn.MessageID, o.Turn.SentAt, o.Turn.ToldUpTo = b.MessageID, e.Time, b.ToldUpTo
		if o.Attempt.Troubles == 0 { // the wait before a continuation is over
			o.Attempt.Reason, o.Attempt.NotBefore = "", time.Time{}
		}
	}
	if o.Attempt.RunningSince.IsZero() {
		o.Attempt.RunningSince = e.Time
	}
	return nil
}

func (s *State) effortMissing(_ *Event, o *Open, b EffortMissing) error {
	if o.Attempt.Model != b.Model || o.Attempt.Effort != b.Effort || b.Effort == "" || o.Attempt.NoEffort {
		return fmt.Errorf("attempt %d of %q is to run with %q", b.Attempt, b.SubTaskID, o.Attempt.Runs())
	}
	a := o.Attempt
	lacking := Instead{a.Runs(), fmt.Sprintf("it does not have the effort %s", b.Effort)}
	a.NoEffort, a.Instead = true, append(slices.Clip(a.Instead), lacking)
	return nil
}

func (s *State) progress(e *Event, b SubTaskProgress) error {
	o, err := s.at(b.AttemptRef, AttemptStarting, AttemptExecuting)
	if err != nil {
		return err
	}
	if o.Attempt.RunningSince.IsZero() && o.Turn.MessageID != "" { // resumed without a prompt
		o.Attempt.RunningSince = e.Time
	}
	o.Attempt.Seen = b.Usage
	if b.Checkpoint != nil {
		o.SubTask.Checkpoint, o.SubTask.UpdatedAt = b.Checkpoint, e.Time
	}
	return nil
}

// Bounds of [SubTask.Files] and [SubTask.Changes].
const (
	maxFiles   = 500
	maxChanges = 50
)

func (s *State) turnEnded(e *Event, o *Open, b TurnEnded) error {
	if o.Turn.Number != b.Turn {
		return fmt.Errorf("turn %d is not turn %d", b.Turn, o.Turn.Number)
	}
	o.Attempt.Status = AttemptMonitoring
	o.Attempt.recovered()
	s.regrown(e, o.Attempt.Model, b.Cooldown)
	o.Attempt.RunningSince = time.Time{}
	s.worked(o, b.Evidence.Duration)
	if o.Attempt.Idle++; b.Evidence.ToolCount > 0 {
		o.Attempt.Idle = 0
	}
	o.Attempt.Result = resultOf(&b.Evidence)
	o.Turn.Evidence, o.Turn.EndedAt = &b.Evidence, e.Time
	o.SubTask.GateRuns, o.SubTask.Tree, o.SubTask.Transcript = nil, b.Evidence.Diff.Tree, b.Evidence.Transcript
	o.SubTask.Work, o.SubTask.Integrated = cmp.Or(b.Evidence.Diff.Commit, o.SubTask.Work), ""
	o.SubTask.TestedWith, o.SubTask.Place = "", 0
	o.SubTask.changed(e.Seq, b.Evidence.Diff)
	o.SubTask.Changes = nil
	for _, f := range b.Evidence.Diff.Files {
		if f.Own && len(o.SubTask.Files) < maxFiles {
			addTo(&o.SubTask.Files, f.Path)
		}
		if (f.Own || b.Evidence.Diff.Commands) && len(o.SubTask.Changes) < maxChanges {
			o.SubTask.Changes = append(o.SubTask.Changes, f)
		}
	}
	return nil
}

func (s *State) gateRun(_ *Event, b GateRun) error {
	t, err := s.known(b.SubTaskID)
	switch {
	case err != nil:
		return err
	case b.Final && t.Status != SubTaskCompleted:
		return fmt.Errorf("sub-task %q is %s: its gates are not final", t.ID, t.Status)
	}
	if b.FlakySuspected {
		addTo(&t.Flaky, b.Command)
	}
	l, tree := &s.Boulder.Trunk, b.Tree
	if b.Final && b.NoWorse == "" {
		tree = l.Tree // of the tip; empty in place
	}
	if tree != "" && b.Passed && !l.Passed(b.Command, tree) {
		l.Green = append(l.Green, TreeGate{Command: b.Command, Tree: tree, Passed: true})
	}
	if b.Tree != "" {
		return nil
	}
	same := func(old Gate) bool { return old.Command == b.Command }
	t.GateRuns = append(slices.DeleteFunc(slices.Clone(t.GateRuns), same), b.Gate())
	return nil
}

const maxNewFacts = 30 // bounds [Boulder.NewFacts]; the oldest are dropped

func (s *State) judged(e *Event, o *Open, b Judged) error {
	if o.Turn.Number != b.Turn || o.Turn.Verdict != nil {
		return fmt.Errorf("turn %d of %q is not waiting for a verdict", b.Turn, b.SubTaskID)
	}
	o.Turn.Verdict, o.Turn.JudgedAt = &b.Verdict, e.Time
	s.Root(o.SubTask).Judged++
	o.Attempt.recovered()
	s.regrown(e, s.Boulder.Ledger(), b.Cooldown)
	o.SubTask.Stalls, o.SubTask.NeedsUser = b.Stalls, b.NeedsUser
	if !b.Verdict.Completed && o.SubTask.Reconciling() != nil {
		o.SubTask.Unresolved++
	}
	if v := &b.Verdict; !v.Completed && !v.JudgeUnavailable {
		o.SubTask.PartialSummary, o.SubTask.PartialMet = v.Summary, nil
		for _, c := range v.Criteria {
			if c.Met {
				o.SubTask.PartialMet = append(o.SubTask.PartialMet, c.Criterion)
			}
		}
	}
	addTo(&s.Boulder.NewFacts, b.Verdict.NewFacts...)
	s.Boulder.NewFacts = s.Boulder.NewFacts[max(0, len(s.Boulder.NewFacts)-maxNewFacts):]
	return nil
}

// bookRunningTurn books a running turn's time, and keeps its usage so far: a runner that resumes it counts from zero.
func (s *State) bookRunningTurn(o *Open, at time.Time) {
	a := o.Attempt
	a.Spent, a.Seen = a.Spent.Add(a.Seen), Usage{}
	if !a.RunningSince.IsZero() {
		s.worked(o, max(0, at.Sub(a.RunningSince)))
		a.RunningSince = time.Time{}
	}
}

func (s *State) worked(o *Open, d time.Duration) {
	o.Attempt.Worked += d
	o.SubTask.Worked += d
}

func (a *Attempt) recovered() { a.Troubles, a.Reason, a.NotBefore = 0, "", time.Time{} }

func (s *State) continuation(e *Event, o *Open, b Continuation) error {
	if o.Turn.Verdict == nil && len(b.Aside) == 0 || b.Turn != o.Turn.Number+1 {
		return fmt.Errorf("turn %d of %q cannot follow turn %d", b.Turn, b.SubTaskID, o.Turn.Number)
	}
	for _, id := range b.Aside {
		if !slices.ContainsFunc(o.SubTask.AwaitedBy(b.Attempt), func(awaited Blocker) bool { return awaited.ID == id }) {
			return fmt.Errorf("attempt %d of %q does not wait for an answer to %s", b.Attempt, b.SubTaskID, id)
		}
	}
	if err := unanswered(o, b.Aside...); err != nil {
		return err
	}
	s.dropIntegrating(o)
	s.takeModel(e, o)
	o.Attempt.Status, o.Attempt.Turns = AttemptExecuting, b.Turn
	if v := o.Turn.Verdict; v != nil {
		o.Attempt.Asked = hashOf(v.ContinuationPrompt)
	}
	o.Turn = &Turn{
		AttemptRef: b.AttemptRef, Number: b.Turn, Seq: e.Seq, Kind: TurnContinuation, Prompt: b.Prompt, Aside: b.Aside,
	}
	if !b.NotBefore.IsZero() {
		o.Attempt.NotBefore, o.Attempt.Reason = b.NotBefore, "a pause after turns without progress"
	}
	o.SubTask.track(b.Track)
	return nil
}

func (s *State) trouble(e *Event, o *Open, b Trouble) error {
	if !b.Uncounted {
		o.Attempt.Troubles++
	}
	s.bookRunningTurn(o, e.Time)
	o.Attempt.Reason, o.Attempt.NotBefore = b.Reason, b.NotBefore
	s.takeModel(e, o)
	return nil
}

func (t *SubTask) track(track json.RawMessage) {
	if len(track) > 0 {
		t.Track = track
	}
}

func (s *State) finish(e *Event, o *Open, status AttemptStatus, reason string) {
	s.bookRunningTurn(o, e.Time)
	s.dropIntegrating(o)
	o.Attempt.Status, o.Attempt.Reason, o.Attempt.EndedAt, o.Attempt.UpdatedAt = status, reason, e.Time, e.Time
	s.removeOpen(o)
}

func (s *State) retry(e *Event, o *Open, b Retry) error {
	if !b.Status.Terminal() || b.Status == AttemptCompleted || b.Next != b.Attempt+1 {
		return fmt.Errorf("attempt %d cannot become %s with attempt %d next", b.Attempt, b.Status, b.Next)
	}
	if err := unanswered(o); err != nil && b.Status != AttemptCancelled { // a cancelled attempt needs no answer
		return err
	}
	s.finish(e, o, b.Status, b.Reason)
	switch {
	case !b.Uncounted:
		o.SubTask.Tries++
		o.SubTask.LastResult = o.Attempt.Result
	case b.Status == AttemptLost:
		o.SubTask.Lost++
	}
	if b.Digest != "" {
		if b.Uncounted {
			o.SubTask.Before = b.Digest // the attempt did not fail
		} else {
			o.SubTask.Failures = append(slices.Clone(o.SubTask.Failures), b.Digest)
		}
	}
	o.SubTask.track(b.Track)
	s.enqueue(e, o.SubTask)
	return nil
}

func (s *State) subTaskDone(e *Event, b SubTaskDone) error {
	dropped := b.Status == SubTaskSkipped || b.Status == SubTaskCancelled
	check := s.endable
	if dropped {
		check = s.droppable
	}
	if err := check(b); err != nil {
		return err
	}
	t, o, reason := s.byID[b.SubTaskID], s.Open(b.SubTaskID), b.Summary
	if b.Completed {
		reason = ""
	}
	if o != nil {
		if !dropped && o.Attempt.Status.Live() && b.AttemptStatus != AttemptLost {
			t.Tries++
		}
		s.finish(e, o, b.AttemptStatus, reason)
	}
	if t.Summary, t.EndSeq = b.Summary, e.Seq; !dropped {
		t.Output = b.Output
	}
	s.setSubTask(e, t, b.Status, reason)
	if s.Boulder.WaitsFor == t.ID {
		s.Boulder.Reason = fmt.Sprintf("sub-task %q is %s", t.ID, b.Status)
	}
	if b.Status.satisfies() {
		b.Kept = s.release(e, t)
	} else {
		b.Blocked = s.block(e, t)
	}
	if b.Completed {
		s.completed(t, o.Turn)
	}
	e.Body = b
	return nil
}

// endable returns why an attempt may not end its sub-task this way, or nil.
func (s *State) endable(b SubTaskDone) error {
	o, err := s.at(b.AttemptRef)
	if err != nil {
		return err
	}
	switch {
	case !b.Status.Terminal() || !b.AttemptStatus.Terminal(),
		b.Completed != (b.Status == SubTaskCompleted), b.Completed != (b.AttemptStatus == AttemptCompleted):
		return fmt.Errorf("completed=%v does not go with status %s and attempt %s",
			b.Completed, b.Status, b.AttemptStatus)
	case b.Completed && o.Attempt.Status != AttemptMonitoring:
		return fmt.Errorf("attempt %d of %q is %s: it was not judged complete",
			b.Attempt, b.SubTaskID, o.Attempt.Status)
	}
	if !b.Completed {
		return nil
	}
	if t := o.SubTask; s.Boulder.Isolated() && t.Work != "" && t.Integrated == "" {
		return fmt.Errorf("the result of %q is not on the tip", t.ID)
	}
	if below := s.FirstOnTip(); below != nil && below.SubTask.Place < o.SubTask.Place { // a redo relies on the order
		return fmt.Errorf("the result of %q is below that of %q, and not complete", below.SubTask.ID, o.SubTask.ID)
	}
	if open := o.SubTask.OpenGates(o.Turn.Evidence.Gates, o.Turn.Evidence.NoServer); len(open) > 0 {
		return fmt.Errorf("sub-task %q cannot be completed: %s", b.SubTaskID, open[0])
	}
	return unanswered(o)
}

func (s *State) completed(t *SubTask, last *Turn) {
	t.Stalls = 0
	if last.Kind != TurnReuse {
		t.Inputs, t.Rests = s.inputs(t), s.rests(t)
		for _, b := range s.SettledSince(t, max(last.Seq, last.ToldUpTo)) {
			if b.PlanQuestion != "" {
				t.Rests = "without the answer to " + b.ID // which came too late for its agent
			}
		}
	}
	s.raiseBaseline(t, last.Evidence)
	v := cmp.Or(last.Verdict, &Verdict{})
	t.Remaining, t.Answer = v.Remaining, v.Answer
	if v.NeedReplan && len(s.Remainder(t.ID)) > 0 { // the remaining plan is wrong
		wish := Replanning{AttemptRef: AttemptRef{SubTaskID: t.ID}, Reason: v.ReplanReason}
		s.Boulder.ReplansWanted = append(slices.Clip(s.Boulder.ReplansWanted), wish)
	}
}

// release queues the dependents that waited only for this sub-task, and returns those whose results stand. It also
// unblocks direct and indirect dependents that nothing else blocks.
func (s *State) release(e *Event, t *SubTask) (kept []string) {
	for todo := []*SubTask{t}; len(todo) > 0; todo = todo[1:] {
		for _, id := range todo[0].Blocks {
			d := s.byID[id]
			if d.Status == SubTaskBlocked && !d.Parked && s.impossibleDependency(d) == nil {
				s.setSubTask(e, d, SubTaskPending, "")
				todo = append(todo, d)
			}
			if d.Status == SubTaskPending && s.open[id] == nil && s.ready(d) {
				s.begin(e, d)
				if d.Status == SubTaskCompleted {
					todo = append(todo, d)
				}
				if d.Status == SubTaskCompleted || d.Reuse == ReuseKept {
					kept = append(kept, id)
				}
			}
		}
	}
	return kept
}

// impossibleDependency returns a dependency because of which a sub-task can currently never run, or nil.
func (s *State) impossibleDependency(t *SubTask) *SubTask {
	for _, id := range t.DependsOn {
		if d := s.byID[id]; d != nil && d.neverSatisfies() {
			return d
		}
	}
	return nil
}

// block blocks all pending direct and indirect dependents of a failed sub-task, and returns their ids in plan order.
func (s *State) block(e *Event, failed *SubTask) []string {
	how := "failed"
	if failed.Status != SubTaskFailed {
		how = "was " + string(failed.Status)
	}
	reason := fmt.Sprintf("depends on %q, which %s", failed.ID, how)
	blocked := s.dependentsOf(failed, func(t *SubTask) bool { return t.Status == SubTaskPending })
	for _, t := range blocked {
		s.setSubTask(e, t, SubTaskBlocked, reason)
	}
	return idsOf(blocked)
}

// dependentsOf returns the direct and indirect dependents of a sub-task, following only those that counts accepts.
func (s *State) dependentsOf(t *SubTask, counts func(*SubTask) bool) []*SubTask {
	var all []*SubTask
	seen := map[string]bool{}
	for todo := []*SubTask{t}; len(todo) > 0; todo = todo[1:] {
		for _, id := range todo[0].Blocks {
			if d := s.byID[id]; !seen[id] && counts(d) {
				seen[id] = true
				all, todo = append(all, d), append(todo, d)
			}
		}
	}
	return all
}

// idsOf returns the ids in plan order.
func idsOf(subTasks []*SubTask) (ids []string) {
	for _, t := range slices.SortedFunc(slices.Values(subTasks), func(a, b *SubTask) int { return a.Position - b.Position }) {
		ids = append(ids, t.ID)
	}
	return ids
}
