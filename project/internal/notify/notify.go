// Package notify tells the user how a run stands: with a command on this machine, with a webhook, or both.
//
// A [Message] holds ids, counts, a path, and the answer that a model wrote for the user, but no other text from a user, a
// model or an agent. Sending is bounded in time.
// Its failure never affects the run: callers only print a warning.
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
	Blocked  Event = "blocked"  // the boulder waits for the user: an answer, an approval, or repeated faults
	Failed   Event = "failed"   // the boulder is over, or the run broke off, and not everything is done
	Budget   Event = "budget"   // a budget is used up
	Limited  Event = "limited"  // a provider refuses a model for a while, so sub-tasks wait for it
)

// Words lists the events that a configuration may name.
func (Event) Words() []string {
	return []string{string(Finished), string(Blocked), string(Failed), string(Budget), string(Limited)}
}

// Message is the JSON object that the command and the webhook get. Later versions add fields, but never change any.
type Message struct {
	Type      string         `json:"type"` // notification
	Event     Event          `json:"event"`
	Time      time.Time      `json:"time"`
	BoulderID string         `json:"boulder_id"`
	Status    boulder.Status `json:"status"`
	Title     string         `json:"title"`            // a sentence
	Answer    string         `json:"answer,omitempty"` // at the end of a boulder, if a model wrote one; at most 2,000 characters
	Project   string         `json:"project"`          // the last element of its path
	Tally     boulder.Tally  `json:"sub_tasks"`        // how many are in which state
	Awaited   int            `json:"awaited"`          // unanswered blockers that sub-tasks wait for
	ExitCode  *int           `json:"exit_code"`        // of the run; null while it is running
	Report    string         `json:"report,omitempty"` // path, relative to the project
}

// Notifier sends messages to Command, to Webhook, or to both. With neither, it sends nothing.
type Notifier struct {
	// Command is a program with its arguments. It gets the message on standard input, and in the environment variables
	// MANAGER_EVENT, MANAGER_BOULDER_ID, MANAGER_STATUS, MANAGER_TITLE, MANAGER_EXIT_CODE (empty while the run is
	// running) and MANAGER_REPORT.
	Command []string
	Dir     string   // working directory of the command
	Env     []string // environment of the command, without the variables above

	// Webhook comes from [ParseWebhook]. It may hold a secret: errors and logs show only its host.
	Webhook *url.URL
	// RetryWait is the pause before the one retry of a failed request. Defaults to 1 s.
	RetryWait time.Duration

	// Timeout bounds command and webhook each, including the retry. Defaults to [DefaultTimeout].
	Timeout time.Duration
	// Logger gets the output of the command and the answer of the webhook at debug level.
	Logger *slog.Logger
}

// DefaultTimeout bounds a notification.
const DefaultTimeout = 10 * time.Second

// outputKept is how many bytes of a command's output, and of a webhook's answer, are read.
const outputKept = 4 << 10

// ParseWebhook parses and checks an address. The error does not contain it.
func ParseWebhook(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || strings.ContainsAny(u.Host, "$ ") {
		return nil, errors.New("the webhook must be an http or https address, like https://example.com/hook")
	}
	return u, nil
}

// Send runs command and webhook concurrently and waits for both. The error joins theirs and holds no configured secret.
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

// wrapError wraps the error of the command or the webhook. A timeout replaces the error that it caused, which says less.
func (n *Notifier) wrapError(ctx context.Context, channel string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("it did not end within %s (notify.timeout), and was stopped", cmp.Or(n.Timeout, DefaultTimeout))
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return fmt.Errorf("the %s failed: %w", channel, err)
}

// run runs the command in its own process group, which is killed when the command ends.
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
		if !strings.Contains(line, missing) { // the name came from a variable, whose value may be a secret
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
	return n.wrapError(ctx, "notification command "+name, err)
}

// post sends the message, and retries once if there was no answer or a temporary error.
func (n *Notifier) post(ctx context.Context, body []byte) error {
	again, err := n.postOnce(ctx, body)
	if again {
		select {
		case <-time.After(cmp.Or(n.RetryWait, time.Second)):
			_, err = n.postOnce(ctx, body)
		case <-ctx.Done(): // the first error says more than the timeout
			return fmt.Errorf("the webhook at %s failed: %w", n.Webhook.Host, err)
		}
	}
	if err != nil {
		return n.wrapError(ctx, "webhook at "+n.Webhook.Host, err)
	}
	return nil
}

// postOnce also reports whether a retry may succeed.
func (n *Notifier) postOnce(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Webhook.String(), bytes.NewReader(body))
	if err != nil {
		return false, errors.New("the request cannot be made") // without the cause, which contains the address
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
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, outputKept)) // for diagnostics only
	n.Logger.Debug("webhook", "host", req.URL.Host, "status", resp.Status, "answer", text.Safe(string(answer)))
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	again = resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests
	return again, fmt.Errorf("it answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
}

var errRedirect = errors.New("a redirect was not followed")

// sameHost follows at most 3 redirects, and only those that post the message again to the same scheme and host.
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
