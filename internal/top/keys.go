package top

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/report"
	"github.com/bouldermgr/manager/internal/view"
	"github.com/bouldermgr/manager/project"
)

// binding is what keys do, and what the help says of it.
type binding struct {
	keys        string // as bubbletea names them
	shown, does string // empty: the binding before tells it
	do          func(m *model) tea.Cmd
}

func bindings() []binding {
	to := func(f func(m *model)) func(m *model) tea.Cmd {
		return func(m *model) tea.Cmd { f(m); return nil }
	}
	by := func(n func(page int) int) func(m *model) tea.Cmd {
		return func(m *model) tea.Cmd { return m.move(n(m.pane[m.focus].height)) }
	}
	const far = 1 << 30
	return []binding{
		{"j down", "j ↓ k ↑", "move", by(func(int) int { return 1 })},
		{"k up", "", "", by(func(int) int { return -1 })},
		{"pgdown ctrl+f space", "PgDn PgUp", "move by a page (Ctrl-F, Ctrl-B)", by(func(page int) int { return page })},
		{"pgup ctrl+b", "", "", by(func(page int) int { return -page })},
		{"g home", "g G", "to the beginning, to the end", by(func(int) int { return -far })},
		{"G end", "", "", by(func(int) int { return far })},
		{"tab l right", "Tab → ←", "next pane, pane before (h, l)", to(func(m *model) { m.turn(1) })},
		{"shift+tab h left", "", "", to(func(m *model) { m.turn(panes - 1) })},
		{"enter", "Enter", "open: the sub-tasks, the text, the text on the whole screen", to((*model).open)},
		{"esc", "Esc", "back; takes a filter away first", to((*model).back)},
		{"]", "] [", "next text, text before: log, transcript, why, status, spending", to(func(m *model) { m.leaf(1) })},
		{"[", "", "", to(func(m *model) { m.leaf(len(tabs) - 1) })},
		{"/", "/", "filter the lines of the pane", to((*model).filter)},
		{"a", "a", "answer a blocker: of the sub-task, of the boulder, or the most urgent", to((*model).answerNext)},
		{"n", "n", "note for the sub-task, or for all of the boulder", to((*model).note)},
		{"p", "p", "pause the boulder", (*model).pause},
		{"r", "r s c", "retry, skip or cancel the sub-task (c on boulders: the boulder); asks first", orders(boulder.OrderRetry)},
		{"s", "", "", orders(boulder.OrderSkip)},
		{"c", "", "", orders(boulder.OrderCancel)},
		{"?", "?", "these keys", to(func(m *model) { m.help = true })},
		{"q", "q", "leave; nothing that runs is disturbed", func(*model) tea.Cmd { return tea.Quit }},
	}
}

// key is called for a key or a paste.
func (m *model) key(msg tea.Msg) tea.Cmd {
	key := ""
	if pressed, ok := msg.(tea.KeyPressMsg); ok {
		key = pressed.String()
	}
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case key == "ctrl+z":
		return tea.Suspend
	case m.editor != nil:
		return m.edit(key, msg)
	}
	m.said = ""
	switch {
	case m.help:
		m.help = false
		return nil
	case m.sure != nil:
		do := *m.sure
		if m.sure = nil; key == "y" {
			return m.order(do)
		}
		return nil
	}
	for _, b := range bindings() {
		if key != "" && slices.Contains(strings.Fields(b.keys), key) {
			return b.do(m)
		}
	}
	return nil
}

// move moves the cursor of a list, or a text.
func (m *model) move(by int) tea.Cmd {
	p := &m.pane[m.focus]
	p.move(by)
	switch id := p.id(); {
	case id == "":
		return nil
	case m.focus == onBoulders && id != m.want.boulder:
		m.want = place{boulder: id}
	case m.focus == onTasks && id != m.want.task:
		m.want.task = id
	default:
		return nil
	}
	return m.look()
}

func (m *model) turn(by focus) { m.set((m.focus + by) % panes) }

func (m *model) set(f focus) {
	if m.focus = f; f != onText {
		m.deep, m.zoom = f == onTasks, false
	}
}

func (m *model) open() {
	if m.focus == onText {
		m.zoom = !m.zoom
		return
	}
	m.set(m.focus + 1)
}

func (m *model) back() {
	switch p := &m.pane[m.focus]; {
	case m.zoom:
		m.zoom = false
	case p.filter != "":
		p.filter = ""
	case m.focus == onText && !m.deep:
		m.set(onBoulders)
	case m.focus > onBoulders:
		m.set(m.focus - 1)
	}
}

func (m *model) leaf(by int) { m.tab = (m.tab + by) % len(tabs) }

// edit hands a key or a paste to the text that the user types.
func (m *model) edit(key string, msg tea.Msg) tea.Cmd {
	switch p := &m.pane[onText]; {
	case key == "esc":
		m.editor, m.ask = nil, nil
		return nil
	case m.ask != nil && key == "pgdown":
		p.move(p.height)
		return nil
	case m.ask != nil && key == "pgup":
		p.move(-p.height)
		return nil
	}
	complete := m.editor.Type(msg)
	if m.typed != nil {
		m.typed(m.editor.Text())
	}
	if !complete {
		return nil
	}
	typed := m.editor.Text()
	m.editor = nil
	return m.done(typed)
}

// prompt has the user type a text.
func (m *model) prompt(prompt string, typed func(string), done func(string) tea.Cmd) {
	m.editor, m.typed, m.done = view.NewEditor(prompt, m.size.Width), typed, done
}

func (m *model) filter() {
	p := &m.pane[m.focus]
	m.prompt("/", func(s string) { p.filter = s }, func(string) tea.Cmd { return nil })
}

// answerNext shows the blocker that is nearest to the cursor.
func (m *model) answerNext() {
	var nearest *report.Blocker
	best := -1
	for i := range m.seen.asks { // the most urgent first
		near := 0
		switch b := &m.seen.asks[i]; {
		case b.BoulderID == m.want.boulder && b.SubTaskID == m.want.task && m.focus != onBoulders:
			near = 2
		case b.BoulderID == m.want.boulder:
			near = 1
		}
		if near > best {
			nearest, best = &m.seen.asks[i], near
		}
	}
	if nearest == nil {
		m.say("Nothing waits for an answer.", nil)
		return
	}
	m.answer(nearest)
}

// answer shows a blocker and has the user answer it.
func (m *model) answer(b *report.Blocker) {
	m.ask = b
	m.prompt(b.ID+"> ", nil, func(typed string) tea.Cmd {
		m.ask = nil
		how, err := m.Parse(typed, &b.Blocker)
		switch {
		case errors.Is(err, io.EOF), err == nil && how == nil:
			return nil
		case err != nil:
			m.say("", err)
			m.answer(b)
			return nil
		}
		return m.do(func() saidMsg {
			desk, err := m.Blockers()
			if err != nil {
				return saidMsg{err: err, ask: b}
			}
			answered, err := m.Settle(m.ctx, desk, b, *how)
			if answered == nil {
				return saidMsg{err: err, ask: b}
			}
			return saidMsg{said: view.Settled(answered, time.Now()), err: err}
		})
	})
}

func (m *model) note() {
	if m.want.boulder == "" {
		return
	}
	o := m.about(boulder.OrderNote)
	m.prompt("note> ", nil, func(typed string) tea.Cmd {
		if typed == "" {
			return nil
		}
		o.Text = m.Clean("The note", typed)[0]
		return m.order(o)
	})
}

// about is an order about what the cursor is at.
func (m *model) about(do boulder.OrderKind) order {
	o := order{m.want.boulder, boulder.Order{Do: do}}
	if m.deep {
		o.SubTaskID = m.want.task
	}
	return o
}

func (m *model) pause() tea.Cmd {
	return m.order(order{m.want.boulder, boulder.Order{Do: boulder.OrderPause}})
}

// orders gives an order about the sub-task, or on boulders about the boulder, when the user has said yes.
func orders(do boulder.OrderKind) func(m *model) tea.Cmd {
	return func(m *model) tea.Cmd {
		o := m.about(do)
		if err := o.Validate(); err != nil {
			m.say("", fmt.Errorf("%w: choose one in the pane of sub-tasks", err))
			return nil
		}
		m.sure = &o
		return nil
	}
}

// order has an order carried out.
func (m *model) order(o order) tea.Cmd {
	if o.boulder == "" {
		return nil
	}
	return m.do(func() saidMsg {
		done, err := m.Order(m.ctx, func(d *project.Desk) (boulder.Snapshot, boulder.Order, error) {
			b, err := d.Get(m.ctx, o.boulder)
			return b, o.Order, err
		})
		if err != nil {
			return saidMsg{err: err}
		}
		return saidMsg{said: view.NewOrder(done).Text()}
	})
}

// do runs one thing at a time.
func (m *model) do(f func() saidMsg) tea.Cmd {
	if m.doing {
		m.say("", errors.New("the order before is still being carried out"))
		return nil
	}
	m.doing, m.failed, m.said = true, false, "…"
	return func() tea.Msg { return f() }
}
