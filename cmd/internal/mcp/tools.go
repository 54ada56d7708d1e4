package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/workspace"
)

func (s *server) plan(ctx context.Context, in planInput) ([]any, error) {
	if in.Boulder != "" || in.Comment != "" {
		return s.revise(ctx, in)
	}
	if strings.TrimSpace(in.Task) == "" {
		return nil, errors.New("the task is empty: say what to do")
	}
	return s.handOver(ctx, project.Request{Task: in.Task, Settings: boulder.Settings{AskPlan: true}})
}

// revise has the plan of a boulder that waits for approval changed, in the process that runs it or the background server.
func (s *server) revise(ctx context.Context, in planInput) ([]any, error) {
	comment := s.project.Clean("The comment", strings.TrimSpace(in.Comment))[0]
	if in.Boulder == "" || comment == "" || in.Task != "" {
		return nil, errors.New("a revision needs the boulder and a comment, and no task: the plan has the task in it")
	}
	done, err := s.project.Order(ctx, func(there *project.Access) (boulder.Snapshot, boulder.Order, error) {
		d, err := project.Get(ctx, there, in.Boulder)
		if err == nil && (!awaitsApproval(d) || !d.Boulder.AskPlan) {
			err = fmt.Errorf("no plan of yours waits in boulder %s: the tool plan makes one, and any other is the user's to revise", d.Boulder.ID)
		}
		return d, boulder.Order{Do: boulder.OrderRevise, Hash: d.Asked(), Text: comment}, err
	})
	if err != nil {
		return nil, err
	}
	if done.Holder.Runs(done.After.Boulder) {
		return []any{view.NewOrder(done)}, nil
	}
	return s.handOver(ctx, project.Request{Resume: done.After.Boulder.ID})
}

func (s *server) run(ctx context.Context, in runInput) ([]any, error) {
	req := project.Request{Task: in.Task}
	var warnings []yamlfile.Problem
	switch {
	case (strings.TrimSpace(in.Task) == "") == (in.Plan == nil || in.Plan == ""):
		return nil, errors.New("run needs a task or a plan, and not both: a plan has the task in it")
	case in.Plan != nil && in.Plan != "":
		given, err := planText(in.Plan)
		if err != nil {
			return nil, err
		}
		plan, doubts, err := s.project.CheckPlan("(given)", given)
		if err == nil {
			err = s.project.Criteria(nil).Check(plan)
		}
		if err == nil && len(plan.IntegrationGates)+len(plan.Generated) > 0 {
			err = errors.New("integration_gates and generated are commands for the whole project: leave them out, and the user can" +
				" put them into the configuration")
		}
		if err != nil {
			return nil, err
		}
		warnings = doubts
		req.Plan, req.GatesAsHints, req.AskPlan = plan, !s.project.Config().AllowModelGates, s.needsUser(plan)
	}
	return s.handOver(ctx, req, warnings...)
}

// planText returns a plan as the content of a plan file.
func planText(plan any) ([]byte, error) {
	if text, ok := plan.(string); ok {
		return []byte(text), nil
	}
	return json.Marshal(plan)
}

// needsUser reports whether a plan has gates that need the user's approval.
func (s *server) needsUser(plan *boulder.Plan) bool {
	return !s.project.Config().AllowModelGates && slices.ContainsFunc(plan.SubTasks, func(t boulder.Spec) bool {
		return len(t.Gates)+len(t.NoWorse) > 0
	})
}

// started is the output of the tools that begin or continue a boulder.
type started struct {
	view.Detached
	Warnings []yamlfile.Problem `json:"warnings,omitempty"` // of the given plan's gates
}

// handOver passes a request to the background server. New boulders are diverted: no user attends to their questions.
func (s *server) handOver(ctx context.Context, req project.Request, warnings ...yamlfile.Problem) (_ []any, err error) {
	if req.Resume == "" {
		req.Diverted = true
		if req.Model, err = s.project.Model(); err != nil {
			return nil, err
		}
	}
	id, pid, err := s.project.HandOver(ctx, req, s.start)
	if err != nil {
		return nil, err
	}
	s.last.Store(&id)
	return []any{started{view.Detached{Type: "detached", BoulderID: id, PID: pid}, warnings}}, nil
}

// named returns the boulder that is meant: without a name the agent's own, else the only one at work. A command's default could
// be any other of the user's.
func (s *server) named(ctx context.Context, ref string) (string, error) {
	if last := s.last.Load(); ref == "" && last != nil {
		return *last, nil
	}
	if ref != "" {
		return ref, nil
	}
	there, err := s.project.Dial(ctx)
	if err == nil {
		defer there.Close()
		if len(there.Holder.Running) == 1 {
			return there.Holder.Running[0], nil
		}
	}
	return "", errors.New("say which boulder is meant, with the boulder_id that run, plan or list returned")
}

func (s *server) look(
	ctx context.Context, ref string, of func(ctx context.Context, there *project.Access, d boulder.Snapshot) (any, error),
) ([]any, error) {
	ref, err := s.named(ctx, ref)
	if err != nil {
		return nil, err
	}
	made, err := project.Look(ctx, s.project, ref, of)
	if made == nil {
		return nil, err
	}
	return []any{made}, err
}

// list lets an agent that lost a boulder_id find its boulder.
func (s *server) list(ctx context.Context, _ struct{}) (items []any, err error) {
	there, err := s.project.Read(ctx)
	if err != nil {
		return nil, err
	}
	defer there.Close()
	all, err := there.Listing(ctx)
	for i := range all {
		if item := view.NewListItem(&all[i], there.Holder, time.Now()); item.ArchivedAt.IsZero() && len(items) < maxList {
			items = append(items, item)
		}
	}
	return items, err
}

func (s *server) status(ctx context.Context, in boulderInput) ([]any, error) {
	return s.look(ctx, in.Boulder, func(ctx context.Context, there *project.Access, d boulder.Snapshot) (any, error) {
		r, err := s.project.Recent(ctx, there, d)
		return view.NewStatus(r), err
	})
}

func (s *server) report(ctx context.Context, in boulderInput) ([]any, error) {
	return s.look(ctx, in.Boulder, func(ctx context.Context, there *project.Access, d boulder.Snapshot) (any, error) {
		return s.project.ReadReport(ctx, there, d)
	})
}

// waited is the output of `manager wait`, with the news.
type waited struct {
	view.Wait
	Resumable bool            `json:"resumable"`      // it does not continue by itself, and the tool resume continues it
	Plan      any             `json:"plan,omitempty"` // that waits for approval, as `manager plan` prints it
	Cursor    uint64          `json:"cursor"`         // number of the last event considered
	Events    []boulder.Event `json:"events"`         // the newest that are news, as `manager run` prints them
	stands    bool            // it does not continue by itself
}

const (
	waitLook  = 500 * time.Millisecond // between two reads
	maxEvents = 50
)

func (s *server) wait(ctx context.Context, in waitInput) ([]any, error) {
	long := time.Duration(min(cmp.Or(in.Seconds, maxWait), maxWait)) * time.Second
	waiting, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	w := &waited{Wait: view.Wait{Type: "wait", For: "news", Blocked: []string{}}, Cursor: in.Cursor, Events: []boulder.Event{}}
	var err error
	for last := range project.Tries(waiting, waitLook, long-waitLook) {
		_, err = s.look(ctx, cmp.Or(w.BoulderID, in.Boulder), func(ctx context.Context, there *project.Access, d boulder.Snapshot) (any, error) {
			return nil, s.take(ctx, w, there, d)
		})
		if last || err != nil && !temporary(err) || err == nil && (w.stands || w.Status.Terminal() || len(w.Events) > 0) {
			break
		}
	}
	switch {
	case w.BoulderID == "":
		return nil, cmp.Or(err, context.Cause(waiting))
	case temporary(err): // the next wait retries
		err = nil
	}
	return []any{w}, err
}

// temporary reports whether a state cannot be read now because a process is about to acquire or release it.
func temporary(err error) bool {
	return errors.Is(err, store.ErrHeld) || errors.Is(err, project.ErrNotServed) || errors.Is(err, project.ErrNotReady)
}

func (s *server) take(ctx context.Context, w *waited, there *project.Access, d boulder.Snapshot) error {
	w.BoulderID = d.Boulder.ID
	w.Take(d, there.Holder)
	w.stands = !w.Status.Terminal() && (w.Status == boulder.Paused || !there.Holder.Runs(d.Boulder))
	if w.stands {
		why, err := s.inTheWay(ctx, there, d)
		if err != nil {
			return err
		}
		w.Resumable = why == nil
	}
	switch {
	case !w.stands:
	case awaitsApproval(d):
		w.Plan = view.NewPlanJSON(&d.Revision.Plan, "")
		if !s.awaitsUser(d) {
			w.Reason = "the plan is made: the tool resume runs it"
		}
	case w.Resumable && w.Status != boulder.Paused:
		w.Reason = "no process runs it: the tool resume continues it"
	}
	events, err := there.Events(ctx, w.BoulderID, w.Cursor, 0)
	for _, e := range events {
		if e.Seq > d.Boulder.Seq { // newer than d
			break
		}
		if w.Cursor = e.Seq; news(e) {
			w.Events = append(w.Events, e.Shown())
		}
	}
	w.Events = w.Events[max(0, len(w.Events)-maxEvents):]
	return err
}

// awaitsApproval reports whether the plan of a boulder waits for approval.
func awaitsApproval(d boulder.Snapshot) bool { return d.Asked() != "" && d.Boulder.Replan == nil }

// awaitsUser reports whether that approval must be the user's. Without AskPlan the user was asked.
func (s *server) awaitsUser(d boulder.Snapshot) bool {
	return awaitsApproval(d) && (!d.Boulder.AskPlan || s.needsUser(&d.Revision.Plan))
}

// inTheWay says why the tool resume would continue nothing, and what the user can do; nil: it would.
func (s *server) inTheWay(ctx context.Context, there *project.Access, d boulder.Snapshot) (why, err error) {
	switch replan := d.Boulder.Replan; {
	case s.awaitsUser(d):
		return fmt.Errorf("the user has to agree to the plan of boulder %s, since its gates are commands that run on this"+
			" machine, or since it is theirs: ask them to type `manager resume %[1]s` in a terminal", d.Boulder.ID), nil
	case replan != nil && replan.Proposed != nil:
		return fmt.Errorf("the user has to agree to the new plan of boulder %s: ask them to type `manager resume %[1]s` in a"+
			" terminal, or to open `manager ui`", d.Boulder.ID), nil
	}
	recent, err := s.project.Recent(ctx, there, d)
	if err != nil {
		return nil, err
	}
	if r := s.project.Report(recent); r.Spent() {
		return fmt.Errorf("it would stop again at once (%s): ask the user to type, with limits that they think right, `%s`",
			cmp.Or(d.Boulder.Reason, "a budget is used up"), r.Resumed().Command), nil
	}
	return nil, nil
}

// news reports whether an event ends a wait. All such events are public.
func news(e boulder.Event) bool {
	switch e.Body.(type) {
	case boulder.Decomposed, boulder.Replanned, boulder.SubTaskDone, boulder.BlockerRaised, boulder.Parked, boulder.TaskComplete:
		return true
	}
	return false
}

func (s *server) blockers(ctx context.Context, in blockersInput) ([]any, error) {
	var f blockers.Filter
	if in.Boulder != "" {
		d, err := s.project.Snapshot(ctx, in.Boulder)
		if err != nil {
			return nil, err
		}
		f.BoulderID = d.Boulder.ID
	}
	all, err := s.project.ListBlockers(ctx, f)
	found := []any{}
	for _, b := range all {
		if in.All || b.Standing != blockers.Moot && b.Standing != blockers.Over {
			found = append(found, b)
		}
	}
	return found, err
}

func (s *server) answer(ctx context.Context, in answerInput) ([]any, error) {
	b, err := s.project.Blocker(ctx, in.Blocker)
	how := blockers.Settlement{Status: boulder.BlockerAnswered, Answer: strings.TrimSpace(in.Answer)}
	switch {
	case errors.Is(err, blockers.ErrNotFound):
		return nil, fmt.Errorf("%w: the tool blockers lists them", err)
	case err != nil:
		return nil, err
	case b.AsksPermission():
		return nil, fmt.Errorf("%s asks for a permission, and that is the user's to give: `manager blockers answer %[1]s --allow`"+
			" in a terminal", b.ID)
	case in.Skip && how.Answer != "":
		return nil, errors.New("an answer was given, and skip gives none: leave one of them out")
	case in.Skip:
		how.Status = boulder.BlockerSkipped
	}
	answered, err := s.project.SettleBlocker(ctx, &b, how)
	if answered == nil {
		return nil, err
	}
	return []any{answered}, err
}

func (s *server) note(ctx context.Context, in noteInput) ([]any, error) {
	text := s.project.Clean("The note", strings.TrimSpace(in.Text))[0]
	return s.order(ctx, in.Boulder, boulder.Order{Do: boulder.OrderNote, SubTaskID: in.SubTask, Text: text})
}

func (s *server) pause(ctx context.Context, in pauseInput) ([]any, error) {
	return s.order(ctx, in.Boulder, boulder.Order{Do: boulder.OrderPause, Now: in.Now})
}

func (s *server) order(ctx context.Context, ref string, o boulder.Order) ([]any, error) {
	ref, err := s.named(ctx, ref)
	if err = cmp.Or(err, o.Validate()); err != nil {
		return nil, err
	}
	done, err := s.project.Order(ctx, func(there *project.Access) (boulder.Snapshot, boulder.Order, error) {
		d, err := project.Get(ctx, there, ref)
		if err == nil && d.Boulder.Status.Terminal() {
			err = project.Over(&d.Boulder, o.Do)
		}
		return d, o, err
	})
	if err != nil {
		return nil, err
	}
	return []any{view.NewOrder(done)}, nil
}

// resume continues a boulder in the process that runs it, or else in the background server.
func (s *server) resume(ctx context.Context, in boulderInput) ([]any, error) {
	ref, err := s.named(ctx, in.Boulder)
	if err != nil {
		return nil, err
	}
	var why error
	r, err := project.Look(ctx, s.project, ref, func(ctx context.Context, there *project.Access, d boulder.Snapshot) (*project.Reading, error) {
		if !d.Boulder.Status.Terminal() {
			var err error
			if why, err = s.inTheWay(ctx, there, d); err != nil {
				return nil, err
			}
		}
		return s.project.Recent(ctx, there, d)
	})
	if err != nil {
		return nil, err
	}
	d, req := r.Snapshot, project.Request{Resume: r.Boulder.ID}
	switch {
	case d.Boulder.Status.Terminal(), r.Holder != nil && slices.Contains(r.Holder.Running, d.Boulder.ID):
		return s.order(ctx, d.Boulder.ID, boulder.Order{Do: boulder.OrderResume})
	case why != nil:
		return nil, why
	case awaitsApproval(d):
		req.Plan, req.GatesApproved, req.Model = &d.Revision.Plan, s.project.Config().AllowModelGates, d.Boulder.Model
	}
	return s.handOver(ctx, req)
}

func (s *server) land(ctx context.Context, in landInput) ([]any, error) {
	ref, err := s.named(ctx, in.Boulder)
	if err != nil {
		return nil, err
	}
	how := project.Land{How: cmp.Or(in.How, boulder.LandedFiles), Branch: in.Branch, DryRun: in.DryRun, Merge: in.Merge}
	var l project.Landing
	switch elsewhere := how.How != boulder.LandedFiles || in.Branch != ""; {
	case in.Undo && (in.Merge || elsewhere):
		return nil, errors.New("undo takes back what merge wrote into the files: give it alone, or with dry_run")
	case in.Merge && elsewhere:
		return nil, errors.New("merge is for files: leave it out, or how and branch")
	case how.How != boulder.LandedFiles && how.How != boulder.LandedBranch:
		return nil, fmt.Errorf("results do not land as %q from here, but in files or as a branch; see `manager land --help`", in.How)
	case in.Undo:
		if l, err = s.project.UndoLanding(ctx, ref, in.DryRun); err != nil {
			return nil, fmt.Errorf("undo the landing of boulder %s: %w", boulder.ShortID(ref), err)
		}
		return []any{view.NewLand(&l, in.DryRun)}, nil
	}
	l, err = s.project.Land(ctx, ref, how)
	if conflict, is := errors.AsType[*workspace.ConflictError](err); is {
		return nil, fmt.Errorf("land boulder %s: %w\n\n%s\nmerge writes what does not conflict, and conflict markers where it does; "+
			"undo takes that back. A branch has all of it", boulder.ShortID(ref), err, view.Conflicts(conflict.Conflicts))
	}
	if err != nil {
		return nil, fmt.Errorf("land boulder %s: %w", boulder.ShortID(ref), err)
	}
	return []any{view.NewLand(&l, in.DryRun)}, nil
}
