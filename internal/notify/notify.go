// Package notify tells the user how a run stands: with a command on this machine, with a webhook, or both.
//
// What is told is a [Message]: ids, counts and a path, and nothing that a user, a model or an agent wrote. Telling is
// bounded in time and never of consequence: an error is for a warning.
package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/text"
)

// Event is what the user can be told about.
type Event string

const (
	Finished Event = "finished" // every sub-task is completed
	Blocked  Event = "blocked"  // the user is waited for: for an answer, an approval, or because faults do not end
	Failed   Event = "failed"   // it is over or broken off, and not everything is done
	Budget   Event = "budget"   // a budget is used up
	Limited  Event = "limited"  // a model is refused for a while, and what needs it waits
)

// Words lists them.
func (Event) Words() []string {
	return []string{string(Finished), string(Blocked), string(Failed), string(Budget), string(Limited)}
}

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

// Notifier tells by Command, by Webhook, by both, or without either nobody.
type Notifier struct {
	// Command is a program with its arguments. It gets the message on standard input and in variables of its environment:
	// MANAGER_EVENT, MANAGER_BOULDER_ID, MANAGER_STATUS, MANAGER_TITLE, MANAGER_EXIT_CODE (empty while the run goes on)
	// and MANAGER_REPORT.
	Command []string
	Dir     string   // of the command
	Env     []string // of the command, besides

	// Webhook is an address that [ParseWebhook] gave. It gets the message in a POST request. It may hold a secret: it is in
	// no error and no log, but for its host.
	Webhook *url.URL
	// RetryWait is the pause before a request that failed is sent once more. Defaults to 1 s.
	RetryWait time.Duration

	// Timeout bounds each of the two ways, retries included. Defaults to [DefaultTimeout].
	Timeout time.Duration
	// Logger gets what the command printed, and what the webhook answered, as diagnostics.
	Logger *slog.Logger
}

// DefaultTimeout is how long a notification may take.
const DefaultTimeout = 10 * time.Second

// outputKept is how much of a command's output, and of a webhook's answer, is looked at, in bytes.
const outputKept = 4 << 10

// ParseWebhook checks an address. The error does not show it.
func ParseWebhook(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || strings.ContainsAny(u.Host, "$ ") {
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
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(n.Timeout, DefaultTimeout))
	defer cancel()
	var byCommand, byWebhook error
	var both sync.WaitGroup
	if len(n.Command) > 0 {
		both.Go(func() { byCommand = n.run(ctx, m, body) })
	}
	if n.Webhook != nil {
		both.Go(func() { byWebhook = n.post(ctx, body) })
	}
	both.Wait()
	return errors.Join(byCommand, byWebhook)
}

// failed is the error of one of the ways. That the time was over says more than what broke off then.
func (n *Notifier) failed(ctx context.Context, way string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("it did not end within %s (notify.timeout), and was stopped", cmp.Or(n.Timeout, DefaultTimeout))
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("the %s failed: %w", way, err)
}

// run runs the command in a process group of its own, which ends with it: nothing is left behind.
func (n *Notifier) run(ctx context.Context, m Message, body []byte) error {
	code := ""
	if m.ExitCode != nil {
		code = strconv.Itoa(*m.ExitCode)
	}
	program, name, out := n.Command[0], filepath.Base(n.Command[0]), &text.LastBytes{Limit: outputKept}
	cmd := exec.CommandContext(ctx, program, n.Command[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Env = n.Dir, bytes.NewReader(body), slices.Concat(n.Env, []string{
		"MANAGER_EVENT=" + string(m.Event), "MANAGER_BOULDER_ID=" + m.BoulderID, "MANAGER_STATUS=" + string(m.Status),
		"MANAGER_TITLE=" + m.Title, "MANAGER_EXIT_CODE=" + code, "MANAGER_REPORT=" + m.Report,
	})
	err := command.Run(cmd, out)
	n.Logger.Debug("notification command", "command", name, "output", text.Safe(out.String()))
	missing := ""
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		missing = program
	} else if err != nil && ctx.Err() == nil && cmd.ProcessState != nil {
		line := strings.Join(n.Command, " ")
		missing, _ = command.NotFound(n.Dir, line, cmd.ProcessState.ExitCode(), out.String())
		if !strings.Contains(line, missing) { // it is what a variable holds, which may be a secret
			missing = ""
		}
	}
	switch {
	case err == nil:
		return nil
	case missing != "":
		return fmt.Errorf("the notification command %s was not found: correct notify.command, or put the program on the PATH",
			missing)
	}
	return n.failed(ctx, "notification command "+name, err)
}

// post sends the message, and once more if nobody answered or the server was in trouble.
func (n *Notifier) post(ctx context.Context, body []byte) error {
	again, err := n.postOnce(ctx, body)
	if again {
		select {
		case <-time.After(cmp.Or(n.RetryWait, time.Second)):
			_, err = n.postOnce(ctx, body)
		case <-ctx.Done(): // what went wrong says more than that there is no time left
			return fmt.Errorf("the webhook at %s failed: %w", n.Webhook.Host, err)
		}
	}
	if err != nil {
		return n.failed(ctx, "webhook at "+n.Webhook.Host, err)
	}
	return nil
}

// postOnce reports besides the error whether it may pass.
func (n *Notifier) postOnce(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Webhook.String(), bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the request cannot be made") // the cause shows the address
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "manager")
	client := http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}, CheckRedirect: sameHost,
	}
	resp, err := client.Do(req)
	if err != nil {
		again = !errors.Is(err, errRedirect) && ctx.Err() == nil
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the address
		}
		return again, err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, outputKept)) // it is for diagnostics only
	n.Logger.Debug("webhook", "host", req.URL.Host, "status", resp.Status, "answer", text.Safe(string(answer)))
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	again = resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests
	return again, fmt.Errorf("it answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}

var errRedirect = errors.New("a redirect was not followed")

// sameHost follows a redirect only where it leads to the same host, is no less protected, and sends the message again.
func sameHost(req *http.Request, via []*http.Request) error {
	first, why := via[0].URL, ""
	switch {
	case len(via) > 3:
		why = "there are more than 3"
	case req.URL.Host != first.Host || req.URL.Scheme != first.Scheme:
		why = fmt.Sprintf("it leads to %s://%s: give the address that is meant", req.URL.Scheme, req.URL.Host)
	case req.Method != http.MethodPost:
		why = "it asks to fetch something instead: give the address that is meant"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", errRedirect, why)
}
