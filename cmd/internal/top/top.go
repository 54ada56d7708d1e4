// Package top is `manager top`: a live full-screen view of a project's boulders that also takes answers and orders. It
// makes the same calls as the commands, so it works whether or not a process runs boulders. It keeps nothing open
// between reads, and reads again when the state has changed. Package view makes the texts.
package top

import (
	"context"
	"errors"
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

const (
	// lookEvery is the interval of checks whether the state has changed.
	lookEvery = 200 * time.Millisecond
	// renewEvery is the interval of reads without a change while a process holds the state, which may die, or after an
	// error.
	renewEvery = 2 * time.Second
)

// focus is the index of the pane that keys go to.
type focus int

const (
	onBoulders focus = iota
	onTasks
	onText
	panes
)

// model is the state of the screen. Only Update changes it; slow work runs in commands.
type model struct {
	project *project.Project
	ctx     context.Context
	paint   page.Paint
	size    page.Size

	want    place // at the cursors
	seen    *reading
	reading bool   // a read is under way
	doing   bool   // an order is under way
	said    string // message about its outcome, until the next key
	failed  bool   // said is an error

	focus    focus
	pane     [panes]pane
	taskText bool   // the text is about the sub-task, not the boulder
	tab      int    // index in tabs
	topic    string // identifies the text that is drawn
	zoom     bool   // the text fills the screen
	help     bool

	editor    *view.Editor                              // of what the user types, or nil
	take      func(typed string, complete bool) tea.Cmd // called with the text after each key
	ask       *report.Blocker                           // that the user is asked about, or nil
	toConfirm *confirmation                             // that the user is asked for, or nil
	starter   project.Starter
}

type order struct {
	boulder string
	boulder.Order
}

// New makes the program. It reads the state on Init. start starts the background server for what the user continues or starts.
func New(ctx context.Context, p *project.Project, paint page.Paint, start project.Starter) tea.Model {
	return &model{project: p, ctx: ctx, paint: paint, starter: start, seen: &reading{}, size: page.Size{Width: 80, Height: 24}}
}

// tickMsg is the version of the state, sent every [lookEvery].
type tickMsg string

// saidMsg is the outcome of an order or an answer.
type saidMsg struct {
	said   string
	err    error
	closes *view.Editor // that is done, or nil
}

func (m *model) Init() tea.Cmd { return tea.Batch(m.look(), m.tick()) }

func (m *model) tick() tea.Cmd {
	return tea.Tick(lookEvery, func(time.Time) tea.Msg { return tickMsg(m.project.Version()) })
}

// look reads the state. During another read it does nothing: Update reads again if the cursors have moved.
func (m *model) look() tea.Cmd {
	if m.reading {
		return nil
	}
	m.reading = true
	want, had := m.want, m.seen
	return func() tea.Msg { return m.read(m.ctx, want, had) }
}

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
		if msg.items == nil && msg.err != nil { // keep the previous reading
			seen := *m.seen
			seen.version, seen.Now, seen.Holder, seen.err = msg.version, msg.Now, msg.Holder, msg.err
			msg = &seen
		}
		m.seen, m.want = msg, msg.place
	case saidMsg:
		m.doing = false
		m.say(msg.said, msg.err)
		if unsure, is := errors.AsType[*unsureError](msg.err); is {
			m.said, m.toConfirm, msg.closes = "", &unsure.confirmation, unsure.typed
		}
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

// follow reads the state again if the cursors are not at the wanted place. A filter or a change of the lists moves
// them.
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

func (m *model) say(said string, err error) {
	m.said, m.failed = said, err != nil
	if err != nil {
		m.said = text.JoinedBy(" ", said, project.Message(err))
	}
}

// place is what the user looks at. An empty id means the default: the boulder at work, else the active one; its first
// sub-task.
type place struct{ boulder, task string }

// reading is one read of the state.
type reading struct {
	asked place // that was to be read
	place       // that was read
	project.Reading
	version string                   // see [project.Project.Version]
	items   []view.ListItem          // not archived, newest first
	asks    []report.Blocker         // that can still be answered, by urgency
	watched []project.WatchStatus    // the user's own sessions
	status  *view.Status             // nil if there is no boulder, or it cannot be read
	sub     *boulder.SubTask         // at place, or nil
	turns   []boulder.Turn           // of sub
	said    []view.SessionTranscript // transcripts of sub
	err     error                    // what could not be read; the other fields are set
}

// read reads the state at a place. The log only grows, so events in the previous reading are not read again.
func (m *model) read(ctx context.Context, at place, had *reading) *reading {
	r := &reading{asked: at, place: at, version: m.project.Version(), Reading: project.Reading{Now: time.Now()}}
	pending, asksErr := m.project.ListBlockers(ctx, blockers.Filter{Status: boulder.BlockerPending})
	r.asks = view.WithoutMoot(pending)
	watched, watchErr := m.project.Watched(ctx)
	r.watched = watched.Sessions
	stateErr := m.readState(ctx, r, had)
	r.turns = boulder.Turns(r.Events, r.task)
	var saidErr error
	r.said, saidErr = view.ReadTranscripts(r.Boulder.Project, r.turns)
	r.err = errors.Join(stateErr, asksErr, saidErr, watchErr)
	return r
}

func (m *model) readState(ctx context.Context, r, before *reading) error {
	there, err := m.project.Read(ctx)
	if err != nil {
		return err
	}
	defer there.Close()
	r.Holder = there.Holder
	all, err := there.Listing(ctx)
	known := false
	for i := range all {
		if item := view.NewListItem(&all[i], there.Holder, time.Now()); item.ArchivedAt.IsZero() {
			r.items, known = append(r.items, item), known || item.BoulderID == r.boulder
		}
	}
	if at := slices.IndexFunc(r.items, func(i view.ListItem) bool { return i.Running && i.Status != boulder.Paused }); !known && at >= 0 {
		r.place = place{boulder: r.items[at].BoulderID}
	} else if !known {
		active, err := project.Resolve(ctx, there, "")
		if r.place = (place{boulder: active}); err != nil {
			return err
		}
	}
	d, getErr := there.Get(ctx, r.boulder)
	if d.Boulder.ID == "" {
		return errors.Join(err, getErr)
	}
	var had []boulder.Event // from the previous reading
	var last uint64
	if n := len(before.Events); before.boulder == r.boulder && n > 0 {
		had, last = before.Events, before.Events[n-1].Seq
	}
	more, eventsErr := there.Events(ctx, r.boulder, last, 0)
	read := m.project.Reading(ctx, there, d, slices.Concat(had, more))
	r.Reading, r.status = *read, view.NewStatus(read)
	for _, t := range r.SubTasks {
		if r.sub == nil || t.ID == r.asked.task {
			r.sub, r.task = t, t.ID
		}
	}
	return errors.Join(err, getErr, eventsErr)
}
