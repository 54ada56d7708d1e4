package project

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/ledger"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
)

// Probed is what came of asking a model once.
type Probed struct {
	Model  string // empty: OpenCode chose it
	Direct bool   // at its provider's, as ledgers are asked; else through OpenCode
	Usage  boulder.Usage
	Err    error // a [*providers.Error]; nil: it answered
	// Alone: no other model of some list that it is in has answered.
	Alone bool
}

// probeTime bounds the call of a model: what is slower is no answer to wait for.
const probeTime = time.Minute

// Probe asks each model of a plan, and each of the ledgers, one cheap question. model is that of sub-tasks that name none. Call [Project.ConnectOpenCode] and [Project.OpenLedger] before.
func (p *Project) Probe(ctx context.Context, plan *boulder.Plan, model boulder.Models) (all []*Probed) {
	var lists [][]*Probed
	var asked []providers.Completer // as all
	add := func(models boulder.Models, direct map[string]bool) {
		var list []*Probed
		names := models.All()
		if len(names) == 0 {
			names = []string{""} // OpenCode chooses it
		}
		for _, m := range names {
			at := slices.IndexFunc(all, func(one *Probed) bool { return one.Model == m && one.Direct == direct[m] })
			if at < 0 {
				at, all = len(all), append(all, &Probed{Model: m, Direct: direct[m]})
				if direct[m] {
					asked = append(asked, p.completers[m])
				} else {
					ref, _ := providers.ParseModel(m) // zero for none
					asked = append(asked, cleanCompleter{p.throughOpenCodeTo(ref), p.secrets})
				}
			}
			list = append(list, all[at])
		}
		lists = append(lists, list)
	}
	for _, s := range plan.SubTasks {
		add(cmp.Or(s.Model, plan.Model, model).Or(p.cfg.Models.Fallback), nil)
	}
	add(p.ledgers, p.direct)

	var work sync.WaitGroup
	for i, one := range all {
		work.Go(func() { one.ask(ctx, asked[i]) })
	}
	work.Wait()
	for _, list := range lists {
		if !slices.ContainsFunc(list, func(one *Probed) bool { return one.Err == nil }) {
			for _, one := range list {
				one.Alone = true
			}
		}
	}
	return all
}

// ask asks for next to nothing. An answer that is cut, odd or refused for its content is one: the model can be used.
func (one *Probed) ask(ctx context.Context, at providers.Completer) {
	within, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	resp, err := at.Complete(within, &providers.Request{
		Messages: []providers.Message{{Role: providers.RoleUser, Text: `Answer with {"ok": true}.`}}, SchemaName: "probe", MaxOutputTokens: 64,
		Schema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}`),
	})
	if failure, failed := errors.AsType[*providers.Error](err); !failed {
		one.Usage = resp.Usage
	} else if one.Usage = failure.Usage; ledger.Outage(ctx, err) != nil {
		one.Err = failure
	}
	one.Usage.Calls++
}

// throughOpenCodeTo returns the way to ask a model through OpenCode; zero: one of its choice.
func (p *Project) throughOpenCodeTo(ref providers.ModelRef) providers.Completer {
	asked := &ocprovider.Completer{Host: p.host, Directory: p.dir, Agent: ocprovider.Agent, Model: opencode.ModelRef{ProviderID: ref.Provider, ModelID: ref.Model}}
	return providers.WithPrices(asked, ref, p.cfg.Prices)
}
