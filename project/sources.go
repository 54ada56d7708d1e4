package project

import (
	"cmp"
	"slices"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/anthropic"
	"github.com/bouldermgr/manager/providers/gemini"
	"github.com/bouldermgr/manager/providers/openai"
)

// preferred is the order in which providers whose keys are set are taken for the ledgers; endpoints of the
// configuration come after these, in their own order.
var preferred = []string{"anthropic", "openai", "google", "xai"}

// Sources lists all providers that the ledgers can ask directly, in order of preference. An endpoint of the
// configuration takes the place of the built-in provider whose name it has.
func (p *Project) Sources() ([]providers.Source, error) {
	getenv := p.getenv
	all, err := openai.Sources(getenv, p.cfg.Endpoints, openai.Options{Logger: p.log})
	if err != nil {
		return nil, usagef("configuration: %v", err)
	}
	builtin := slices.Concat(
		anthropic.Sources(getenv, anthropic.Options{Logger: p.log}), gemini.Sources(getenv, gemini.Options{Logger: p.log}),
	)
	for _, s := range builtin {
		if !slices.ContainsFunc(p.cfg.Endpoints, func(e openai.Endpoint) bool { return e.Name == s.Name }) {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b providers.Source) int { return cmp.Compare(preference(a), preference(b)) })
	return all, nil
}

func preference(s providers.Source) int {
	if i := slices.Index(preferred, s.Name); i >= 0 {
		return i
	}
	return len(preferred)
}
