package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/workspace"
)

// back returns the page that a form was on. It must be a local path, which prevents open redirects.
func back(r *http.Request) string {
	to := r.PostFormValue("back")
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n") {
		return "/"
	}
	return to
}

func (s *Site) answer(r *http.Request) (said string, err error) {
	ctx := r.Context()
	b, err := s.project.Blocker(ctx, r.PathValue("blocker"))
	if err != nil {
		return "", err
	}
	how := blockers.Settlement{Status: boulder.BlockerAnswered, Answer: strings.TrimSpace(r.PostFormValue("answer"))}
	switch r.PostFormValue("do") {
	case "skip":
		how = blockers.Settlement{Status: boulder.BlockerSkipped}
	case "allow":
		how.Allowed = true
	case "deny":
		how.Answer = text.JoinedBy(": ", "Denied", how.Answer)
	default: // one of the options, the user's own words, or both
		how.Answer = text.JoinedBy("\n", r.PostFormValue("option"), how.Answer)
	}
	if how.Status == boulder.BlockerAnswered && how.Answer == "" && !how.Allowed {
		return "", errors.New("nothing was sent: write an answer, or continue without one")
	}
	answered, err := s.project.SettleBlocker(ctx, &b, how)
	return view.SettledBlocker(answered, time.Now()), err
}

func (s *Site) order(r *http.Request) (said string, err error) {
	ctx, id := r.Context(), r.PathValue("id")
	do, now, _ := strings.Cut(r.PostFormValue("do"), " ")
	o := boulder.Order{Do: boulder.OrderKind(do), SubTaskID: r.PostFormValue("task"), Now: now == "now"}
	if o.Do == boulder.OrderNote {
		o.Text = s.project.Clean("The note", strings.TrimSpace(r.PostFormValue("text")))[0]
	}
	switch o.Do {
	case boulder.OrderApprove, boulder.OrderDecline:
		o.Hash = r.PostFormValue("hash")
	case boulder.OrderRevise:
		o.Hash, o.SubTaskID = r.PostFormValue("hash"), ""
		o.Text = s.project.Clean("The comment", strings.TrimSpace(text.JoinedBy(": ", r.PostFormValue("task"), r.PostFormValue("text"))))[0]
		if strings.TrimSpace(r.PostFormValue("text")) == "" {
			return "", errors.New("nothing was sent: say what should be different")
		}
	}
	allowed := []boulder.OrderKind{
		boulder.OrderPause, boulder.OrderResume, boulder.OrderCancel, boulder.OrderRetry, boulder.OrderSkip, boulder.OrderNote,
		boulder.OrderArchive, boulder.OrderUnarchive, boulder.OrderApprove, boulder.OrderDecline, boulder.OrderRevise, boulder.OrderKeep,
	}
	switch {
	case !slices.Contains(allowed, o.Do):
		return "", fmt.Errorf("there is no order %q here", o.Do)
	case o.Do == boulder.OrderKeep:
		var d boulder.Snapshot
		if d, err = s.project.Snapshot(ctx, id); err == nil {
			o, err = s.project.KeepOrder(ctx, &d, o.SubTaskID)
		}
	}
	switch err = cmp.Or(err, o.Validate()); {
	case err != nil:
		return "", err
	case o.Do == boulder.OrderResume:
		if said, err = s.resume(ctx, id); said != "" || err != nil {
			return said, err
		}
	}
	return s.carryOut(ctx, id, o)
}

// carryOut carries out an order. After an approval or a refusal the boulder continues if a server runs.
func (s *Site) carryOut(ctx context.Context, id string, o boulder.Order) (said string, err error) {
	done, err := s.project.Order(ctx, func(d *project.Access) (boulder.Snapshot, boulder.Order, error) {
		b, err := d.Get(ctx, id)
		if err == nil && o.Do == boulder.OrderRetry {
			o, err = s.project.RetryOrder(ctx, d, &b, o.SubTaskID)
		}
		return b, o, err
	})
	switch {
	case err != nil:
		return "", err
	case o.Do == boulder.OrderArchive:
		return "Archived " + boulder.ShortID(id) + ".", nil
	case o.Do == boulder.OrderUnarchive:
		return boulder.ShortID(id) + " is back.", nil
	case !slices.Contains([]boulder.OrderKind{boulder.OrderApprove, boulder.OrderDecline, boulder.OrderRevise}, o.Do) || done.Holder == nil || !done.Holder.Serves:
	default:
		if resumed, err := s.resume(ctx, id); err == nil && resumed != "" {
			return view.Answered(o) + " " + resumed, nil
		}
	}
	return view.NewOrder(done).Text(), nil
}

// resume continues a boulder in the project's server, which is started if no process holds the state. It returns "" if a
// process runs the boulder, which takes the order itself.
func (s *Site) resume(ctx context.Context, id string) (said string, err error) {
	command := fmt.Errorf("no process is there that could continue it: type `manager resume %s` in a terminal",
		boulder.ShortID(id))
	there, err := s.project.Dial(ctx)
	switch {
	case errors.Is(err, project.ErrNotServed) && s.Start != nil:
	case err != nil:
		return "", command
	case slices.Contains(there.Holder.Running, id):
		return "", nil
	case !there.Holder.Serves:
		return "", command
	}
	pid, err := s.project.Continue(ctx, id, s.Start)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Process %d continues boulder %s.", pid, boulder.ShortID(id)), nil
}

func (s *Site) land(r *http.Request) (*Page, error) {
	l, err := s.project.Land(r.Context(), r.PathValue("id"), project.Land{How: boulder.LandedFiles, DryRun: true})
	b := l.Of.Boulder
	if b.ID == "" {
		return nil, err
	}
	landed := b.Trunk.Landed
	undo := landed != nil && landed.Marred() > 0
	if undo {
		l, err = s.project.UndoLanding(r.Context(), b.ID, true)
	}
	shown := "" // the lines that conflict
	if conflict, is := errors.AsType[*workspace.ConflictError](err); is {
		shown = view.Conflicts(conflict.Conflicts)
	}
	p := s.page("Land the results", "")
	p.Still = true
	p.add("crumbs", "", s.html("crumbs", b))
	p.add("land", "", s.html("land", map[string]any{
		"B": b, "Files": l.Files, "Edited": l.Conflicts, "Undo": undo, "Err": err, "Shown": shown,
	}))
	return p, nil
}

func (s *Site) landNow(r *http.Request) (said string, err error) {
	ctx, id := context.WithoutCancel(r.Context()), r.PathValue("id")
	how := project.Land{How: r.PostFormValue("how"), Branch: strings.TrimSpace(r.PostFormValue("branch"))}
	var l project.Landing
	switch how.How {
	case "undo":
		l, err = s.project.UndoLanding(ctx, id, false)
	case "merge":
		l, err = s.project.Land(ctx, id, project.Land{How: boulder.LandedFiles, Merge: true})
	case boulder.LandedFiles, boulder.LandedBranch:
		l, err = s.project.Land(ctx, id, how)
	default:
		err = errors.New("from here, results land in your files or as a branch: see `manager land --help`")
	}
	if err != nil {
		return "", err
	}
	return "Results: " + view.Landed(l.Landed) + ".", nil
}

// prepareRedo prepares a redo of the sub-task that the form names, or else of all that are out of date. redo is nil if
// none is.
func (s *Site) prepareRedo(r *http.Request) (b boulder.Snapshot, what project.Redo, redo *boulder.Redoing, err error) {
	read, err := s.read(r.Context(), r.PathValue("id"), false)
	if err != nil {
		return b, what, nil, err
	}
	what = project.Redo{
		Note: strings.TrimSpace(r.FormValue("text")), NoDependents: r.FormValue("alone") != "", Files: boulder.Files(r.FormValue("files")),
	}
	if task := r.FormValue("task"); task != "" {
		what.SubTasks = map[string][]boulder.Reason{task: {boulder.ReasonAsked}}
	}
	redo, err = s.project.PrepareRedo(r.Context(), read.Reading, what)
	return read.Snapshot, what, redo, err
}

func (s *Site) redo(r *http.Request) (*Page, error) {
	b, what, redo, err := s.prepareRedo(r)
	if b.Boulder.ID == "" {
		return nil, err
	}
	data := map[string]any{"B": b.Boulder, "Task": r.FormValue("task"), "Redo": what}
	if err != nil {
		data["Err"] = project.Message(err)
	} else if redo != nil {
		var shown strings.Builder // a table
		view.NewRedo(&b, *redo, true).Print(page.Out{Writer: &shown, Columns: page.Widest})
		data["Shown"] = shown.String()
	}
	p := s.page("Redo", "")
	p.Still = true
	p.add("crumbs", "", s.html("crumbs", b.Boulder))
	p.add("redo", "", s.html("redo", data))
	return p, nil
}

// redoNow orders the redo. A boulder without a process continues if a server runs.
func (s *Site) redoNow(r *http.Request) (said string, err error) {
	r = r.WithContext(context.WithoutCancel(r.Context()))
	b, _, redo, err := s.prepareRedo(r)
	ctx, id := r.Context(), r.PathValue("id")
	switch {
	case err != nil:
		return "", err
	case redo == nil:
		return "", errors.New("nothing is out of date")
	}
	if redo.Anew != "" {
		return s.fork(ctx, &b, redo)
	}
	said, err = s.project.OrderRedo(ctx, &b, redo.Order)
	if err == nil && said == "" {
		if said, err = s.resume(ctx, id); err != nil {
			said = "It is redone when the boulder continues:"
		}
	}
	return said, err
}

// fork has a server begin the new boulder that redoes what this one cannot.
func (s *Site) fork(ctx context.Context, b *boulder.Snapshot, redo *boulder.Redoing) (said string, err error) {
	command := fmt.Errorf("a new boulder has to redo it, and no process is there that could run it: type `manager redo %s -b %s`"+
		" in a terminal", strings.Join(redo.Order.Redone.SubTasks, " "), boulder.ShortID(b.Boulder.ID))
	there, err := s.project.Dial(ctx)
	if err != nil {
		return "", command
	}
	defer there.Close()
	if !there.Holder.Serves {
		return "", command
	}
	id, err := there.Submit(ctx, project.ForkRequest(b, redo))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("Process %d redoes it in boulder %s.", there.Holder.PID, boulder.ShortID(id)), nil
}
