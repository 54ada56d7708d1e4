package progressledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/ledger"
)

// maxEvidence bounds the evidence in a prompt, in characters, with headings. Short parts are kept whole; long ones
// share the rest. A model to which that is too long gets a third.
const maxEvidence = 30_000

// Judge is the Progress Ledger, of sub-tasks ([Judge.Judge]) and of the whole request ([Judge.Check]). It is stateless and safe for concurrent use.
type Judge struct {
	Completer providers.Completer // answers; it retries ([providers.WithRetry])
	// Others answer requests that name another model, by provider/model.
	Others map[string]providers.Completer
	Logger *slog.Logger
}

// by returns what answers for a model; empty: the judge's own.
func (j *Judge) by(model string) providers.Completer {
	if c := j.Others[model]; c != nil {
		return c
	}
	return j.Completer
}

func (j *Judge) log() *slog.Logger { return cmp.Or(j.Logger, slog.New(slog.DiscardHandler)) }

// Judge returns a normalised verdict on a turn with evidence, by the contract of orchestrator.Judge. If the request
// says RulesFirst and a rule forbids completion, no model is asked.
//
// Without a usable answer the rules decide, and the verdict says JudgeUnavailable: completed if all gates hold and one
// of them shows that the work is done, not completed if a rule forbids it. Otherwise the error is a
// [*boulder.TroubleError] of [boulder.TroubleJudge], and the same turn may be judged again later.
func (j *Judge) Judge(ctx context.Context, req boulder.JudgeRequest) (boulder.Verdict, boulder.Usage, error) {
	rules, e := applyRules(req), req.Turn.Evidence
	if !req.SubTask.DoneNeeds(boulder.DoneJudge) {
		// Without a green gate the turn must at least have ended by itself.
		if why := unfinished(e); why != "" && !gateProves(req) && rules.cutOff == "" {
			rules.undone = append(rules.undone, why)
		}
		return rules.verdict(e), boulder.Usage{}, nil
	}
	v := rules.verdict(e)
	if req.RulesFirst && !v.Completed {
		return v, boulder.Usage{}, nil
	}
	question := providers.Request{System: systemPrompt, Schema: schema(req), SchemaName: "verdict"}
	answer, spent, err := ledger.Ask(ctx, j.by(req.Model), j.log(), question, (*Answer).check,
		userPrompt(req, maxEvidence), userPrompt(req, maxEvidence/3))
	switch {
	case err == nil:
		return Normalize(req, answer), spent, nil
	case !errors.Is(err, ledger.ErrNoAnswer):
		return boulder.Verdict{}, spent, fmt.Errorf("judge sub-task %q: %w", req.SubTask.ID, err)
	}
	j.log().WarnContext(ctx, "the judge gave no usable answer, the rules decide alone",
		"sub_task", req.SubTask.ID, "attempt", req.Attempt.Attempt, "turn", req.Turn.Number, "error", err)
	if v.Completed && !gateProves(req) {
		return boulder.Verdict{}, spent, fmt.Errorf("judge sub-task %q: no gate shows whether it is complete: %w",
			req.SubTask.ID, &boulder.TroubleError{Kind: boulder.TroubleJudge, Err: err})
	}
	// It claims no progress; JudgeUnavailable keeps it out of the count of stalls.
	v.IsProgress, v.JudgeUnavailable = v.Completed, true
	return v, spent, nil
}
