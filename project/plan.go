package project

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/detect"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/yamlfile"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project/internal/schema"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/taskledger"
)

// Plan asks the Task Ledger to split a task, after a look at the project where one is needed. Nothing is stored. It waits out
// faults, and limits of at most limits.cool_max: the user waits, too. ask asks the user what the ledger asks; if it is nil, the
// defaults are taken. told gets what [orchestrator.PlanPatiently] tells.
func (p *Project) Plan(
	ctx context.Context, req boulder.PlanRequest, ask orchestrator.Ask, told func(boulder.Body),
) (*boulder.Plan, boulder.Usage, error) {
	if err := p.checkMarkers(ctx); err != nil {
		return nil, boulder.Usage{}, err
	}
	limits := p.cfg.Limits
	limits.ResetMax = min(limits.ResetMax, limits.CoolMax)
	req.Project, req.Task, req.Constraints = p.dir, p.Clean("The task", req.Task)[0], p.Clean("The task", req.Constraints...)
	req.Comment = p.Clean("The comment", req.Comment)[0]
	req.Look, req.Describe = cmp.Or(req.Look, p.cfg.Plan.Look), p.cfg.Models.Describe
	model, err := p.Model()
	if err != nil {
		return nil, boulder.Usage{}, err
	}
	looks := orchestrator.Looks{Model: cmp.Or(p.cfg.Plan.LookModel, model.First())}
	if p.host != nil {
		if looks.Looker, err = executor.New(p.looks()); err != nil {
			return nil, boulder.Usage{}, err
		}
	}
	plan, usage, err := orchestrator.PlanPatiently(ctx, p.planner(), p.ledgers, looks, p.cleanAnswers(ask), req, limits, told)
	if err != nil {
		return nil, usage, cmp.Or(context.Cause(ctx), fmt.Errorf("plan: %w", err))
	}
	p.WarnOfPlan(plan)
	return plan, usage, nil
}

// cleanAnswers takes secrets out of the user's answers.
func (p *Project) cleanAnswers(ask orchestrator.Ask) orchestrator.Ask {
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, questions []boulder.Question) ([]string, error) {
		answers, err := ask(ctx, questions)
		return p.Clean("The answer", answers...), err
	}
}

// ReadPlan reads a plan file and takes secrets out of it. Secrets in commands, ids and models are refused.
func (p *Project) ReadPlan(path string) (*boulder.Plan, error) {
	data, err := yamlfile.Read(path)
	if err != nil {
		return nil, err
	}
	plan, warnings, err := p.CheckPlan(path, data)
	p.warnOfCommands(warnings)
	return plan, err
}

// CompletedRun returns the newest boulder that a plan file was run as, if that was completed and neither its results were
// dropped nor the file has changed since; else nil.
func (p *Project) CompletedRun(ctx context.Context, file string, plan *boulder.Plan) (of *boulder.Boulder, err error) {
	if file == "" || plan == nil || !p.Exists() {
		return nil, nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	err = p.reading(ctx, func(d *Access) error {
		all, err := d.Listing(ctx)
		for _, item := range all {
			if !strings.HasPrefix(plan.Task, text.Head(item.Task, 200)) { // without reading it
				continue
			}
			b, getErr := d.Get(ctx, item.BoulderID)
			if getErr != nil || b.Boulder.PlanFile != file {
				continue
			}
			landed := b.Boulder.Trunk.Landed
			same := info.ModTime().Before(b.Boulder.CreatedAt) || b.Revision != nil && boulder.ComparePlans(&b.Revision.Plan, plan).Empty()
			if b.Boulder.Status == boulder.Completed && same && (landed == nil || landed.How != boulder.LandedDropped) {
				of = &b.Boulder
			}
			return nil
		}
		return err
	})
	return of, err
}

// CheckPlan is [Project.ReadPlan] for a plan that is in memory, and returns what that warns of. name stands for it in
// messages.
func (p *Project) CheckPlan(name string, data []byte) (*boulder.Plan, []yamlfile.Problem, error) {
	plan, warnings, err := taskledger.ParseWarn(name, data)
	if err != nil {
		return nil, nil, err
	}
	plan, err = p.cleanPlan("The plan "+name, plan)
	return plan, secret.Each(warnings, p.secrets), err
}

// cleanPlan takes secrets out of a plan, and refuses those in commands, ids and models. name stands for it in messages.
func (p *Project) cleanPlan(name string, plan *boulder.Plan) (*boulder.Plan, error) {
	if err := p.refuseSecret("the plan's model", plan.Model.Entries()...); err != nil {
		return nil, err
	}
	for _, s := range plan.SubTasks {
		for name, values := range map[string][]string{
			"id": {s.ID}, "model": s.Model.Entries(), "effort": {s.Effort}, "agent": {s.Agent}, "depends_on": s.DependsOn,
			"gates": s.Gates, "no_worse": s.NoWorse,
		} {
			if err := p.refuseSecret(fmt.Sprintf("%s of sub-task %q", name, p.secrets.Text(s.ID)), values...); err != nil {
				return nil, err
			}
		}
	}
	written, _ := json.Marshal(plan) // a checked plan always marshals
	if kinds := p.secrets.Kinds(string(written)); len(kinds) > 0 {
		p.warnOfSecret(name, kinds)
	}
	return new(secret.Each(*plan, p.secrets)), nil
}

func (p *Project) warnOfCommands(warnings []yamlfile.Problem) {
	for _, w := range warnings {
		p.warn("%s", p.secrets.Text(w.String()))
	}
}

// WarnOfPlan warns of the gates of a plan that comes from no file. Reading one warns already.
func (p *Project) WarnOfPlan(plan *boulder.Plan) { p.warnOfCommands(taskledger.Warnings(plan)) }

// ConfigWarnings returns what [Project.WarnOfConfig] warns of.
func (p *Project) ConfigWarnings() []yamlfile.Problem { return secret.Each(p.cfg.Warnings, p.secrets) }

// WarnOfConfig warns of configured commands that prove nothing, or run otherwise than they look in the file.
func (p *Project) WarnOfConfig() { p.warnOfCommands(p.cfg.Warnings) }

// schemaFile lies next to the project's plan file, whose first line names it for completion and checks in editors.
const schemaFile = "plan.schema.json"

// WritePlan writes a plan to a file of the user's, as the user could, or to the project's own below .manager. There it
// follows no link, since another user may have created it.
//
// remarks are shown with sub-tasks, by id.
func (p *Project) WritePlan(path string, plan *boulder.Plan, remarks map[string]string) error {
	if path != p.PlanPath() {
		return taskledger.WriteFile(path, plan, remarks)
	}
	data, err := taskledger.FormatRemarked(plan, remarks)
	if err != nil {
		return err
	}
	described, err := schema.Text("plan")
	if err != nil {
		return err
	}
	data = append([]byte("# yaml-language-server: $schema="+schemaFile+"\n"), data...)
	err = errors.Join(statedir.Write(p.dir, store.DirName+"/"+schemaFile, described),
		statedir.Write(p.dir, store.DirName+"/"+filepath.Base(path), data))
	if err != nil {
		return fmt.Errorf("write the plan to %s: %w", path, err)
	}
	return nil
}

// SavePlan writes the user's text to the project's plan file unchanged, with its comments.
func (p *Project) SavePlan(data []byte) error {
	return statedir.Write(p.dir, store.DirName+"/"+filepath.Base(p.PlanPath()), data)
}

// Check does with a new request what `manager run` does with its own, and [State.Run] does it first. It fills in the given
// plan's defaults, takes secrets out of it, and refuses a mistake in it, a seal of another commit, and a model, an agent or a
// criterion that is not there. It sets the model of sub-tasks that name none.
func (p *Project) Check(ctx context.Context, req *Request) (err error) {
	if req.Resume != "" || req.Fork != nil {
		return nil
	}
	if req.Plan != nil {
		plan, err := taskledger.Check(req.Plan)
		if err == nil {
			plan, err = p.cleanPlan("The given plan", plan)
		}
		if err != nil {
			return fmt.Errorf("the given plan: %w", err)
		}
		if moved, stale := p.otherCommit(ctx, plan, cmp.Or(req.Base, p.base), req.PlanFile); stale {
			return usagef("%s: plan again, or run it all the same without its Seal", moved)
		}
		p.WarnOfPlan(plan)
		req.Plan = plan
	}
	req.Model, err = p.CheckNeeds(ctx, req.Plan, req.Settings, p.Criteria(req.DoneWhen))
	return err
}

// CheckTask refuses the settings of a task whose models or agent there are not, before a boulder is made of it. Other
// faults are left to the run, which waits them out.
func (p *Project) CheckTask(ctx context.Context, s boulder.Settings) error {
	_, err := p.checkModels(ctx, &boulder.Plan{SubTasks: make([]boulder.Spec, 1)}, s)
	if _, bad := errors.AsType[*UsageError](err); bad {
		return err
	}
	return context.Cause(ctx)
}

// CheckNeeds refuses a plan, or the settings of a run that has none yet, with a model or an agent that OpenCode does not
// have, or a criterion that nothing can check. It returns the model of sub-tasks that name none, as [Project.CheckModels].
func (p *Project) CheckNeeds(ctx context.Context, plan *boulder.Plan, s boulder.Settings, done Criteria) (boulder.Models, error) {
	named := cmp.Or(plan, &boulder.Plan{SubTasks: make([]boulder.Spec, 1)})
	model, err := p.checkModels(ctx, named, s)
	if err == nil {
		err = p.CheckCriteria(ctx, done, plan)
	}
	return model, err
}

// Short abbreviates a commit to 10 digits.
func Short(commit string) string { return commit[:min(len(commit), 10)] }

// Criteria are the completion criteria of sub-tasks that name none, and the commands that check them.
type Criteria struct {
	Words   []string
	Checks  boulder.Checks
	NoTests string // why no test command is known; empty: one is
}

// Criteria takes the criteria from --done-when, else from the configuration. The default (seed 001) is the judge,
// todos, and diagnostics and tests if the project has commands for them.
func (p *Project) Criteria(flag []string) Criteria {
	done := Criteria{Words: flag}
	if len(flag) == 0 {
		done.Words = p.cfg.DoneWhen
	}
	files := os.DirFS(p.dir)
	done.Checks.Tests, done.NoTests = p.commands(p.cfg.Tests, detect.Tests(files), "tests", "a go.mod, a script \"test\" in "+
		"package.json, a Cargo.toml, files or a configuration of pytest, a target \"test\" in a Makefile")
	done.Checks.Lint, _ = p.commands(p.cfg.Lint, detect.Lint(files), "lint", "")
	if done.Checks.Default = len(done.Words) == 0; done.Checks.Default {
		has := map[string]bool{
			boulder.DoneTodos: true, boulder.DoneDiagnostics: len(done.Checks.Lint) > 0, boulder.DoneTests: len(done.Checks.Tests) > 0,
			boulder.DoneJudge: true,
		}
		done.Words = slices.DeleteFunc(boulder.DoneWords(), func(word string) bool { return !has[word] })
	}
	return done
}

// commands returns the configured commands, else the detected ones that can run, or why there are none.
func (p *Project) commands(
	configured []string, detected []detect.Command, key, places string,
) (found []string, why string) {
	switch {
	case configured != nil && len(configured) == 0:
		return nil, fmt.Sprintf("the configuration says that there is none (%s: [])", key)
	case configured != nil:
		return configured, ""
	}
	why = "none of these was found: " + places
	for _, c := range detected {
		if command.Missing(context.Background(), p.dir, p.AgentEnv(), c.Program) == "" { // else it would be red forever
			found = append(found, c.Run)
			p.log.Debug("found a command", "for", key, "command", c.Run, "because", c.Why)
		} else {
			why = fmt.Sprintf("%s, but %s is not installed", c.Why, c.Program)
		}
	}
	if len(found) > 0 {
		why = ""
	}
	return found, why
}

// Check refuses the criterion tests in a plan, or in the run's settings without a plan, if no command runs the tests.
func (done Criteria) Check(plan *boulder.Plan) error {
	who := done.namedBy(plan, boulder.DoneTests)
	if who == "" || len(done.Checks.Tests) > 0 {
		return nil
	}
	return usagef("%s: done when tests pass, but no command is known that runs them (%s): name it in the configuration,"+
		" as in `tests: make check`, or leave that criterion out", who, done.NoTests)
}

// CheckCriteria is [Criteria.Check], and also refuses the criterion diagnostics if [Project.NoDiagnostics] does.
func (p *Project) CheckCriteria(ctx context.Context, done Criteria, plan *boulder.Plan) error {
	err, who := done.Check(plan), done.namedBy(plan, boulder.DoneDiagnostics)
	if err != nil || who == "" {
		return err
	}
	why, err := p.NoDiagnostics(ctx, done)
	if err == nil && why != "" {
		err = noDiagnostics(who, why)
	}
	return err
}

func noDiagnostics(who, why string) error {
	return usagef("%s: done when diagnostics are clean, but %s", who, why)
}

// NoDiagnostics says why nothing can check files for errors, or returns "". Without a command it has to ask OpenCode.
func (p *Project) NoDiagnostics(ctx context.Context, done Criteria) (why string, err error) {
	if len(done.Checks.Lint) > 0 {
		return "", nil
	}
	client, err := p.Client(ctx)
	if err != nil {
		return "", err
	}
	return executor.NoDiagnostics(client.Caps(), nil), nil
}

// namedBy says what names a criterion, for messages, or returns "" if nothing does.
func (done Criteria) namedBy(plan *boulder.Plan, criterion string) string {
	if plan == nil {
		return text.If(slices.Contains(done.Words, criterion), "--done-when or the configuration")
	}
	for _, s := range plan.SubTasks {
		words := done.Words
		for _, own := range [][]string{plan.DoneWhen, s.DoneWhen} {
			if len(own) > 0 {
				words = own
			}
		}
		if slices.Contains(words, criterion) {
			return fmt.Sprintf("sub-task %q", s.ID)
		}
	}
	return ""
}

// Missing says what a command needs and the project lacks: a program, a script of package.json, a target of the
// Makefile. It is empty if nothing is known to be missing.
func (p *Project) Missing(ctx context.Context, line string) string {
	if program := command.Missing(ctx, p.dir, p.AgentEnv(), line); program != "" {
		return program + " is not found"
	}
	return detect.Missing(os.DirFS(p.dir), line)
}
