package ui

import (
	"bytes"
	"cmp"
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
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
)

//go:embed assets
var assets embed.FS

// Page is what is shown at an address: sections, one below the other. While it is open, those that change are sent again.
type Page struct {
	Title    string
	Project  string // name of its directory
	Here     string // the address that the navigation marks
	Said     string // what came of the user's last click
	Event    uint64 // number of the newest event that it shows
	Sections []Section
	Version  string // see [Site.stream]
	Still    bool   // it is not made again while it is open: it takes too much
	Frozen   bool   // it is a file: it has no links to other pages, no forms and no script
	Style    template.CSS

	updates sync.Map // for browsers that have an earlier version, by that
}

// Section is a part of a [Page].
type Section struct {
	ID    string
	Title string // empty: it needs none
	HTML  template.HTML
}

func (p *Page) add(id, title string, content template.HTML) {
	if strings.TrimSpace(string(content)) != "" {
		p.Sections = append(p.Sections, Section{id, title, content})
	}
}

func templates() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"ms": text.Millis, "stamp": text.Stamp, "clock": view.Clock, "usage": report.Usage, "count": text.Count,
		"money": text.Money, "plural": text.Plural, "line": text.OneLine,
		"clip": func(n int, s string) string { return text.Clip(s, n) }, "sign": report.Sign, "safe": text.Safe,
		"words": func(s any) string { return strings.ReplaceAll(fmt.Sprint(s), "_", " ") },
		"task":  taskPath, "boulder": boulderPath, "markup": func(s string) template.HTML { return template.HTML(page.Markup(s)) },
		"ago": func(now, at time.Time) string { return text.Elapsed(now.Sub(at)) + " ago" },
	}).ParseFS(assets, "assets/pages.html"))
}

func boulderPath(id string) string { return "/b/" + url.PathEscape(id) }

func taskPath(id, task string) string { return boulderPath(id) + "/t/" + url.PathEscape(task) }

// html executes a template. That it cannot is a mistake in it, which the tests look for; the rest of the page is shown.
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

// reading is a boulder as it was read, once.
type reading struct {
	*project.Reading
	cut bool // not all of its log: the newest only
}

// read reads a boulder. What cannot be read of it is in the error, and the rest is there if its head is. quick: of a
// long log that was not read before, the newest events are enough.
func (s *Site) read(ctx context.Context, id string, quick bool) (*reading, error) {
	there, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	defer there.Close() // nothing is held while a page is made
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
		events, err = there.Events(ctx, d.Boulder.ID, d.Boulder.Seq-longLog/4, 0)
	} else {
		events, err = s.events(ctx, there, d.Boulder)
	}
	r := &reading{s.Reading(ctx, there, d, events), cut}
	return r, errors.Join(err, r.Unread)
}

// events are those of a boulder's log. A log only grows: what was read once is not read again.
func (s *Site) events(ctx context.Context, there *project.Access, b boulder.Boulder) ([]boulder.Event, error) {
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

// longLog is how many events take longer to read than the page of their boulder to make.
const longLog = 2_000

// logsKept is how many logs are kept in memory, of boulders that are looked at.
const logsKept = 8

type ask struct {
	*report.Blocker
	Card   template.HTML
	Settle bool // it can be answered
}

func (s *Site) asks(p *Page, all []report.Blocker, now time.Time, open func(b *report.Blocker) bool) {
	for i := range all {
		if b := &all[i]; open(b) {
			card := printed(func(o page.Out) { b.Print(o, 0, true, now) })
			p.add("ask-"+b.ID, "", s.html("ask", ask{b, card, !p.Frozen && !b.Status.Settled() && b.Over == ""}))
		}
	}
}

func (s *Site) needs(r *http.Request) (*Page, error) {
	p, ctx, now := s.page("Needs you", "/"), r.Context(), time.Now()
	placed, err := s.ListBlockers(ctx, blockers.Filter{Status: boulder.BlockerPending})
	there, listErr := s.Read(ctx)
	if listErr != nil {
		return nil, listErr
	}
	items, listErr := there.Listing(ctx)
	var stand, atWork []view.ListItem
	var asking []boulder.Snapshot
	for i := range items {
		switch item := view.NewListItem(&items[i], there.Holder); {
		case !item.ArchivedAt.IsZero() || item.Status.Terminal():
		case item.Asks && len(asking) < listed:
			d, getErr := there.Get(ctx, item.BoulderID)
			asking, err = append(asking, d), errors.Join(err, getErr)
		case item.Running && item.Status != boulder.Paused:
			atWork = append(atWork, item)
		default:
			stand = append(stand, item)
		}
	}
	there.Close()
	err = errors.Join(err, listErr)
	more := max(0, len(stand)-listed)
	stand = stand[:min(len(stand), listed)] // the newest
	waits := view.WaitingOf(placed)
	data := map[string]any{
		"Waiting": waits.Text(), "Nothing": waits.Text() == "" && len(stand)+len(asking) == 0, "Empty": len(items) == 0,
	}
	p.add("needs", "", s.html("needs", data))
	for i := range asking {
		s.agree(ctx, p, &asking[i], "/")
	}
	s.asks(p, placed, now, func(b *report.Blocker) bool { return b.Awaited })
	p.add("stand", "Stands still", s.html("items", map[string]any{"Items": stand, "More": more, "Now": now, "Stand": true, "Held": there.Holder != nil}))
	if waits.Choices() != "" {
		p.add("choices", "Chosen by agents", "<p>An answer still reaches them.</p>")
	}
	s.asks(p, placed, now, func(b *report.Blocker) bool { return b.Standing == blockers.Choice })
	p.add("at-work", "At work", s.html("items", map[string]any{"Items": atWork, "Now": now}))
	return s.unread(p, err), nil
}

// unread shows what could not be read, and the rest with it.
func (s *Site) unread(p *Page, err error) *Page {
	if err != nil {
		p.add("unread", "Could not be read", s.html("text", err.Error()))
	}
	return p
}

const listed = 100

func (s *Site) list(r *http.Request) (*Page, error) {
	p, ctx, now := s.page("Boulders", "/boulders"), r.Context(), time.Now()
	there, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	items, err := there.Listing(ctx)
	there.Close()
	q, status, archived, from := r.FormValue("q"), r.FormValue("status"), r.FormValue("archived") != "", r.FormValue("from")
	var shown []view.ListItem
	more := ""
	for i := range items {
		item := view.NewListItem(&items[i], there.Holder)
		switch {
		case item.ArchivedAt.IsZero() == archived, from != "" && item.BoulderID > from:
		case status != "" && item.Shown() != status:
		case !strings.Contains(strings.ToLower(item.Task+" "+item.BoulderID), strings.ToLower(q)):
		case len(shown) == listed:
			more = cmp.Or(more, item.BoulderID)
		default:
			shown = append(shown, item)
		}
	}
	next := url.Values{"q": {q}, "status": {status}, "from": {more}}
	if archived {
		next.Set("archived", "1")
	}
	p.add("filter", "", s.html("filter", map[string]any{
		"Q": q, "Status": status, "Archived": archived, "Statuses": view.ListStatuses,
	}))
	p.add("items", "", s.html("items", map[string]any{"Items": shown, "Now": now, "All": true}))
	if more != "" {
		p.add("more", "", s.html("more", next.Encode()))
	}
	return s.unread(p, err), nil
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
