package opencode

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/bouldermgr/manager/internal/text"
)

const (
	defaultUsername     = "opencode" // the server's default if only a password is set
	defaultCallTimeout  = 30 * time.Second
	defaultEventSilence = 30 * time.Second // the server sends a heartbeat every 10 s

	maxBody         = 64 << 20 // bytes of an answer, or of a value in a list that is decoded while it arrives
	maxScanned      = 1 << 30  // bytes of such a list
	maxErrorMessage = 600      // characters of a server's answer in an error
)

// AttachConfig configures the connection to a server.
type AttachConfig struct {
	Username string // for HTTP basic authentication. Defaults to the one in the address, else "opencode".
	// Password for HTTP basic authentication. Defaults to the one in the address. Without one no credentials are sent.
	Password string
	// CallTimeout bounds every call, as does the caller's context, except [API.Ask], which waits for a model. A sixth
	// of it bounds the removal of that question's session. Defaults to 30 s.
	CallTimeout time.Duration
	// BootTimeout bounds the wait, once for a directory, for its models and agents (OpenCode 2). Defaults to 30 s.
	BootTimeout time.Duration
	// EventSilence is how long the event stream may bring nothing, not even a heartbeat. Defaults to 30 s.
	EventSilence time.Duration
	// Slow, if set, is told in words, on another goroutine and until the client is closed, what holds the first turn up.
	Slow   func(text string)
	Logger *slog.Logger // logs reconnects and undecodable events. Defaults to none.
}

// Client is a connection to one OpenCode server. It is safe for concurrent use. Close it when done: a subscription
// keeps a goroutine and a connection open.
type Client struct {
	base    *url.URL // without credentials
	cfg     AttachConfig
	log     *slog.Logger
	http    *http.Client
	events  *hub
	version string
	backend backend
	watched sync.Once // what holds the first turn up

	maxEvent int // bytes of one event as sent; a longer one ends the connection
}

// Attach connects to the server at an address and checks that it answers. The error matches [ErrBadAddress],
// [ErrUnavailable] or [ErrUnauthorized], or is a [*VersionError] if the server cannot be used. The caller closes the
// client, which does not stop the server.
func Attach(ctx context.Context, address string, cfg AttachConfig) (*Client, error) {
	c, err := newClient(address, cfg)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(c.cfg.CallTimeout)
	for err = c.handshake(ctx); slow(err) && ctx.Err() == nil && time.Now().Before(deadline); err = c.handshake(ctx) {
		_ = pause(ctx, bootingPause) // the loop condition checks ctx
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("attach to %s: %w", c.base.Redacted(), err)
	}
	return c, nil
}

func newClient(address string, cfg AttachConfig) (*Client, error) {
	base, err := url.Parse(address)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("opencode: %q %w, such as http://127.0.0.1:4096", address, ErrBadAddress)
	}
	password, _ := base.User.Password()
	cfg.Username = cmp.Or(cfg.Username, base.User.Username(), defaultUsername)
	cfg.Password = cmp.Or(cfg.Password, password)
	base.User = nil
	cfg.BootTimeout = cmp.Or(cfg.BootTimeout, v2boot)
	cfg.CallTimeout = cmp.Or(cfg.CallTimeout, defaultCallTimeout)
	cfg.EventSilence = cmp.Or(cfg.EventSilence, defaultEventSilence)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 32 // one per running session; the default is 2
	transport.ReadBufferSize = 32 << 10
	c := &Client{
		base: base, cfg: cfg, log: cfg.Logger, maxEvent: maxEvent,
		http: &http.Client{
			Transport: transport,
			// Following a redirect would send the password to its target.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	c.events = &hub{client: c, subs: map[*Subscription]struct{}{}}
	c.events.ctx, c.events.cancel = context.WithCancel(context.Background())
	return c, nil
}

// Close ends all subscriptions and idle connections, and waits for the event reader. It may be called more than once.
func (c *Client) Close() {
	c.events.close()
	c.http.CloseIdleConnections()
}

// Address returns the server's address without credentials.
func (c *Client) Address() string { return c.base.String() }

// Caps returns what the server can do.
func (c *Client) Caps() Caps { return c.backend.caps() }

// Through connects to the same server at another address, such as a proxy's. The caller closes the new client.
func (c *Client) Through(ctx context.Context, address string) (*Client, error) {
	return Attach(ctx, address, c.cfg)
}

// In returns the client's view of one working directory (an absolute path).
func (c *Client) In(path string) *Directory { return &Directory{c.backend.in(path), c, path} }

// Directory is the part of a server that works in one directory. Its methods are safe for concurrent use. The first
// call boots the directory's instance. The first prompt then takes about three seconds, or one after [API.Catalogue].
type Directory struct {
	API
	client *Client
	path   string
}

// Path returns the directory as given to [Client.In].
func (d *Directory) Path() string { return d.path }

// Client returns the client that the view belongs to.
func (d *Directory) Client() *Client { return d.client }

type caller interface {
	call(ctx context.Context, r request) error
}

func get[T any](ctx context.Context, c caller, op, path string, query url.Values) (out T, err error) {
	err = c.call(ctx, request{op: op, method: http.MethodGet, path: path, query: query, out: &out})
	return out, err
}

func post(ctx context.Context, c caller, op, path string, in any) error {
	return c.call(ctx, request{op: op, method: http.MethodPost, path: path, in: in})
}

// remove deletes something. It is no error if it does not exist.
func remove(ctx context.Context, c caller, op, path string, query url.Values) error {
	return ignoreNotFound(c.call(ctx, request{op: op, method: http.MethodDelete, path: path, query: query}))
}

type request struct {
	op      string
	method  string
	path    string
	query   url.Values
	in      any           // JSON body; nil: none
	out     any           // receives the JSON answer; nil: ignored
	timeout time.Duration // defaults to the client's CallTimeout
	// scan, if not nil, decodes the JSON answer while it arrives, instead of out.
	scan func(*json.Decoder) error
}

func (c *Client) call(ctx context.Context, r request) error {
	limited, cancel := context.WithTimeout(ctx, cmp.Or(r.timeout, c.cfg.CallTimeout))
	defer cancel()
	resp, err := c.send(limited, r)
	if err != nil {
		return transportError(ctx, r.op, err)
	}
	defer resp.Body.Close()
	return readAnswer(ctx, r, resp)
}

func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	var body io.Reader
	if r.in != nil {
		encoded, err := json.Marshal(r.in)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	address := c.base.JoinPath(r.path)
	address.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, address.String(), body)
	if err != nil {
		return nil, err
	}
	if r.in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.Password != "" {
		req.SetBasicAuth(c.cfg.Username, c.cfg.Password)
	}
	return c.http.Do(req)
}

func mediaType(resp *http.Response) string {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return media
}

// readAnswer decodes an HTTP answer into r.out, or returns an error. OpenCode answers an unknown path with 200 and its
// web page, so the content type decides whether it knew the call.
func readAnswer(ctx context.Context, r request, resp *http.Response) error {
	limit, read := int64(maxScanned), r.scan
	if read == nil {
		limit, read = maxBody, func(in *json.Decoder) error {
			if r.out == nil {
				return nil
			}
			return in.Decode(r.out)
		}
	}
	failure := &Error{Op: r.op, Status: resp.StatusCode, kind: statusKind(resp.StatusCode)}
	body := &boundedReader{in: resp.Body, left: limit}
	switch {
	case resp.StatusCode >= http.StatusMultipleChoices:
		body.left = maxBody
		said, _ := io.ReadAll(body)
		failure.Message = errorBody(said)
		return failure
	case resp.StatusCode == http.StatusNoContent:
		return nil
	case mediaType(resp) != "application/json":
		failure.Message, failure.kind = fmt.Sprintf("%s answered %q instead of JSON", r.path, mediaType(resp)), ErrUnsupported
		return failure
	}
	in := json.NewDecoder(body)
	body.used = in.InputOffset
	switch err := read(in); {
	case errors.Is(body.broken, errTooLong):
		failure.Message, failure.kind = body.broken.Error(), errTooLong
		return failure
	case body.broken != nil:
		return transportError(ctx, r.op, body.broken)
	case err != nil:
		failure.cause = fmt.Errorf("unexpected answer: %w", err)
		return failure
	}
	return nil
}

// boundedReader fails with errTooLong after so many bytes, or when maxBody bytes are read ahead of what is used.
type boundedReader struct {
	in     io.Reader
	left   int64
	ahead  int64        // read in all
	used   func() int64 // in all; nil: not known
	broken error        // of the connection or a bound, not of the content
}

func (b *boundedReader) Read(p []byte) (int, error) {
	switch {
	case b.broken != nil:
		return 0, b.broken
	case b.left <= 0:
		b.broken = fmt.Errorf("%w: exceeds %d MiB", errTooLong, b.ahead>>20)
		return 0, b.broken
	case b.used != nil && b.ahead-b.used() >= maxBody:
		b.broken = fmt.Errorf("%w: a value in it exceeds %d MiB", errTooLong, maxBody>>20)
		return 0, b.broken
	}
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	b.left, b.ahead = b.left-int64(n), b.ahead+int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.broken = err
	}
	return n, err
}

type hookedReader struct {
	io.Reader
	read func(n int, err error)
}

func (h hookedReader) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.read(n, err)
	return n, err
}

// errorBody reads OpenCode's two shapes of errors, {name, data: {message}} and {_tag, message}, or returns the body.
func errorBody(body []byte) string {
	var shape struct {
		Message string
		Data    struct{ Message string }
	}
	_ = json.Unmarshal(body, &shape)
	return text.Short(cmp.Or(shape.Data.Message, shape.Message, string(body)), maxErrorMessage)
}

// pause waits for d, or returns ctx's error as soon as ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
