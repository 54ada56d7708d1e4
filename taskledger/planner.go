package taskledger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/ledger"
)

const (
	maxPromptTask   = 60_000 // length of the task in the prompt, in characters; the plan keeps all of it
	shortPromptTask = 8_000  // the same in the second prompt, for a model to which the first was too long
	maxAnswer       = 8_192  // tokens of an answer, reasoning included; Structured doubles it once
)

// Planner is the Task Ledger. It is stateless and safe for concurrent use. Without a Completer it can only make plans of
// [boulder.PlanNever].
type Planner struct {
	Completer providers.Completer // answers; it retries ([providers.WithRetry]) and chooses the model
	Model     string              // ledger model named in the seal, as provider/model; it is not sent
	// Others answer requests that name another model, by provider/model.
	Others map[string]providers.Completer
	Logger *slog.Logger      // defaults to none
	Note   func(text string) // what a model that plans a task is shown of the project; may be nil
	Warn   func(text string) // what the user should know about an answer; may be nil
}

// by returns the planner that asks a model; empty: its own.
func (p *Planner) by(model string) *Planner {
	if c := p.Others[model]; c != nil {
		other := *p
		other.Completer, other.Model = c, model
		return &other
	}
	return p
}

func (p *Planner) log() *slog.Logger { return cmp.Or(p.Logger, slog.New(slog.DiscardHandler)) }

// Plan turns a request into a valid plan, by the contract of orchestrator.Planner. With [boulder.PlanNever] it is one
// sub-task without a model call. Else a first call lists what the task demands, and may find that no plan is needed; a second
// one splits the task, and says which sub-task does which row of that list.
//
// Unusable answers go back to the model with what is wrong, up to three times. After that, or if the model refuses, the
// plan is one sub-task with [boulder.OriginFallback]. A row that no sub-task does after [maxMended] answers stays without an
// owner ([boulder.Plan.Unowned]). Whether the model's gates may run is decided elsewhere.
//
// With req.Was, that plan is changed as req.Comment says, by one call. What the user wrote ([boulder.Plan.ByHand]) stays,
// unless the comment asks for a change of it; the rows of the request stay in any case. If no usable answer comes, the error
// wraps [boulder.ErrNoNewPlan].
func (p *Planner) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	if blank(req.Task) {
		return nil, boulder.Usage{}, errors.New("make a plan: there is no task: say what to do")
	}
	if req.Was != nil {
		return p.by(req.Model).revise(ctx, req)
	}
	if req.Mode == boulder.PlanNever {
		return Seal(single(req), boulder.OriginDirect, "", time.Now()), boulder.Usage{}, nil
	}
	p = p.by(req.Model)
	survey := p.survey(ctx, req.Project, req.Task)
	known, spent, err := req.Known, boulder.Usage{}, error(nil)
	if known == nil {
		known, spent, err = p.prepare(ctx, req, survey)
	}
	switch {
	case err != nil:
		return nil, spent, err
	case known.Seal != nil && known.Hash() != known.Seal.Hash: // it was looked at, or the user has answered
		return Seal(tellAll(known), known.Seal.Origin, p.Model, time.Now()), spent, nil
	case known.Seal != nil:
		return known, spent, nil
	}
	plan, used, err := p.split(ctx, req, known, survey.String())
	spent = spent.Add(used)
	switch {
	case errors.Is(err, ledger.ErrNoAnswer):
		return p.whole(ctx, req, err), spent, nil
	case err != nil:
		return nil, spent, err
	}
	p.log().DebugContext(ctx, "planned", "sub_tasks", len(plan.SubTasks), "reason", plan.Reason)
	origin := boulder.OriginModel
	if len(plan.SubTasks) == 1 {
		origin, plan = boulder.OriginDirect, tellAll(plan)
	}
	return Seal(plan, origin, p.Model, time.Now()), spent, nil
}

// Prepare makes the first call of [Planner.Plan], by the contract of orchestrator.Preparer.
func (p *Planner) Prepare(ctx context.Context, req boulder.PlanRequest) (boulder.Prepared, boulder.Usage, error) {
	if blank(req.Task) || req.Mode == boulder.PlanNever {
		return boulder.Prepared{}, boulder.Usage{}, nil
	}
	survey := p.survey(ctx, req.Project, req.Task)
	known, spent, err := p.by(req.Model).prepare(ctx, req, survey)
	if err != nil {
		return boulder.Prepared{}, spent, err
	}
	return boulder.Prepared{Known: known, Find: toFind(req.Look, known, survey.Files)}, spent, nil
}

// prepare returns what is known of the task, as the plan of one sub-task. It has a seal if no other plan is needed.
func (p *Planner) prepare(ctx context.Context, req boulder.PlanRequest, survey *Survey) (*boulder.Plan, boulder.Usage, error) {
	if p.Note != nil && survey.Files > 0 {
		p.Note("The model sees " + survey.Headline() + ".")
	}
	known, spent, err := p.facts(ctx, req, survey.String())
	switch {
	case errors.Is(err, ledger.ErrNoAnswer):
		return p.whole(ctx, req, err), spent, nil
	case err != nil:
		return nil, spent, err
	case known.direct(req.Mode):
		return Seal(known.plan, boulder.OriginDirect, p.Model, time.Now()), spent, nil
	}
	return known.plan, spent, nil
}

// whole returns the plan for a model whose answers are unusable.
func (p *Planner) whole(ctx context.Context, req boulder.PlanRequest, why error) *boulder.Plan {
	p.log().WarnContext(ctx, "the model gave no usable plan, the task stays whole", "error", why)
	return Seal(single(req), boulder.OriginFallback, p.Model, time.Now())
}

// facts has the model list what the task demands and what is known.
func (p *Planner) facts(ctx context.Context, req boulder.PlanRequest, survey string) (known facts, spent boulder.Usage, err error) {
	check := func(a *factsAnswer) (err error) {
		known, err = a.facts(req)
		return err
	}
	asked := question(factsSystemPrompt, ledger.Schema[factsAnswer](map[string][]string{"request.kind": {"asks", "forbids", "wish"}}, "facts.found", "facts.questions"))
	asked.SchemaName = "task_ledger_facts"
	_, spent, err = ledger.Ask(ctx, p.Completer, p.log(), asked, check,
		factsPrompt(req, maxPromptTask, survey), factsPrompt(req, shortPromptTask, ""))
	return known, spent, err
}

// maxMended is how many answers are sent back because of the rows of the request alone.
const maxMended = 2

// split has the model split the task.
func (p *Planner) split(
	ctx context.Context, req boulder.PlanRequest, known *boulder.Plan, survey string,
) (plan *boulder.Plan, spent boulder.Usage, err error) {
	mended := 0
	check := func(a *answer) (err error) {
		if plan, err = a.plan(req, known); err != nil {
			return err
		}
		if plan == known {
			return nil
		}
		if told := append(a.own(plan, req), a.restOn(plan.SubTasks, plan.Facts, func(boulder.Question) bool { return true })...); len(told) > 0 && mended < maxMended {
			mended++
			return feedback(told)
		}
		return nil
	}
	schema := schemaOf(known.Facts, req.Describe, "to_find", "allowed", "sub_tasks.replaces")
	said, spent, err := ledger.Ask(ctx, p.Completer, p.log(), question(systemPrompt, schema), check,
		userPrompt(req, maxPromptTask, known, survey), userPrompt(req, shortPromptTask, known, ""))
	if err == nil {
		p.warnOfUnread(&said)
	}
	return plan, spent, err
}

func (p *Planner) survey(ctx context.Context, project, task string) *Survey {
	if project == "" {
		return &Survey{}
	}
	ctx, cancel := context.WithTimeout(ctx, SurveyTime)
	defer cancel()
	return NewSurvey(ctx, project, task, p.log())
}

// schemaOf is that of an answer with sub-tasks, without some fields.
func schemaOf(known boulder.Facts, described map[string]string, without ...string) json.RawMessage {
	models := append([]string{defaultModel}, slices.Sorted(maps.Keys(described))...)
	if len(described) == 0 {
		without = append(without, "sub_tasks.model")
	}
	if len(known.Found) == 0 {
		without = append(without, "sub_tasks.found")
	}
	if len(known.Questions) == 0 {
		without = append(without, "sub_tasks.questions")
	}
	return ledger.Schema[answer](map[string][]string{"sub_tasks.model": models}, without...)
}

func question(system string, schema json.RawMessage) providers.Request {
	return providers.Request{System: system, Schema: schema, SchemaName: "task_ledger", MaxOutputTokens: maxAnswer}
}

func single(req boulder.PlanRequest) *boulder.Plan {
	plan := request(req)
	plan.SubTasks = []boulder.Spec{{Description: plan.Task}}
	return plan
}

// Replan replaces req.Replaced by 1–5 new sub-tasks, by the contract of orchestrator.Planner. They depend on done and
// kept sub-tasks and on each other. Ids in use get a number ("toggle-2").
//
// What the user wrote into a replaced sub-task stays in force. Its gates precede the model's in the last of the new
// sub-tasks that replace it, or in the last of all if none does. Each one that replaces it inherits model, agent,
// priority, done_when and budget.
//
// As req.Look says, a look may come first: [boulder.LookAlways] asks for one without a model call; with [boulder.LookAuto] the model
// may, unless the project is so small that the survey shows enough.
//
// If something of the request is Missing, nothing is replaced, and 1–3 sub-tasks for that are added.
//
// Unusable answers, and plans equal to an earlier one, go back to the model like those of Plan; then the error wraps
// [boulder.ErrNoNewPlan].
func (p *Planner) Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	if len(req.Replaced)+len(req.Missing) == 0 {
		return boulder.Replacement{}, boulder.Usage{}, errors.New("make a new plan: there is nothing to replace")
	}
	if req.Look == boulder.LookAlways {
		return boulder.Replacement{Questions: []string{notDoneQuestion}}, boulder.Usage{}, nil
	}
	p = p.by(req.Model)
	about := slices.Concat([]string{req.Failed.Subject, req.Failed.Description}, req.Missing, []string{req.Task})
	surveyed := p.survey(ctx, req.Project, strings.Join(about, "\n"))
	survey, system, prompt, without := surveyed.String(), replanSystemPrompt, replanPrompt, []string{"goal", "constraints", "owners", "allowed"}
	asks := asksBefore(req.Look, surveyed.Files)
	switch {
	case len(req.Missing) > 0:
		system, prompt, without = extendSystemPrompt, extendPrompt, append(without, "to_find", "sub_tasks.replaces")
	case asks:
		system += toFindPrompt
	default:
		without = append(without, "to_find")
	}
	asked := question(system, schemaOf(req.Facts, req.Describe, without...))
	var made boulder.Replacement
	check := func(a *answer) (err error) {
		if find := nonEmpty(a.ToFind); asks && len(a.SubTasks) == 0 && len(find) > 0 {
			made = boulder.Replacement{Questions: find[:min(len(find), maxQuestions)]}
			return nil
		}
		made, err = a.replacement(req)
		return err
	}
	said, spent, err := ledger.Ask(ctx, p.Completer, p.log(), asked, check, prompt(req, 1, survey), prompt(req, shorter, ""))
	if errors.Is(err, ledger.ErrNoAnswer) {
		err = fmt.Errorf("%w: %w", boulder.ErrNoNewPlan, err)
	}
	if err != nil {
		return boulder.Replacement{}, spent, err
	}
	p.warnOfUnread(&said)
	p.log().DebugContext(ctx, "replanned",
		"failed", req.Failed.ID, "sub_tasks", len(said.SubTasks), "reason", said.Reason)
	made.Model = p.Model
	return made, spent, nil
}

// Seal returns a copy of a plan with defaults filled in, and a seal that lacks only the base commit. Its hash is the
// one that [Parse] will compute. model is the ledger model that made the plan, or empty.
func Seal(plan *boulder.Plan, origin boulder.Origin, model string, now time.Time) *boulder.Plan {
	p := new(plan.Clone())
	fill(p)
	p.Seal = &boulder.Seal{Origin: origin, Model: model, CreatedAt: now.UTC().Truncate(time.Second)}
	p.Reseal()
	return p
}

const (
	maxSubject = 80 // length of a subject taken from another text, in characters
	maxNamed   = 5  // number of sub-tasks that name a task without a text
)

// fill sets defaults, and gives equivalent forms one, so that the same plan always has the same hash.
func fill(p *boulder.Plan) {
	if p.Version == 0 {
		p.Version = boulder.PlanVersion
	}
	if f := p.Facts; len(f.Given)+len(f.ToFind)+len(f.Found)+len(f.ToDerive)+len(f.Guesses)+len(f.Questions) == 0 {
		p.Facts = boulder.Facts{}
	}
	number(p.SubTasks)
	numberRows("r", len(p.Request), func(i int) *string { return &p.Request[i].ID })
	numberRows("f", len(p.Facts.Found), func(i int) *string { return &p.Facts.Found[i].ID })
	numberRows("q", len(p.Facts.Questions), func(i int) *string { return &p.Facts.Questions[i].ID })
	for i := range p.Facts.Questions {
		p.Facts.Questions[i].Fill()
	}
	for i := range p.SubTasks {
		fillSubTask(&p.SubTasks[i])
		for j, name := range p.SubTasks[i].DependsOn {
			p.SubTasks[i].DependsOn[j] = byNumber(name, p.SubTasks)
		}
	}
	if blank(p.Task) {
		p.Task = p.Goal
	}
	if blank(p.Task) {
		p.Task = subjects(p.SubTasks)
	}
}

func fillSubTask(s *boulder.Spec) {
	if blank(s.Subject) {
		s.Subject = headline(s.Description)
	}
	if blank(s.ActiveForm) {
		s.ActiveForm = oneLine(s.Subject)
	}
	if len(s.SuccessCriteria) == 0 && s.Subject != "" {
		s.SuccessCriteria = []string{s.Subject}
	}
	if s.Budget != nil && *s.Budget == (boulder.Budget{}) {
		s.Budget = nil
	}
}

// number gives sub-tasks without an id their number in the plan, or if taken the next free one after the last.
func number(specs []boulder.Spec) {
	taken := make(map[string]bool, len(specs))
	for _, s := range specs {
		taken[s.ID] = true
	}
	for i := range specs {
		for n := i + 1; specs[i].ID == ""; n = max(n, len(specs)) + 1 {
			if id := strconv.Itoa(n); !taken[id] {
				specs[i].ID, taken[id] = id, true
			}
		}
	}
}

// byNumber returns the id of the sub-task that name stands for if it is no id, and the number of one in the plan.
func byNumber(name string, specs []boulder.Spec) string {
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 || n > len(specs) || slices.ContainsFunc(specs, func(s boulder.Spec) bool { return s.ID == name }) {
		return name
	}
	return specs[n-1].ID
}

// numberRows gives rows without an id a prefix and their number, or the next free one.
func numberRows(prefix string, rows int, id func(i int) *string) {
	taken := make(map[string]bool, rows)
	for i := range rows {
		taken[*id(i)] = true
	}
	for i := range rows {
		for n := i + 1; *id(i) == ""; n = max(n, rows) + 1 {
			if free := fmt.Sprintf("%s%d", prefix, n); !taken[free] {
				*id(i), taken[free] = free, true
			}
		}
	}
}

// Unfilled returns a plan as a file has it, in which sub-tasks that say what was says but for its defaults are as they are in
// was: only the file has those filled in.
func Unfilled(file, was *boulder.Plan) *boulder.Plan {
	filled, plan := was.Clone(), file.Clone()
	fill(&filled)
	changed := map[string]bool{}
	for _, c := range boulder.ComparePlans(&filled, file).SubTasks {
		changed[c.ID] = true
	}
	for i, s := range plan.SubTasks {
		at := slices.IndexFunc(was.SubTasks, func(old boulder.Spec) bool { return old.ID == s.ID })
		if at >= 0 && !changed[s.ID] {
			plan.SubTasks[i] = was.SubTasks[at]
		}
	}
	return &plan
}

// Untitled reports whether the task of a plan, after Parse, is only what its goal or its sub-tasks' subjects say.
func Untitled(p *boulder.Plan) bool { return p.Task == p.Goal || p.Task == subjects(p.SubTasks) }

func subjects(specs []boulder.Spec) string {
	var all []string
	for _, s := range specs {
		if s.Subject != "" {
			all = append(all, s.Subject)
		}
	}
	if len(all) > maxNamed {
		all = append(all[:maxNamed], "…")
	}
	return strings.Join(all, "; ")
}

func headline(s string) string {
	for line := range strings.Lines(s) {
		if line = text.Short(line, maxSubject); line != "" {
			return line
		}
	}
	return ""
}
