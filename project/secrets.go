package project

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/providers"
)

// learnSecrets registers the secrets that the configuration names, and refuses commands that contain a secret.
func (p *Project) learnSecrets() error {
	c := p.cfg
	if u, err := c.Notify.Address(p.getenv); err == nil && u != nil { // who knows the address can post to it
		password, _ := u.User.Password()
		p.secrets.Add("the webhook's address", u.String(), u.RequestURI(), password)
	}
	for _, e := range c.Endpoints {
		if e.KeyEnv != "" {
			p.secrets.Add("the value of "+e.KeyEnv, p.getenv(e.KeyEnv))
		}
	}
	all := c.Commands()
	all["slots.setup"], all["slots.env"] = c.Slots.Setup, c.Slots.Environ()
	for name, commands := range all {
		for i, command := range commands {
			if err := p.refuseSecret(fmt.Sprintf("configuration: %s[%d]", name, i), command); err != nil {
				return err
			}
		}
	}
	return nil
}

// refuseSecret refuses a secret where redaction would change the meaning: in commands and names.
func (p *Project) refuseSecret(where string, texts ...string) error {
	kinds := p.secrets.Kinds(strings.Join(texts, "\n"))
	if len(kinds) == 0 {
		return nil
	}
	return usagef("%s holds %s, and everything that is run is stored and shown: put it into an environment variable and"+
		" write $NAME instead", where, strings.Join(kinds, " and "))
}

// Clean takes secrets out of the user's texts before they are used or stored, so that a plan, a run and a resume after
// a crash see the same text. It notes to the user that something was taken out.
func (p *Project) Clean(what string, texts ...string) []string {
	clean := secret.Each(texts, p.secrets)
	if !slices.Equal(clean, texts) {
		p.warnOfSecret(what, p.secrets.Kinds(strings.Join(texts, "\n")))
	}
	return clean
}

func (p *Project) warnOfSecret(what string, kinds []string) {
	p.note("%s holds %s. It reads %s from here on, also for the agents. If they need it, put it into an environment"+
		" variable and name that instead.", what, strings.Join(kinds, " and "), secret.Redacted)
}

// cleanCompleter takes secrets out of the answers of the ledgers' model before the run uses them. The database would do
// that too, but then a resumed run would continue with other texts.
type cleanCompleter struct {
	providers.Completer
	secrets *secret.Redactor
}

func (c cleanCompleter) Complete(ctx context.Context, req *providers.Request) (*providers.Response, error) {
	answer, err := c.Completer.Complete(ctx, req)
	if answer != nil {
		answer.Text = string(c.secrets.JSON([]byte(answer.Text)))
	}
	return answer, err
}
