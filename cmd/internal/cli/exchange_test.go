package cli

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// exchange lets tests with a model each share one OpenCode server, whose configuration holds one address. It forwards a
// request to the model of the directory in which the request's session works.
type exchange struct {
	listener net.Listener
	server   *http.Server
	proxy    *httputil.ReverseProxy
	served   chan struct{}

	mu     sync.Mutex
	models map[string]*url.URL // by directory
}

// workingDirectory precedes the directory in OpenCode 1.18.33's system prompts. Requests for a title have none.
const workingDirectory = "Working directory: "

// newExchange starts an exchange without directories. The caller closes it.
func newExchange() (*exchange, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	x := &exchange{listener: listener, served: make(chan struct{}), models: map[string]*url.URL{}}
	x.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.Host = r.Out.URL.Host },
		FlushInterval: -1, // forward streams at once
		Transport:     &http.Transport{},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway) // the test is over
		},
	}
	x.server = &http.Server{Handler: http.HandlerFunc(x.pass), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(x.served)
		_ = x.server.Serve(listener) // until close
	}()
	return x, nil
}

// url is the base URL for the OpenCode server's configuration.
func (x *exchange) url() string { return "http://" + x.listener.Addr().String() + "/v1" }

// connect routes the sessions in dir and below to the model at modelURL from now on.
func (x *exchange) connect(dir, modelURL string) error {
	dir, err := filepath.EvalSymlinks(dir) // as OpenCode reports it
	if err != nil {
		return err
	}
	model, err := url.Parse(modelURL)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.models[dir] = model
	return nil
}

// close aborts requests in flight.
func (x *exchange) close() {
	_ = x.server.Close()
	<-x.served
	x.proxy.Transport.(*http.Transport).CloseIdleConnections()
}

func (x *exchange) pass(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	model := x.model(body)
	if model == nil {
		http.Error(w, "no test has a model for the directory of this request", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.URL.Scheme, r.URL.Host = model.Scheme, model.Host
	x.proxy.ServeHTTP(w, r)
}

// model returns the model of the request's directory, or of the nearest one above it.
func (x *exchange) model(body []byte) *url.URL {
	_, rest, _ := bytes.Cut(body, []byte(workingDirectory))
	end := bytes.IndexAny(rest, `\"`) // end of the line or text, in JSON
	if end < 0 {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for dir := string(rest[:end]); strings.Trim(dir, "/.") != ""; dir = filepath.Dir(dir) {
		if model := x.models[dir]; model != nil {
			return model
		}
	}
	return nil
}

// No test gets the answer of another test's model. Tests that share a server prove that OpenCode names the directory.
func TestExchange(t *testing.T) {
	t.Parallel()
	x, err := newExchange()
	if err != nil {
		t.Fatal(err)
	}
	defer x.close()
	dir, other := octest.Repo(t, nil), octest.Repo(t, nil)
	inside := filepath.Join(dir, "inside")
	for name, at := range map[string]string{"one": dir, "two": other} {
		model := octest.Model(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
			return scriptmodel.Reply{Text: "from " + name}
		})
		if err := x.connect(at, model.URL()); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ dir, want string }{
		{dir, "from one"}, {inside, "from one"}, {other, "from two"}, {dir + "more", "no test has a model"}, {"", "no test"},
	} {
		system := `You work.\n  Working directory: ` + test.dir + `\n  Workspace root: /`
		body := `{"model": "agent", "messages": [{"role": "system", "content": "` + system + `"},` +
			`{"role": "user", "content": "Working directory: ` + other + `"}]}`
		if got := askExchange(t, x.url(), body); !strings.Contains(got, test.want) {
			t.Errorf("in %q: %s, want %q", test.dir, got, test.want)
		}
	}
}

func askExchange(t *testing.T, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
