package project

import (
	"context"

	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/providers"
)

// cleanCompleter takes secrets out of what the ledgers' model says before the run gets it. The database would do it too,
// but then a run that was taken up again would go on with other texts than one that was not.
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
