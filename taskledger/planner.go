package taskledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/ledger"
	"github.com/bouldermgr/manager/providers"
)

const (
	// maxPromptTask bounds the task in the prompt, in characters; the plan itself keeps all of it.
	maxPromptTask = 60_000
	// shortPromptTask is the bound of the second try, for a model to which the first was too long.
	shortPromptTask = 8_000
	// maxAnswer bounds the model's answer, in tokens, its reasoning included. Structured doubles it once.
	maxAnswer = 8_192
)

// Config is what a Planner works with.
type Config struct {
	// Completer is asked. It retries by itself ([providers.WithRetry]), and it decides which model answers. Required.
	Completer providers.Completer
	// Model is what the seal calls the ledger model, as provider/model. It is not sent. Defaults to no name.
	Model string
	// SimpleChars is the length, in characters, up to which a task can be simple, see [IsSimple]. Defaults to 80;
	// negative: no task is simple.
	SimpleChars int
	// Now is the clock of the seal. Defaults to time.Now.
	Now func() time.Time
	// Logger defaults to none.
	Logger *slog.Logger
}

// Planner is the Task Ledger. It keeps nothing between calls and may be used from many goroutines.
type Planner struct{ cfg Config }

// New checks the configuration and fills in the defaults.
func New(cfg Config) (*Planner, error) {
	if cfg.Completer == nil {
		return nil, errors.New("taskledger: Config.Completer is nil")
	}
	if cfg.SimpleChars == 0 {
		cfg.SimpleChars = simpleChars
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Planner{cfg: cfg}, nil
}

// Plan turns a request into a valid plan, with a seal that lacks only the base commit. It blocks until the model has
// answered, minutes perhaps; a simple task, or one that shall not be split, is a plan of one sub-task without asking.
//
// Answers that cannot be used go back to the model with what is wrong, three times. After that, and where the model
// refuses, the plan is the whole request as one sub-task, with [boulder.OriginFallback].
//
// The error is the cause of ctx's end; or wraps [boulder.ErrFatal] where every further call would end the same way
// (key, credit, a request that the provider does not accept); or wraps [boulder.ErrTrouble] where a later one may not
// (network, overload, rate limit: the [*boulder.TroubleError] says when). The usage is valid with an error too. The
// gates in the plan are the model's: whether they may run is decided elsewhere.
func (p *Planner) Plan(ctx context.Context, req boulder.PlanRequest) (*boulder.Plan, boulder.Usage, error) {
	if blank(req.Task) {
		return nil, boulder.Usage{}, errors.New("make a plan: there is no task: say what to do")
	}
	if req.Mode == boulder.PlanNever || req.Mode == boulder.PlanAuto && IsSimple(req.Task, p.cfg.SimpleChars) {
		return p.seal(single(req), boulder.OriginDirect, ""), boulder.Usage{}, nil
	}
	schema := ledger.Schema[answer](nil, "sub_tasks.replaces")
	check := func(a *answer) error {
		_, err := a.plan(req)
		return err
	}
	said, spent, err := ledger.Ask(ctx, p.cfg.Completer, p.cfg.Logger, question(systemPrompt, schema), check,
		userPrompt(req, promptLimits{task: maxPromptTask, files: true}), userPrompt(req, promptLimits{task: shortPromptTask}))
	switch {
	case errors.Is(err, ledger.ErrNoAnswer):
		p.cfg.Logger.WarnContext(ctx, "the model gave no usable plan, the task stays whole", "error", err)
		return p.seal(single(req), boulder.OriginFallback, p.cfg.Model), spent, nil
	case err != nil:
		return nil, spent, fmt.Errorf("make a plan: %w", err)
	}
	p.cfg.Logger.DebugContext(ctx, "planned", "sub_tasks", len(said.SubTasks), "reason", said.Reason)
	plan, err := said.plan(req)
	if err != nil {
		return nil, spent, err
	}
	origin := boulder.OriginModel
	if said.direct(req.Mode) {
		origin = boulder.OriginDirect
	}
	return p.seal(plan, origin, p.cfg.Model), spent, nil
}

func question(system string, schema json.RawMessage) providers.Request {
	return providers.Request{System: system, Schema: schema, SchemaName: "task_ledger", MaxOutputTokens: maxAnswer}
}

func (p *Planner) seal(plan *boulder.Plan, origin boulder.Origin, model string) *boulder.Plan {
	return Seal(plan, "", origin, model, p.cfg.Now())
}

// single is the whole request as one sub-task.
func single(req boulder.PlanRequest) *boulder.Plan {
	plan := request(req)
	plan.SubTasks = []boulder.Spec{{Description: plan.Task}}
	return plan
}
