package project

import (
	"slices"

	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/anthropic"
	"github.com/bouldermgr/manager/providers/gemini"
	"github.com/bouldermgr/manager/providers/openai"
)

// Sources lists all providers that the ledgers can ask directly, in order of preference. An endpoint of the
// configuration takes the place of the built-in provider whose name it has; the others come last.
func (p *Project) Sources() []providers.Source {
	opts := openai.Options{Logger: p.log}
	all := []providers.Source{
		anthropic.Source(p.getenv, opts), openai.Source(p.getenv, opts), gemini.Source(p.getenv, opts), openai.XAI(opts),
	}
	for _, e := range p.cfg.Endpoints {
		if i := slices.IndexFunc(all, func(s providers.Source) bool { return s.Name == e.Name }); i >= 0 {
			all[i] = e.Source(opts)
		} else {
			all = append(all, e.Source(opts))
		}
	}
	return all
}
