package cli

import (
	"fmt"
	"github.com/bouldermgr/manager/internal/config"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/taskledger"
)

// guarded is a stream to which no secret is written, whoever writes: views, diagnostics, errors of libraries.
//
// A secret is found within one write. The package writes whole lines, and what is drawn piece by piece, the live
// view, goes to the terminal itself and is made of events that were cleaned before.
type guarded struct {
	stream  io.Writer
	secrets *secret.Redactor
	failed  *atomic.Pointer[error] // the first error of a write; nil: nobody asks
}

func (g guarded) Write(p []byte) (int, error) {
	clean := g.secrets.Text(string(p))
	if clean != string(p) && strings.HasPrefix(string(p), "{") { // an event: it stays one
		clean = string(g.secrets.JSON(p))
	}
	if _, err := io.WriteString(g.stream, clean); err != nil {
		if g.failed != nil {
			g.failed.CompareAndSwap(nil, &err)
		}
		return 0, err
	}
	return len(p), nil
}

// bare is the stream behind a guarded one: for what has to be a terminal, and guards its own output or shows what is
// clean.
func bare(stream io.Writer) io.Writer {
	for {
		g, ok := stream.(guarded)
		if !ok {
			return stream
		}
		stream = g.stream // `demo` runs command lines inside of one
	}
}

// fileOf is the file that a stream writes to or reads from, if it is one.
func fileOf(stream any) (*os.File, bool) {
	if w, ok := stream.(guarded); ok {
		stream = bare(w)
	}
	f, ok := stream.(*os.File)
	return f, ok
}

// learnSecrets makes the keys known that the configuration names, and refuses a secret in what it has run.
func (a *app) learnSecrets(c *config.Config) error {
	for _, e := range c.Endpoints {
		if e.KeyEnv != "" {
			a.secrets.Add("the value of "+e.KeyEnv, a.Getenv(e.KeyEnv))
		}
	}
	for name, commands := range map[string][]string{
		"gates": c.Gates, "no_worse": c.NoWorse, "tests": c.Tests.List, "lint": c.Lint.List,
	} {
		for i, command := range commands {
			if err := a.refuseSecret(fmt.Sprintf("configuration: %s[%d]", name, i), command); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuseSecret refuses a secret where it cannot be taken out: in what is run or used as it is written.
func (a *app) refuseSecret(where, text string) error {
	kinds := a.secrets.Kinds(text)
	if len(kinds) == 0 {
		return nil
	}
	return usagef("%s holds %s, and everything that is run is stored and shown: put it into an environment variable and"+
		" write $NAME instead", where, strings.Join(kinds, " and "))
}

// cleanRequest takes secrets out of a request, before anybody is asked or anything is stored: what is planned, run,
// stored and taken up again after a crash is then the same text.
func (a *app) cleanRequest(task string, constraints []string) (string, []string) {
	clean := secret.Each(append([]string{task}, constraints...), a.secrets.Text, a.secrets.JSON)
	if !slices.Equal(clean[1:], constraints) || clean[0] != task {
		a.warnOfSecret("The task", a.secrets.Kinds(strings.Join(append([]string{task}, constraints...), "\n")))
	}
	return clean[0], clean[1:]
}

// readPlan reads a plan file without the secrets in it; in commands, ids and names of models they are refused.
func (a *app) readPlan(path string) (*boulder.Plan, error) {
	plan, err := taskledger.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := a.refuseInPlan(plan); err != nil {
		return nil, err
	}
	var kinds []string
	clean := secret.Each(*plan, func(s string) string {
		for _, k := range a.secrets.Kinds(s) {
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
		return a.secrets.Text(s)
	}, a.secrets.JSON)
	if len(kinds) > 0 {
		a.warnOfSecret("The plan "+a.pretty(path), kinds)
	}
	return &clean, nil
}

func (a *app) refuseInPlan(plan *boulder.Plan) error {
	if err := a.refuseSecret("the plan's model", plan.Model); err != nil {
		return err
	}
	for _, s := range plan.SubTasks {
		fields := map[string][]string{
			"id": {s.ID}, "model": {s.Model}, "agent": {s.Agent}, "depends_on": s.DependsOn,
			"gates": s.Gates, "no_worse": s.NoWorse,
		}
		for name, values := range fields {
			for _, v := range values {
				if err := a.refuseSecret(fmt.Sprintf("%s of sub-task %q", name, a.secrets.Text(s.ID)), v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (a *app) warnOfSecret(what string, kinds []string) {
	a.note("%s holds %s. It reads %s from here on, also for the agents. If they need it, put it into an environment"+
		" variable and name that instead.", what, strings.Join(kinds, " and "), secret.Redacted)
}

// cleanEvent is an event whose texts hold no secrets. Most were cleaned where they came from; this covers the rest:
// what a ledger's model said, what an error quotes.
func (a *app) cleanEvent(e boulder.Event) boulder.Event {
	e.Body = secret.Each(e.Body, a.secrets.Text, a.secrets.JSON)
	return e
}
