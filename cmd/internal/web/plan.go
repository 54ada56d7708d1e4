package web

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/taskledger"
)

// addApproval adds the plan or replan that waits for approval, with buttons. back is the page that it is on.
func (s *Site) addApproval(ctx context.Context, p *Page, d *boulder.Snapshot, back string) {
	b, asked := &d.Boulder, d.Asked()
	if asked == "" {
		return
	}
	plan, shown := boulder.Plan{}, template.HTML("")
	if b.Replan == nil {
		plan, shown = d.Revision.Plan, s.preview(ctx, b, &d.Revision.Plan, taskledger.Warnings(&d.Revision.Plan))
		if was := d.Revision.Was; was != nil {
			shown = printed(func(o page.Out) {
				o.Say(o.Bold("What the revision changed:"))
				view.PlanChanges(o, was, &plan)
				o.Say()
			}) + shown
		}
	} else {
		proposal := orchestrator.Proposal(*d)
		plan.SubTasks, shown = proposal.SubTasks, printed(func(o page.Out) { view.Replan(o, proposal, taskledger.KnownCommands(s.project.Dir())) })
	}
	all, _ := taskledger.Format(&plan) // cannot fail: the plan was parsed, or made here
	p.add("agree-"+b.ID, "", s.html("agree", map[string]any{
		"B": b, "Plan": plan, "Hash": asked, "Shown": shown, "All": string(all), "Back": back, "Linked": back == "/",
	}))
}

// preview renders a plan as the terminal does before it asks for approval.
func (s *Site) preview(ctx context.Context, b *boulder.Boulder, plan *boulder.Plan, warnings []yamlfile.Problem) template.HTML {
	return printed(func(o page.Out) {
		view.Plan(o, plan, taskledger.KnownCommands(s.project.Dir()))
		view.Warnings(o, warnings)
		view.Decided(o, plan, b.DoneWhen, b.Checks)
		view.Expected(o, plan, s.project.Config().Limits, b.Budget, b.Review, s.project.Earlier(ctx))
	})
}

// draft is a plan that is being edited: that of a boulder that waits for approval, or the project's plan file.
type draft struct {
	B        *boulder.Boulder // nil: the plan file
	Text     string
	Hash     string // of the version that the user began with
	Action   string
	Problems []problem
	More     int    // number of problems beyond these
	Err      string // any other error
	Ran      string // what the plan file was completed as: it runs again only if the user says so
	Checked  template.HTML
	Starts   bool // the plan file can be run from here
}

func hashOf(file []byte) string { return fmt.Sprintf("%x", sha256.Sum256(file)) }

type problem struct {
	yamlfile.Problem
	Text string // of the line
}

func (s *Site) draft(ctx context.Context, id string) (*draft, error) {
	if id == "" {
		data, err := os.ReadFile(s.project.PlanPath())
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return &draft{Text: string(data), Hash: hashOf(data), Action: "/plan", Starts: s.Start != nil}, err
	}
	d, err := s.project.Snapshot(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case d.Asked() == "" || d.Boulder.Replan != nil:
		return nil, fmt.Errorf("%w: no plan of boulder %s waits for your approval", boulder.ErrRefused, boulder.ShortID(id))
	}
	data, err := taskledger.Format(&d.Revision.Plan)
	return &draft{B: &d.Boulder, Text: string(data), Hash: d.Asked(), Action: boulderPath(id) + "/plan"}, err
}

// take puts the user's text into the draft, with its problems. It returns nil if the text is not a valid plan.
func (s *Site) take(ctx context.Context, d *draft, text string) *boulder.Plan {
	d.Text = text
	plan, warnings, err := s.project.CheckPlan("the plan", []byte(text))
	if err == nil {
		done := s.project.Criteria(nil)
		if d.B != nil {
			done = project.Criteria{Words: d.B.DoneWhen, Checks: d.B.Checks}
		}
		err = done.Check(plan)
	}
	if err == nil {
		d.Checked = s.preview(ctx, cmp.Or(d.B, &boulder.Boulder{}), plan, warnings)
		return plan
	}
	bad, is := errors.AsType[*yamlfile.Error](err)
	if !is {
		d.Err = project.Message(err)
		return nil
	}
	lines := strings.Split(text, "\n")
	for _, p := range bad.Problems {
		at := problem{Problem: p}
		if p.Line > 0 && p.Line <= len(lines) {
			at.Text = lines[p.Line-1]
		}
		d.Problems = append(d.Problems, at)
	}
	d.More = bad.More
	return nil
}

func (s *Site) editor(r *http.Request) (*Page, error) {
	d, err := s.draft(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return s.drafted(d), nil
}

func (s *Site) drafted(d *draft) *Page {
	p := s.page("Edit the plan", "/plan")
	p.Still = true
	if d.B != nil {
		p.Here = ""
		p.add("crumbs", "", s.html("crumbs", d.B))
	}
	p.add("editor", "", s.html("editor", d))
	if d.Checked != "" {
		p.add("checked", "What it comes to", s.html("checked", d.Checked))
	}
	return p
}

// runPlan saves the plan file and runs it in the background server, with its gates: the user has seen it.
func (s *Site) runPlan(ctx context.Context, text string, again bool) (said string, err error) {
	if err := s.project.SavePlan([]byte(text)); err != nil {
		return "", err
	}
	id, pid, err := s.project.StartPlan(context.WithoutCancel(ctx), s.project.PlanPath(), again, s.Start)
	if ran, is := errors.AsType[*project.RanError](err); is {
		ran.File = "This plan"
	}
	if err != nil {
		return "", fmt.Errorf("it is saved, and does not run: %w", err)
	}
	return fmt.Sprintf("Boulder %s runs in the background (process %d).", boulder.ShortID(id), pid), nil
}

// edited checks the user's text, then saves the plan file or approves the plan. On errors the text stays as written.
func (s *Site) edited(w http.ResponseWriter, r *http.Request) {
	ctx, id := r.Context(), r.PathValue("id")
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, hash, do := strings.ReplaceAll(r.PostFormValue("plan"), "\r\n", "\n"), r.PostFormValue("hash"), r.PostFormValue("do")
	d, err := s.draft(ctx, id)
	if err != nil { // another answer came first: show the text anyway
		d = &draft{B: &boulder.Boulder{ID: id}, Hash: hash, Action: r.URL.Path}
	}
	plan := s.take(ctx, d, text)
	said := ""
	switch {
	case err != nil || plan == nil || do == "check":
	case d.Hash != hash:
		err = errors.New("it was changed since you opened it: copy what you wrote, and open it again")
	case d.B == nil && (do == "run" || do == "again") && s.Start != nil:
		said, err = s.runPlan(ctx, text, do == "again")
		if saved, readErr := os.ReadFile(s.project.PlanPath()); readErr == nil { // the form goes on from there
			hash = hashOf(saved)
		}
	case d.B == nil:
		said, err = "Saved "+s.project.PlanPath()+". Run it with: manager run", s.project.SavePlan([]byte(text))
	default:
		said, err = s.carryOut(ctx, id, boulder.Order{Do: boulder.OrderApprove, Hash: hash, Plan: plan})
	}
	if said != "" && err == nil {
		s.redirect(w, r, said, cmp.Or(strings.TrimSuffix(r.URL.Path, "/plan"), "/plan"))
		return
	}
	if ran, is := errors.AsType[*project.RanError](err); is {
		d.Ran, err = ran.Error(), nil
	}
	if d.Hash = hash; err != nil {
		d.Err, d.Checked = project.Message(err), ""
	}
	s.write(w, r, http.StatusOK, string(s.html("page", s.drafted(d))))
}
