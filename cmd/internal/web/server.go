// Package web shows a project in a browser, and takes the user's answers and orders there. A [Site] makes the same calls
// as the commands, so it works whether or not a process runs boulders. Pages are rendered here and work without
// scripts; one script swaps changed sections.
//
// A Site listens on the loopback interface only. Other users of the machine, and any page in the user's browser, can
// reach that port too, so every request needs a cookie that only a link printed to the user sets.
package web

import (
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/graph"
	"github.com/bouldermgr/manager/project"
)

const linkLife = 5 * time.Minute

// policy lets a page load resources of this server only, and forbids inline scripts and styles.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Site serves the pages of a project.
type Site struct {
	// Start starts the background server for what the user continues or starts where no process is; nil: nothing is started.
	Start project.Starter

	project   *project.Project
	log       *slog.Logger
	public    *url.URL // of the tunnel; nil: none
	templates *template.Template
	style     string
	port      string // that Serve listens on
	changes   *changes

	mu       sync.Mutex
	logs     map[string][]boulder.Event
	patches  map[string]patch                // by what they are made of
	links    map[[sha256.Size]byte]time.Time // expiry of unused links, by hash of the token
	sessions map[[sha256.Size]byte]*string   // next message, by hash of the cookie
}

// NewSite makes a Site. public is the address of the user's tunnel to it, as https://host; empty: none.
func NewSite(p *project.Project, public string, logger *slog.Logger) (*Site, error) {
	s := &Site{
		project: p, log: cmp.Or(logger, slog.New(slog.DiscardHandler)), templates: templates(),
		changes: &changes{next: make(chan struct{}), made: map[string]func() (*Page, error){}},
		logs:    map[string][]boulder.Event{}, patches: map[string]patch{},
		links: map[[sha256.Size]byte]time.Time{}, sessions: map[[sha256.Size]byte]*string{},
	}
	style, _ := assets.ReadFile("assets/style.css") // embedded: cannot fail
	s.style = string(style) + graph.Styles()
	if public == "" {
		return s, nil
	}
	var err error
	if s.public, err = url.Parse(public); err != nil {
		return nil, err
	}
	s.public.Path = strings.TrimSuffix(s.public.Path, "/")
	if u := *s.public; u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.String() != u.Scheme+"://"+u.Host {
		return nil, fmt.Errorf("%q is no address like https://host: the pages have to be at its root", public)
	}
	return s, nil
}

// Serve listens on a port of the loopback interface (0: a free one), calls ready, and serves until ctx ends.
func (s *Site) Serve(ctx context.Context, port uint16, ready func()) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	_, s.port, _ = net.SplitHostPort(l.Addr().String())
	group, ctx := errgroup.WithContext(ctx)
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	group.Go(func() error {
		s.changes.watch(ctx, s.project.Version)
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Close() // ctx also ends the running requests
	})
	group.Go(func() error { return server.Serve(l) })
	ready()
	if err := group.Wait(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Links returns the local sign-in address and that of the tunnel, for one use of either within five minutes.
func (s *Site) Links() []string {
	token := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[sha256.Sum256([]byte(token))] = time.Now().Add(linkLife)
	all := []string{"http://127.0.0.1:" + s.port + "/link/" + token}
	if s.public != nil {
		all = append(all, s.public.String()+"/link/"+token)
	}
	return all
}

// cookie returns the cookie's name. Browsers send cookies to all ports of a host, so it names the port.
func (s *Site) cookie() string { return "manager-" + s.port }

// Handler returns the handler of all requests.
func (s *Site) Handler() http.Handler {
	inside := http.NewServeMux()
	for pattern, build := range map[string]func(*http.Request) (*Page, error){
		"GET /{$}": s.home, "GET /boulders": s.list, "GET /b/{id}": s.tab(overview, true, s.overview),
		"GET /b/{id}/changes": s.tab("Changes", false, s.whatChanged), "GET /b/{id}/time": s.tab("Time and cost", true, s.time),
		"GET /b/{id}/log": s.tab("Log", false, s.events), "GET /b/{id}/report": s.tab("Report", false, s.report),
		"GET /b/{id}/t/{task}": s.task, "GET /b/{id}/land": s.land, "GET /b/{id}/redo": s.redo,
		"GET /plan": s.editor, "GET /b/{id}/plan": s.editor,
	} {
		inside.HandleFunc(pattern, s.show(build))
	}
	for pattern, act := range map[string]func(*http.Request) (said string, err error){
		"POST /blockers/{blocker}": s.answer, "POST /b/{id}/order": s.order, "POST /b/{id}/land": s.landNow,
		"POST /b/{id}/redo": s.redoNow,
	} {
		inside.HandleFunc(pattern, s.act(act))
	}
	inside.HandleFunc("POST /plan", s.edited)
	inside.HandleFunc("POST /b/{id}/plan", s.edited)
	inside.HandleFunc("GET /b/{id}/report.html", s.download)
	inside.HandleFunc("GET /style.css", asset("text/css; charset=utf-8", s.style))
	script, _ := assets.ReadFile("assets/live.js")
	inside.HandleFunc("GET /live.js", asset("text/javascript; charset=utf-8", string(script)))

	all := http.NewServeMux()
	all.HandleFunc("GET /link/{token}", s.enter)
	all.Handle("/", s.requireSession(inside))
	origins := http.NewCrossOriginProtection()
	if s.public != nil {
		_ = origins.AddTrustedOrigin(s.public.String()) // checked by NewSite
	}
	return s.guard(origins.Handler(all))
}

// guard refuses requests for other hosts, against DNS rebinding, and sets the common headers.
func (s *Site) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			h.Set(name, value)
		}
		ours := r.Host == "127.0.0.1:"+s.port || r.Host == "localhost:"+s.port || s.public != nil && r.Host == s.public.Host
		if !ours {
			http.Error(w, "this server is not "+r.Host, http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20) // a plan may be long
		next.ServeHTTP(w, r)
	})
}

// enter signs in with an unused link. Prefetches by a browser or a messenger do not use the link up.
func (s *Site) enter(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.Header.Get("Sec-Purpose") != "" || r.Header.Get("Purpose") != "" {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	hash := sha256.Sum256([]byte(r.PathValue("token")))
	value := rand.Text()
	s.mu.Lock()
	valid := time.Now().Before(s.links[hash])
	if delete(s.links, hash); valid {
		s.sessions[sha256.Sum256([]byte(value))] = new(string)
	}
	s.mu.Unlock()
	if !valid {
		s.forbidden(w)
		return
	}
	http.SetCookie(w, &http.Cookie{
		Name: s.cookie(), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: s.public != nil && s.public.Scheme == "https" && r.Host == s.public.Host,
	})
	// No redirect: after a click on another site, the browser would not send the SameSite=Strict cookie with it.
	s.write(w, r, http.StatusOK, string(s.html("entered", nil)))
}

// requireSession refuses requests without a session.
func (s *Site) requireSession(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.session(r) == nil {
			s.forbidden(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Site) forbidden(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, string(s.html("closed", nil)))
}

// session returns the next message of the request's session, or nil without a session. s.mu guards the text.
func (s *Site) session(r *http.Request) *string {
	c, err := r.Cookie(s.cookie())
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[sha256.Sum256([]byte(c.Value))]
}

func (s *Site) page(title, here string) *Page {
	return &Page{Title: title, Here: here, Project: filepath.Base(s.project.Dir())}
}

// streams reports whether the page's script asks for updates.
func streams(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// show serves a page or, to its script, its updates.
func (s *Site) show(build func(*http.Request) (*Page, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if streams(r) {
			s.stream(w, r, build)
			return
		}
		p, err := build(r)
		status := http.StatusOK
		if err != nil {
			status = statusOf(err)
			p = s.page("Not shown", r.URL.Path)
			p.add("error", "", s.html("text", err.Error()))
		} else if !p.Still {
			p.Version = p.version()
		}
		said := s.session(r)
		s.mu.Lock()
		p.Said, *said = *said, ""
		s.mu.Unlock()
		s.write(w, r, status, string(s.html("page", p)))
	}
}

func (s *Site) write(w http.ResponseWriter, r *http.Request, status int, content string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	var to io.Writer = w
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		defer func() { _ = packed.Close() }()
		to = packed
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(to, content) // a client that is gone needs nothing
}

func asset(kind, content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Cache-Control", "private, max-age=60")
		_, _ = io.WriteString(w, content)
	}
}

// act carries out a form, and redirects to the page of the form, which shows the outcome.
func (s *Site) act(do func(*http.Request) (said string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		told, err := do(r)
		if err != nil {
			told = strings.TrimSpace(told + "\n" + project.Message(err))
		}
		s.redirect(w, r, told, back(r))
	}
}

// redirect redirects to a page that shows a message once.
func (s *Site) redirect(w http.ResponseWriter, r *http.Request, told, next string) {
	said := s.session(r)
	s.mu.Lock()
	*said = told
	s.mu.Unlock()
	http.Redirect(w, r, next, http.StatusSeeOther)
}
