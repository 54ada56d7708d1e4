// Package top is `manager top`: the boulders of a project on a whole terminal, live, with the user's answers and
// orders. It reads and writes by the same calls as the commands, beside a process that runs boulders and where none
// does, and holds nothing while it is open: it reads, closes, and looks again when the state has changed. What it says
// is said by package view.
package top

import (
	"context"
	"errors"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

const (
	// lookEvery is how often to look whether the state has changed.
	lookEvery = 200 * time.Millisecond
	// renewEvery is how often to read while a process is at work, or after an error: time passes, and what was killed
	// says nothing.
	renewEvery = 2 * time.Second
)

// focus is the pane that keys go to.
type focus int

const (
	onBoulders focus = iota
	onTasks
	onText
	panes
)

// model is the state of the screen. Only Update changes it; what takes time runs in commands.
type model struct {
	*project.Project
	ctx   context.Context
	paint page.Paint
	size  page.Size

	want    place // that the cursors are at
	seen    *reading
	reading bool   // a read is under way
	doing   bool   // an order is under way
	said    string // what came of it, until the next key
	failed  bool   // it is an error

	focus focus
	pane  [panes]pane
	deep  bool   // the text is about the sub-task, not about the whole boulder
	tab   int    // of tabs
	topic string // of the text that is drawn
	zoom  bool   // the text has the whole screen
	help  bool

	editor *view.Editor                              // what the user types; nil: nothing
	take   func(typed string, complete bool) tea.Cmd // is called with it after each key
	ask    *report.Blocker                           // that is answered; nil: none
	sure   *order                                    // that waits for a y
}

// order is an order and the boulder that it is for.
type order struct {
	boulder string
	boulder.Order
}

// New is the screen before anything was read.
func New(ctx context.Context, p *project.Project, paint page.Paint) tea.Model {
	return &model{Project: p, ctx: ctx, paint: paint, seen: &reading{}, size: page.Size{Width: 80, Height: 24}}
}

// tickMsg comes every [lookEvery], with the state's version then.
type tickMsg string

// saidMsg is what came of an order or an answer.
type saidMsg struct {
	said   string
	err    error
	closes *view.Editor // that has done its work
}

// Init is called first.
func (m *model) Init() tea.Cmd { return tea.Batch(m.look(), m.tick()) }

func (m *model) tick() tea.Cmd {
	return tea.Tick(lookEvery, func(time.Time) tea.Msg { return tickMsg(m.Version()) })
}

// look reads the state, unless that is under way: then it is read again afterwards if need be.
func (m *model) look() tea.Cmd {
	if m.reading {
		return nil
	}
	m.reading = true
	want, had := m.want, m.seen
	return func() tea.Msg { return m.read(m.ctx, want, had) }
}

// Update is called with what has happened, one after the other.
func (m *model) Update(msg tea.Msg) (_ tea.Model, cmd tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		if m.size = (page.Size{Width: msg.Width, Height: msg.Height}); m.editor != nil {
			m.editor.Type(msg)
		}
	case tickMsg:
		old := time.Since(m.seen.Now) >= renewEvery && (m.seen.Holder != nil || m.seen.err != nil)
		if cmd = m.tick(); old || string(msg) != m.seen.version {
			cmd = tea.Batch(cmd, m.look())
		}
		return m, cmd
	case *reading:
		if m.reading = false; msg.asked != m.want {
			return m, m.look()
		}
		if msg.items == nil && msg.err != nil { // what was seen stays
			seen := *m.seen
			seen.version, seen.Now, seen.Holder, seen.err = msg.version, msg.Now, msg.Holder, msg.err
			msg = &seen
		}
		m.seen, m.want = msg, msg.place
	case saidMsg:
		m.doing = false
		m.say(msg.said, msg.err)
		if msg.closes != nil && msg.closes == m.editor {
			m.editor, m.ask = nil, nil
		}
		cmd = m.look()
	case tea.KeyPressMsg, tea.PasteMsg:
		cmd = tea.Batch(m.key(msg), m.follow())
	}
	m.arrange()
	return m, tea.Batch(cmd, m.follow())
}

// follow has the state read where the cursors are: with a filter, or when what they were at is gone, they are elsewhere.
func (m *model) follow() tea.Cmd {
	boulder, task := m.pane[onBoulders].id(), m.pane[onTasks].id()
	switch {
	case boulder != "" && boulder != m.want.boulder:
		m.want = place{boulder: boulder}
	case task != "" && task != m.want.task:
		m.want.task = task
	default:
		return nil
	}
	m.arrange()
	return m.look()
}

// say tells the user something until the next key.
func (m *model) say(said string, err error) {
	m.said, m.failed = said, err != nil
	if err != nil {
		m.said = text.JoinedBy(" ", said, project.Message(err))
	}
}

// place is what the user looks at; an empty id: the first there is.
type place struct{ boulder, task string }

// reading is the state as it was read, once.
type reading struct {
	asked place // what was to be read
	place       // what there is
	project.Reading
	version string           // see [project.Project.Version]
	items   []view.ListItem  // that are not archived, the newest first
	asks    []report.Blocker // that an answer still reaches, the most urgent first
	status  *view.Status     // nil: there is no boulder, or it cannot be read
	sub     *boulder.SubTask // that is looked at; nil: there is none
	turns   []boulder.Turn   // of that
	said    []view.Said      // in its attempts
	err     error            // what could not be read; the rest is there
}

// read reads what is to be seen at a place. had is the reading before: a log only grows. Nothing is held when it returns.
func (m *model) read(ctx context.Context, at place, had *reading) *reading {
	r := &reading{asked: at, place: at, version: m.Version(), Reading: project.Reading{Now: time.Now()}}
	pending, asksErr := m.ListBlockers(ctx, blockers.Filter{Status: boulder.BlockerPending})
	r.asks = view.WithoutMoot(pending)
	stateErr := m.readState(ctx, r, had)
	r.turns = boulder.Turns(r.Events, r.task)
	var saidErr error
	r.said, saidErr = view.ReadSaid(r.Boulder.Project, r.turns)
	r.err = errors.Join(stateErr, asksErr, saidErr)
	return r
}

func (m *model) readState(ctx context.Context, r, before *reading) error {
	there, err := m.Read(ctx)
	if err != nil {
		return err
	}
	defer there.Close()
	r.Holder = there.Holder
	all, err := there.Listing(ctx)
	known := false
	for i := range all {
		if item := view.NewListItem(&all[i], there.Holder); item.ArchivedAt.IsZero() {
			r.items, known = append(r.items, item), known || item.BoulderID == r.boulder
		}
	}
	if !known {
		active, err := project.Resolve(ctx, there, "")
		if r.place = (place{boulder: active}); err != nil {
			return err
		}
	}
	d, getErr := there.Get(ctx, r.boulder)
	if d.Boulder.ID == "" {
		return errors.Join(err, getErr)
	}
	var had []boulder.Event // that were read before
	var last uint64
	if n := len(before.Events); before.boulder == r.boulder && n > 0 {
		had, last = before.Events, before.Events[n-1].Seq
	}
	more, eventsErr := there.Events(ctx, r.boulder, last, 0)
	read := m.Reading(ctx, there, d, slices.Concat(had, more))
	r.Reading, r.status = *read, view.NewStatus(read)
	for _, t := range r.SubTasks {
		if r.sub == nil || t.ID == r.asked.task {
			r.sub, r.task = t, t.ID
		}
	}
	return errors.Join(err, getErr, eventsErr, read.Unread)
}
