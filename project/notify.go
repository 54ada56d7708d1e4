package project

import (
	"context"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/project/internal/notify"
	"github.com/bouldermgr/manager/project/internal/tracing"
)

// Notifier tells the user that a run has ended or waits, with a command, a webhook, or both.
type Notifier = notify.Notifier

// Notification is what it sends.
type Notification = notify.Message

// NotifyEvent is what a notification is about.
type NotifyEvent = notify.Event

// The events of a [Notification].
const (
	NotifyFinished = notify.Finished
	NotifyBlocked  = notify.Blocked
	NotifyFailed   = notify.Failed
	NotifyBudget   = notify.Budget
	NotifyLimited  = notify.Limited
)

// Notifier returns the notifier that the configuration describes. It may have neither command nor webhook.
func (p *Project) Notifier() (*Notifier, error) {
	c := p.cfg.Notify
	webhook, err := c.Address(p.getenv)
	if err != nil {
		return nil, &UsageError{Err: err}
	}
	env, err := p.environ()
	return &Notifier{
		Command: c.Program(), Dir: p.dir, Env: env, Webhook: webhook, Timeout: c.Timeout, Logger: p.log,
	}, err
}

// SendTrace sends the log of a boulder to the configured OpenTelemetry collector, if there is one.
func (p *Project) SendTrace(ctx context.Context, events []boulder.Event) error {
	if p.cfg.Tracing.Endpoint == "" {
		return nil
	}
	return tracing.Export(ctx, p.cfg.Tracing.Endpoint, events)
}
