package project

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/opencode"
)

// Proxied names those of some of OpenCode's providers in the local network for which it asks a proxy of the environment,
// with what to do. The environment of an attached server is not known.
func (p *Project) Proxied(c opencode.Catalogue, of []string) (all []string) {
	if p.attached != nil {
		return nil
	}
	for _, provider := range slices.Sorted(maps.Keys(c.Addresses)) {
		if slices.Contains(of, provider) {
			all = append(all, proxied(provider, c.Addresses[provider], p.AgentEnv())...)
		}
	}
	return all
}

// LedgerProxied is [Project.Proxied] for the provider of the ledger model, if it is asked directly.
func (p *Project) LedgerProxied() []string {
	provider, _, _ := strings.Cut(p.ledger, "/")
	for _, s := range p.Sources() {
		if p.direct && s.Name == provider {
			return proxied(provider, s.Address, p.opts.Environ)
		}
	}
	return nil
}

func proxied(provider, address string, environ []string) []string {
	variable, host := command.ProxyOf(environ, address)
	if variable == "" {
		return nil
	}
	return []string{fmt.Sprintf("%s at %s is in the local network, and is asked through the proxy in %s: if that cannot reach it, add %s to NO_PROXY",
		provider, host, variable, host)}
}

func (p *Project) warnOfProxies(all []string) {
	for _, said := range all {
		p.warn("the provider %s", said)
	}
}
