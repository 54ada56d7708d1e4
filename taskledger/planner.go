package taskledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/ledger"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/providers"
)

const (
	maxPromptTask   = 60_000 // bounds the task in the prompt, in characters; the plan itself keeps all of it
	shortPromptTask = 8_000  // the bound of the second try, for a model to which the first was too long
	// maxAnswer bounds the model's answer, in tokens, its reasoning included. Structured doubles it once.
	maxAnswer = 8_192
)

// Planner is the Task Ledger. It keeps nothing between calls and may be used from many goroutines.
type Planner struct {
	Completer providers.Completer // is asked; it retries by itself ([providers.WithRetry]), and decides which model answers
	Model     string              // is what the seal calls the ledger model, as provider/model; it is not sent
	Logger    *slog.Logger
}

// Plan turns a request into a valid plan, by the contract of orchestrator.Planner. A simple task, or one that shall not be
// split, is a plan of one sub-task without asking.
//
// Answers that cannot be used go back to the model with what is wrong, three times. After that, and where the model
// refuses, the plan is the whole request as one sub-task, with [boulder.OriginFallback]. The gates in the plan are the
// model's: whether they may run is decided elsewhere.
func (p *Planner) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	if blank(req.Task) {
		return nil, boulder.Usage{}, errors.New("make a plan: there is no task: say what to do")
	}
	if req.Mode == boulder.PlanNever || req.Mode == boulder.PlanAuto && IsSimple(req.Task) {
		return Seal(single(req), boulder.OriginDirect, "", time.Now()), boulder.Usage{}, nil
	}
	schema := ledger.Schema[answer](nil, "sub_tasks.replaces")
	var plan *boulder.Plan
	check := func(a *answer) (err error) {
		plan, err = a.plan(req)
		return err
	}
	said, spent, err := ledger.Ask(ctx, p.Completer, p.Logger, question(systemPrompt, schema), check,
		userPrompt(req, maxPromptTask, projectFiles(req.Project)), userPrompt(req, shortPromptTask, nil))
	switch {
	case errors.Is(err, ledger.ErrNoAnswer):
		p.Logger.WarnContext(ctx, "the model gave no usable plan, the task stays whole", "error", err)
		return Seal(single(req), boulder.OriginFallback, p.Model, time.Now()), spent, nil
	case err != nil:
		return nil, spent, fmt.Errorf("make a plan: %w", err)
	}
	p.Logger.DebugContext(ctx, "planned", "sub_tasks", len(said.SubTasks), "reason", said.Reason)
	origin := boulder.OriginModel
	if said.direct(req.Mode) {
		origin = boulder.OriginDirect
	}
	return Seal(plan, origin, p.Model, time.Now()), spent, nil
}

func question(system string, schema json.RawMessage) providers.Request {
	return providers.Request{System: system, Schema: schema, SchemaName: "task_ledger", MaxOutputTokens: maxAnswer}
}

func single(req boulder.PlanRequest) *boulder.Plan {
	plan := request(req)
	plan.SubTasks = []boulder.Spec{{Description: plan.Task}}
	return plan
}

// Replan plans again what could not be done, by the contract of orchestrator.Planner: 1–5 new sub-tasks instead of
// req.Replaced, that depend on what is done, on what is kept, and on each other.
//
// Ids that are taken get a number ("toggle-2"). What the user wrote into a replaced sub-task stays in force: the gates
// of a sub-task stand at the last of the new ones that replace it, or at the last of all if none does, before the
// model's own; model, agent, priority, done_when and budget go over to each one that replaces it.
//
// Answers that cannot be used, and plans that are equal to an earlier one, go back to the model with what is wrong,
// three times. After that, and where the model refuses, the error wraps [boulder.ErrNoNewPlan].
func (p *Planner) Replan(ctx context.Context, req boulder.ReplanRequest) (boulder.Replacement, boulder.Usage, error) {
	if len(req.Replaced) == 0 {
		return boulder.Replacement{}, boulder.Usage{}, errors.New("make a new plan: there is nothing to replace")
	}
	schema := ledger.Schema[answer](nil, "facts", "goal", "constraints", "needs_plan")
	var made boulder.Replacement
	check := func(a *answer) (err error) {
		made, err = a.replacement(req)
		return err
	}
	said, spent, err := ledger.Ask(ctx, p.Completer, p.Logger, question(replanSystemPrompt, schema), check,
		replanPrompt(req, 1), replanPrompt(req, shorter))
	if errors.Is(err, ledger.ErrNoAnswer) {
		err = fmt.Errorf("%w: %w", boulder.ErrNoNewPlan, err)
	}
	if err != nil {
		return boulder.Replacement{}, spent, err
	}
	p.Logger.DebugContext(ctx, "replanned",
		"failed", req.Failed.ID, "sub_tasks", len(said.SubTasks), "reason", said.Reason)
	made.Model = p.Model
	return made, spent, nil
}

// simpleChars is the length up to which a task counts as short, in characters: about what people put into the first
// line of a commit message. Longer ones are shown to the model, which may still find that they need no plan.
const simpleChars = 80

// IsSimple reports whether a task is so small that planning it would cost more than it saves: at most 80 characters,
// one sentence, no list, and no word that says that something comes after something else.
func IsSimple(task string) bool {
	task = strings.TrimSpace(task)
	return task != "" && utf8.RuneCountInString(task) <= simpleChars && !severalSteps().MatchString(task)
}

// severalSteps matches what speaks for more than one step: another line; an end of a sentence with something behind it;
// a semicolon; a numbered or bulleted entry; an enumeration of three and more ("a, b and c"); a word of order.
var severalSteps = text.Regexp(`(?i)\n|[.!?]["')\]]*\s+\S|[。！？]\S|;|(^|\s)(\d+[.)]|[-*•])\s` +
	`|,[^,]+,|,[^,]+\s(and|or)\s|\b(then|after that|afterwards|finally|step \d)\b`)

// Seal gives a copy of a plan with a seal that lacks only the base commit: model is the ledger model that made it (empty if
// none was asked), now the time. In the copy, what may be left out is filled in, so that it has the hash that [Parse] will
// find.
func Seal(plan *boulder.Plan, origin boulder.Origin, model string, now time.Time) *boulder.Plan {
	p := new(plan.Clone())
	fill(p)
	p.Seal = &boulder.Seal{
		Hash: p.Hash(), Origin: origin, Model: model, CreatedAt: now.UTC().Truncate(time.Second),
	}
	return p
}

const (
	maxSubject = 80 // bounds a subject that is taken from another text, in characters
	maxNamed   = 5  // how many sub-tasks name a task that has no text of its own
)

// fill completes a plan with what may be left out, and gives what has several forms one, so that the same plan always
// has the same hash.
func fill(p *boulder.Plan) {
	if p.Version == 0 {
		p.Version = boulder.PlanVersion
	}
	if f := p.Facts; len(f.Given)+len(f.ToFind)+len(f.Guesses) == 0 {
		p.Facts = boulder.Facts{}
	}
	number(p.SubTasks)
	for i := range p.SubTasks {
		fillSubTask(&p.SubTasks[i])
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

// number gives sub-tasks without an id their number in the plan, or, where that is taken, the next free one after the
// last.
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
