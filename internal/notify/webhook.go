package notify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

// redirectsFollowed is how many are, within one host.
const redirectsFollowed = 3

// post sends the message, and once more if nobody answered or the server was in trouble.
func (n *Notifier) post(ctx context.Context, body []byte) error {
	hook, err := ParseWebhook(n.Webhook)
	if err != nil {
		return err
	}
	again, err := n.postOnce(ctx, body)
	if again {
		select {
		case <-time.After(cmp.Or(n.RetryWait, time.Second)):
			_, err = n.postOnce(ctx, body)
		case <-ctx.Done(): // what went wrong says more than that there is no time left
			return fmt.Errorf("the webhook at %s failed: %w", hook.Host, err)
		}
	}
	if err != nil {
		return n.failed(ctx, "webhook at "+hook.Host, err)
	}
	return nil
}

// postOnce reports besides the error whether it may pass.
func (n *Notifier) postOnce(ctx context.Context, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Webhook, bytes.NewReader(body))
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
	case len(via) > redirectsFollowed:
		why = fmt.Sprintf("there are more than %d", redirectsFollowed)
	case req.URL.Host != first.Host || req.URL.Scheme != first.Scheme:
		why = fmt.Sprintf("it leads to %s://%s: give the address that is meant", req.URL.Scheme, req.URL.Host)
	case req.Method != http.MethodPost:
		why = "it asks to fetch something instead: give the address that is meant"
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", errRedirect, why)
}
