package web

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

// ask is a blocker, with a form beside it if the user can answer it.
type ask struct {
	*report.Blocker
	Kind, Ago string
	Left      string        // time until its session continues without an answer; empty: no limit
	Back      string        // the page that it is on
	Card      template.HTML // all that is known about it
	Settle    bool          // the user can answer it
}

// asks adds the blockers that open selects, each as a section.
func (s *Site) asks(p *Page, all []report.Blocker, now time.Time, back string, open func(b *report.Blocker) bool) {
	for i := range all {
		b := &all[i]
		if !open(b) {
			continue
		}
		a := ask{
			Blocker: b, Kind: "question", Ago: ago(now, b.CreatedAt), Back: back, Settle: !p.Frozen && !b.Status.Settled() && b.Over == "",
			Card: printed(func(o page.Out) { view.PrintBlocker(o, b, 0, true, now) }),
		}
		switch {
		case b.AsksPermission():
			a.Kind = "permission"
		case b.Standing == blockers.Choice:
			a.Kind = "choice"
		}
		if b.Awaited && b.Waiting(now) {
			a.Left = text.Elapsed(b.Until.Sub(now).Truncate(time.Second))
		}
		p.add("ask-"+b.Ref(), "", s.html("ask", a))
	}
}

// standing is what the first page says of the boulders.
type standing struct {
	asking               []boulder.Snapshot // their plans wait for approval
	stand, atWork, ended []view.ListItem    // the newest first
	all                  int
	holder               *project.Holder
}

// endedShown is how many boulders that ended are on the first page, at most.
const endedShown = 10

func (s *Site) standing(ctx context.Context, now time.Time) (st standing, err error) {
	there, err := s.project.Read(ctx)
	if err != nil {
		return st, err
	}
	defer there.Close()
	items, err := there.Listing(ctx)
	st.all, st.holder = len(items), there.Holder
	for i := range items {
		switch item := view.NewListItem(&items[i], there.Holder, now); {
		case !item.ArchivedAt.IsZero():
		case item.Status.Terminal():
			st.ended = append(st.ended, item)
		case item.Asks && len(st.asking) < listed:
			d, getErr := there.Get(ctx, item.BoulderID)
			st.asking, err = append(st.asking, d), errors.Join(err, getErr)
		case item.Running && item.Status != boulder.Paused:
			st.atWork = append(st.atWork, item)
		default:
			st.stand = append(st.stand, item)
		}
	}
	slices.SortStableFunc(st.ended, func(a, b view.ListItem) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	return st, err
}

// rows shows the first of the items as a list.
func (s *Site) rows(items []view.ListItem, most int, now time.Time, more map[string]any) template.HTML {
	data := map[string]any{"Items": items[:min(len(items), most)], "More": max(0, len(items)-most), "Now": now}
	maps.Copy(data, more)
	return s.html("items", data)
}

func (s *Site) home(r *http.Request) (*Page, error) {
	p, ctx, now := s.page("Home", "/"), r.Context(), time.Now()
	placed, err := s.project.ListBlockers(ctx, blockers.Filter{Status: boulder.BlockerPending})
	st, listErr := s.standing(ctx, now)
	if st.all == 0 && listErr != nil {
		return nil, listErr
	}
	waits := view.WaitingOf(placed)
	p.add("home", "", s.html("home", map[string]any{"Project": p.Project, "Sum": text.JoinedBy(" · ",
		text.Some(len(st.asking)+waits.Hard+waits.Asks+len(st.stand), "waiting for you"), text.Some(len(st.atWork), "running"), text.Some(len(st.ended), "ended"))}))
	if st.all == 0 {
		p.add("begin", "", s.html("begin", nil))
	}
	if st.all > 0 || waits.Text() != "" { // of other sessions there may be questions before the first boulder
		p.add("needs", "Needs you", s.html("needs", map[string]any{
			"Waiting": waits.Text(), "Nothing": waits.Text() == "" && len(st.stand)+len(st.asking) == 0,
		}))
	}
	for i := range st.asking {
		s.addApproval(ctx, p, &st.asking[i], "/")
	}
	s.asks(p, placed, now, "/", func(b *report.Blocker) bool { return b.Awaited })
	if len(st.stand) > 0 {
		p.add("stand", "Stands still", s.rows(st.stand, listed, now, map[string]any{"Stand": true, "Held": st.holder != nil || s.Start != nil}))
	}
	if st.all > 0 {
		p.add("at-work", "Running", s.rows(st.atWork, listed, now, map[string]any{"None": "Nothing is running."}))
		p.add("ended", "Ended lately", s.rows(st.ended, endedShown, now, map[string]any{"Ended": true, "None": "Nothing has ended yet."}))
	}
	if waits.Choices() != "" {
		p.add("choices", "Chosen without you", "<p>You can still decide otherwise.</p>")
	}
	s.asks(p, placed, now, "/", func(b *report.Blocker) bool { return b.Standing == blockers.Choice })
	watched, watchErr := s.project.Watched(ctx)
	p.add("watched", "Your own sessions", printed(func(o page.Out) { view.PrintWatched(o, view.Watched(watched)) }))
	return s.unread(p, errors.Join(err, listErr, watchErr)), nil
}

const listed = 100

func (s *Site) list(r *http.Request) (*Page, error) {
	p, ctx, now := s.page("Boulders", "/boulders"), r.Context(), time.Now()
	there, err := s.project.Read(ctx)
	if err != nil {
		return nil, err
	}
	items, err := there.Listing(ctx)
	there.Close()
	q, status, archived, from := r.FormValue("q"), r.FormValue("status"), r.FormValue("archived") != "", r.FormValue("from")
	var shown []view.ListItem
	more := ""
	for i := range items {
		item := view.NewListItem(&items[i], there.Holder, now)
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
	p.add("items", "", s.rows(shown, listed, now, map[string]any{"None": "No boulder is like that."}))
	if more != "" {
		p.add("more", "", s.html("more", next.Encode()))
	}
	return s.unread(p, err), nil
}
