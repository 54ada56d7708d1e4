package web

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

//go:embed assets
var assets embed.FS

// Page is what an address shows: a list of sections. While it is open, changed sections are sent again.
type Page struct {
	Title    string
	Project  string // base name of its directory
	Here     string // the address that the navigation marks
	Said     string // outcome of the user's last action
	Event    uint64 // number of the newest event that it shows
	Sections []Section
	Version  string // see [Site.stream]
	Still    bool   // not updated while open: that would be too slow
	Frozen   bool   // a file, without links to other pages, forms and scripts
	Style    template.CSS

	updates sync.Map // by the version that a browser has, see [Site.update]
}

// Section is a part of a [Page].
type Section struct {
	ID    string
	Title string // empty: none
	HTML  template.HTML
}

func (p *Page) add(id, title string, content template.HTML) {
	if strings.TrimSpace(string(content)) != "" {
		p.Sections = append(p.Sections, Section{id, title, content})
	}
}

func templates() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"ms": text.Millis, "stamp": text.Stamp, "clock": view.Clock, "usage": view.Usage, "count": text.Count,
		"money": text.Money, "plural": text.Plural, "line": text.OneLine,
		"clip": func(n int, s string) string { return text.Clip(s, n) }, "sign": view.Sign, "safe": text.Safe,
		"words": func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") },
		"task":  taskPath, "boulder": boulderPath, "markup": func(s string) template.HTML { return template.HTML(page.Markup(s)) },
		"ago": ago, "bar": tallied, "short": boulder.ShortID,
		"prose": func(s string) template.HTML { return template.HTML(page.Prose(s)) },
	}).ParseFS(assets, "assets/*.html"))
}

func ago(now, at time.Time) string { return text.Elapsed(now.Sub(at)) + " ago" }

// tallied draws how many sub-tasks are in which state. It is a picture, since the policy of the pages forbids style attributes.
func tallied(t boulder.Tally) template.HTML {
	var s strings.Builder
	at := 0
	for _, part := range []struct {
		status boulder.SubTaskStatus
		count  int
	}{
		{boulder.SubTaskCompleted, t.Completed}, {boulder.SubTaskInProgress, t.InProgress}, {boulder.SubTaskFailed, t.Failed},
		{boulder.SubTaskBlocked, t.Blocked},
	} {
		if part.count > 0 {
			fmt.Fprintf(&s, `<rect class="%s" x="%d" width="%d" height="1"/>`, part.status, at, part.count)
			at += part.count
		}
	}
	return template.HTML(fmt.Sprintf(`<svg class="bar" viewBox="0 0 %d 1" preserveAspectRatio="none" aria-hidden="true">%s</svg>`,
		max(1, t.Planned), s.String()))
}

func boulderPath(id string) string { return "/b/" + url.PathEscape(id) }

func taskPath(id, task string) string { return boulderPath(id) + "/t/" + url.PathEscape(task) }

// html executes a template. Errors are bugs in the template, which the tests look for; the page then shows the error.
func (s *Site) html(name string, data any) template.HTML {
	var b bytes.Buffer
	if err := s.templates.ExecuteTemplate(&b, name, data); err != nil {
		s.log.Error("a part of a page could not be made", "error", err)
		return template.HTML(template.HTMLEscapeString(err.Error()))
	}
	return template.HTML(b.String())
}

func printed(by func(o page.Out)) template.HTML {
	var b bytes.Buffer
	by(page.HTML(&b))
	return template.HTML(b.String())
}

// reading is one read of a boulder.
type reading struct {
	*project.Reading
	cut    bool // only the newest events of the log were read
	status *view.Status
}

// read reads a boulder, partially if it also returns an error. With quick, only the newest events of a long log are
// read, unless it is cached.
func (s *Site) read(ctx context.Context, id string, quick bool) (*reading, error) {
	there, err := s.project.Read(ctx)
	if err != nil {
		return nil, err
	}
	defer there.Close() // hold nothing while the page is made
	d, err := there.Get(ctx, id)
	if d.Boulder.ID == "" {
		return nil, err
	}
	return s.readRest(ctx, there, d, quick)
}

func (s *Site) readRest(ctx context.Context, there *project.Access, d boulder.Snapshot, quick bool) (*reading, error) {
	var events []boulder.Event
	var err error
	s.mu.Lock()
	cut := quick && d.Boulder.Seq > longLog && s.logs[d.Boulder.ID] == nil
	s.mu.Unlock()
	if cut {
		events, err = there.Events(ctx, d.Boulder.ID, d.Boulder.Seq-project.Newest, 0)
	} else {
		events, err = s.logOf(ctx, there, d.Boulder)
	}
	r := &reading{Reading: s.project.Reading(ctx, there, d, events), cut: cut}
	r.status = view.NewStatus(r.Reading)
	return r, err
}

// logOf returns the log of a boulder. A log only grows, so cached events are not read again.
func (s *Site) logOf(ctx context.Context, there *project.Access, b boulder.Boulder) ([]boulder.Event, error) {
	s.mu.Lock()
	had := s.logs[b.ID]
	s.mu.Unlock()
	var last uint64
	if len(had) > 0 {
		last = had[len(had)-1].Seq
	}
	more, err := there.Events(ctx, b.ID, last, 0)
	all := slices.Concat(had, more)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.logs) >= logsKept && s.logs[b.ID] == nil {
		clear(s.logs)
	}
	s.logs[b.ID] = all
	return slices.DeleteFunc(slices.Clone(all), func(e boulder.Event) bool { return e.Seq > b.Seq }), err
}

// longLog is the number of events from which on reading the log takes longer than making the page.
const longLog = 2_000

// logsKept is how many logs are cached.
const logsKept = 8

// unread adds a section about what could not be read.
func (s *Site) unread(p *Page, err error) *Page {
	if err != nil {
		p.add("unread", "Could not be read", s.html("text", err.Error()))
	}
	return p
}

func statusOf(err error) int {
	usage := (*project.UsageError)(nil)
	switch {
	case errors.Is(err, boulder.ErrNotFound), errors.Is(err, blockers.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, store.ErrHeld):
		return http.StatusServiceUnavailable
	case errors.As(err, &usage), errors.Is(err, boulder.ErrRefused):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}
