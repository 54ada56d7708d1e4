// Package notify tells somebody how a run stands: with a command on this machine, with a webhook, or both.
//
// What is told is a [Message]: ids, counts and a path, and nothing that a person, a model or an agent wrote. Telling is
// bounded in time and never of consequence: an error is for a warning.
package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// Event is what somebody can be told about.
type Event string

// The events.
const (
	Finished Event = "finished" // every sub-task is completed
	Blocked  Event = "blocked"  // a person is waited for: for an answer, an approval, or because faults do not end
	Failed   Event = "failed"   // it is over or broken off, and not everything is done
	Budget   Event = "budget"   // a budget is used up
)

// Events lists them.
func Events() []Event { return []Event{Finished, Blocked, Failed, Budget} }

// Message is the body of a webhook's request, and what a command gets on its standard input: one JSON object. Fields are
// added in later versions, never changed.
type Message struct {
	Type      string         `json:"type"` // notification
	Event     Event          `json:"event"`
	Time      time.Time      `json:"time"`
	BoulderID string         `json:"boulder_id"`
	Status    boulder.Status `json:"status"`
	Title     string         `json:"title"`     // a sentence
	Project   string         `json:"project"`   // the last element of its path
	Tally     boulder.Tally  `json:"sub_tasks"` // how many in which state
	// Awaited is how many blockers a sub-task waits for.
	Awaited int `json:"awaited"`
	// ExitCode is that of the run; null while the run goes on.
	ExitCode *int   `json:"exit_code"`
	Report   string `json:"report,omitempty"` // path of the report, relative to the project
}

// Config says how to tell. One of Command and Webhook is needed.
type Config struct {
	// Command is a program with its arguments. It gets the message on standard input and in variables of its environment:
	// MANAGER_EVENT, MANAGER_BOULDER_ID, MANAGER_STATUS, MANAGER_TITLE, MANAGER_EXIT_CODE (empty while the run goes on)
	// and MANAGER_REPORT.
	Command []string
	Dir     string   // of the command
	Env     []string // of the command, besides; defaults to none

	// Webhook is an http or https address that gets the message in a POST request. It may hold a secret: it is in no
	// error and no log, but for its host.
	Webhook string
	// Transport defaults to Go's.
	Transport http.RoundTripper
	// RetryWait is the pause before a request that failed is sent once more. Defaults to 1 s.
	RetryWait time.Duration

	// Timeout bounds each of the two ways, retries included. Defaults to [DefaultTimeout].
	Timeout time.Duration
	// Logger gets what the command printed, and what the webhook answered, as diagnostics. Defaults to none.
	Logger *slog.Logger
}

// DefaultTimeout is how long a notification may take.
const DefaultTimeout = 10 * time.Second

// Notifier tells. Its methods may be called from any goroutine.
type Notifier struct {
	cfg  Config
	hook *url.URL // nil: none
}

// New checks the configuration and fills in the defaults.
func New(cfg Config) (_ *Notifier, err error) {
	n := &Notifier{cfg: cfg}
	switch {
	case len(cfg.Command) == 0 && cfg.Webhook == "":
		return nil, errors.New("notify: neither a command nor a webhook is given")
	case len(cfg.Command) > 0 && cfg.Command[0] == "":
		return nil, errors.New("notify: the command is empty")
	case cfg.Timeout < 0 || cfg.RetryWait < 0:
		return nil, errors.New("notify: a time is below zero")
	case cfg.Webhook != "":
		if n.hook, err = ParseWebhook(cfg.Webhook); err != nil {
			return nil, err
		}
	}
	n.cfg.Timeout, n.cfg.RetryWait = cmp.Or(cfg.Timeout, DefaultTimeout), cmp.Or(cfg.RetryWait, time.Second)
	n.cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return n, nil
}

// ParseWebhook checks an address. The error does not show it.
func ParseWebhook(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the webhook is no address: it must be like https://example.com/hook")
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || strings.ContainsAny(u.Host, "$ ") {
		return nil, errors.New("the webhook must be an http or https address, like https://example.com/hook")
	}
	return u, nil
}

// Send tells both ways at the same time, and returns when both are done or given up. The error joins those of both; it
// holds no secret of the configuration.
func (n *Notifier) Send(ctx context.Context, m Message) error {
	m.Type = "notification"
	body, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("notification: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, n.cfg.Timeout)
	defer cancel()
	var byCommand, byWebhook error
	var both sync.WaitGroup
	if len(n.cfg.Command) > 0 {
		both.Go(func() { byCommand = n.run(ctx, m, body) })
	}
	if n.hook != nil {
		both.Go(func() { byWebhook = n.post(ctx, body) })
	}
	both.Wait()
	return errors.Join(byCommand, byWebhook)
}

// outputKept is how much of a command's output, and of a webhook's answer, is looked at, in bytes.
const outputKept = 4 << 10

// failed is the error of one of the ways. That the time was over says more than what broke off then.
func (n *Notifier) failed(ctx context.Context, way string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("it did not end within %s (notify.timeout), and was stopped", n.cfg.Timeout)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("the %s failed: %w", way, err)
}
