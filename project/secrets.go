package project

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/taskledger"
)

// learnSecrets makes the keys known that the configuration names, and refuses a secret in what it has run.
func (p *Project) learnSecrets() error {
	c := p.cfg
	for _, e := range c.Endpoints {
		if e.KeyEnv != "" {
			p.secrets.Add("the value of "+e.KeyEnv, p.getenv(e.KeyEnv))
		}
	}
	for name, commands := range map[string][]string{
		"gates": c.Gates, "no_worse": c.NoWorse, "tests": c.Tests.List, "lint": c.Lint.List,
	} {
		for i, command := range commands {
			if err := p.refuseSecret(fmt.Sprintf("configuration: %s[%d]", name, i), command); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuseSecret refuses a secret where it cannot be taken out: in what is run or used as it is written.
func (p *Project) refuseSecret(where, text string) error {
	kinds := p.secrets.Kinds(text)
	if len(kinds) == 0 {
		return nil
	}
	return usagef("%s holds %s, and everything that is run is stored and shown: put it into an environment variable and"+
		" write $NAME instead", where, strings.Join(kinds, " and "))
}

// CleanRequest takes secrets out of a request, before anybody is asked or anything is stored: what is planned, run,
// stored and taken up again after a crash is then the same text.
func (p *Project) CleanRequest(task string, constraints []string) (string, []string) {
	clean := secret.Each(append([]string{task}, constraints...), p.secrets.Text, p.secrets.JSON)
	if !slices.Equal(clean[1:], constraints) || clean[0] != task {
		p.WarnOfSecret("The task", p.secrets.Kinds(strings.Join(append([]string{task}, constraints...), "\n")))
	}
	return clean[0], clean[1:]
}

// ReadPlan reads a plan file without the secrets in it; in commands, ids and names of models they are refused.
func (p *Project) ReadPlan(path string) (*boulder.Plan, error) {
	plan, err := taskledger.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := p.refuseInPlan(plan); err != nil {
		return nil, err
	}
	var kinds []string
	clean := secret.Each(*plan, func(s string) string {
		for _, k := range p.secrets.Kinds(s) {
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
		return p.secrets.Text(s)
	}, p.secrets.JSON)
	if len(kinds) > 0 {
		p.WarnOfSecret("The plan "+path, kinds)
	}
	return &clean, nil
}

func (p *Project) refuseInPlan(plan *boulder.Plan) error {
	if err := p.refuseSecret("the plan's model", plan.Model); err != nil {
		return err
	}
	for _, s := range plan.SubTasks {
		fields := map[string][]string{
			"id": {s.ID}, "model": {s.Model}, "agent": {s.Agent}, "depends_on": s.DependsOn,
			"gates": s.Gates, "no_worse": s.NoWorse,
		}
		for name, values := range fields {
			for _, v := range values {
				if err := p.refuseSecret(fmt.Sprintf("%s of sub-task %q", name, p.secrets.Text(s.ID)), v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// WarnOfSecret says that a text held secrets, and what becomes of it.
func (p *Project) WarnOfSecret(what string, kinds []string) {
	p.note("%s holds %s. It reads %s from here on, also for the agents. If they need it, put it into an environment"+
		" variable and name that instead.", what, strings.Join(kinds, " and "), secret.Redacted)
}
