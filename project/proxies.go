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

// LedgerProxied is [Project.Proxied] for the providers of the ledgers' models that are asked directly.
func (p *Project) LedgerProxied() (all []string) {
	for _, s := range p.Sources() {
		if slices.ContainsFunc(p.ledgers.All(), func(m string) bool { return p.direct[m] && strings.HasPrefix(m, s.Name+"/") }) {
			all = append(all, proxied(s.Name, s.Address, p.opts.Environ)...)
		}
	}
	return all
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
