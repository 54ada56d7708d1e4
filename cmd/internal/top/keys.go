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
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/project/report"
)

// binding is an action, its keys, and its line in the help.
type binding struct {
	keys        string // as bubbletea names them
	shown, does string // empty: the binding before has the line for both
	do          func() tea.Cmd
}

func (m *model) bindings() []binding {
	to := func(do func()) func() tea.Cmd {
		return func() tea.Cmd { do(); return nil }
	}
	by := func(n int) func() tea.Cmd {
		return to(func() { m.pane[m.focus].move(n) })
	}
	sure := func(do boulder.OrderKind) func() tea.Cmd {
		return to(func() {
			if o := m.about(do); o != nil {
				m.confirm(o.question(), func() tea.Cmd { return m.order(o, nil) })
			}
		})
	}
	height, far := m.pane[m.focus].height, 1<<30
	return []binding{
		{"j down", "j ↓ k ↑", "move", by(1)},
		{"k up", "", "", by(-1)},
		{"pgdown ctrl+f space", "PgDn PgUp", "move by a page (Ctrl-F, Ctrl-B)", by(height)},
		{"pgup ctrl+b", "", "", by(-height)},
		{"g home", "g G", "to the beginning, to the end", by(-far)},
		{"G end", "", "", by(far)},
		{"tab l right", "Tab → ←", "next pane, pane before (l, h)", to(func() { m.turnTo((m.focus + 1) % panes) })},
		{"shift+tab h left", "", "", to(func() { m.turnTo((m.focus + panes - 1) % panes) })},
		{"enter", "Enter", "open: the sub-tasks, the text, the text on the whole screen", to(m.open)},
		{"esc", "Esc", "back; takes a filter away first", to(m.back)},
		{"]", "] [", "next text, text before: log, transcript, why, status, spending", to(func() { m.tab = (m.tab + 1) % len(tabs) })},
		{"[", "", "", to(func() { m.tab = (m.tab + len(tabs) - 1) % len(tabs) })},
		{"/", "/", "filter the lines of the pane", to(m.filter)},
		{"a", "a", "answer blockers, the nearest to the cursor first", to(func() { m.answer(m.nearest(), 0) })},
		{"n", "n", "note for the sub-task, or for the whole boulder", to(m.note)},
		{"p", "p", "pause the boulder", func() tea.Cmd {
			return m.order(&order{m.pane[onBoulders].id(), boulder.Order{Do: boulder.OrderPause}}, nil)
		}},
		{"r", "r s c", "retry, skip or cancel the sub-task; c on a boulder: cancel that", sure(boulder.OrderRetry)},
		{"s", "", "", sure(boulder.OrderSkip)},
		{"c", "", "", sure(boulder.OrderCancel)},
		{"u", "u", "continue the boulder: in the process that has it paused, or in the background server", m.resume},
		{"L", "L", "land the results of the boulder in your files", to(m.land)},
		{"S", "S", "start a plan file in the background server", to(m.start)},
		{"?", "?", "these keys", to(func() { m.help = true })},
		{"q", "q", "leave; what runs is not disturbed", func() tea.Cmd { return tea.Quit }},
	}
}

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
	case m.help:
		m.help = false
		return nil
	case m.toConfirm != nil:
		sure := m.toConfirm
		if m.toConfirm = nil; key == "y" {
			return sure.do()
		}
		return nil
	}
	m.said = ""
	for _, b := range m.bindings() {
		if slices.Contains(strings.Fields(b.keys), key) {
			return b.do()
		}
	}
	return nil
}

func (m *model) turnTo(f focus) {
	if m.focus, m.zoom = f, false; f != onText {
		m.taskText = f == onTasks
	}
}

func (m *model) open() {
	if m.focus == onText {
		m.zoom = !m.zoom
		return
	}
	m.turnTo(m.focus + 1)
}

func (m *model) back() {
	switch p := &m.pane[m.focus]; {
	case m.zoom:
		m.zoom = false
	case p.filter != "":
		p.filter = ""
	case m.focus == onText && m.taskText:
		m.turnTo(onTasks)
	default:
		m.turnTo(onBoulders)
	}
}

// edit passes a key or a paste to the editor, but leaves or scrolls with some.
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
	return m.take(m.editor.Text(), complete)
}

func (m *model) prompt(prompt string, take func(typed string, complete bool) tea.Cmd) {
	m.editor, m.take = view.NewEditor(prompt, m.size.Width), take
}

func (m *model) filter() {
	p := &m.pane[m.focus]
	m.prompt("/", func(typed string, complete bool) tea.Cmd {
		if p.filter = typed; complete {
			m.editor = nil
		}
		return nil
	})
}

func (m *model) nearest() []report.Blocker {
	all := slices.Clone(m.seen.asks) // sorted by urgency
	distance := func(b report.Blocker) int {
		switch {
		case b.BoulderID != m.want.boulder:
			return 2
		case b.SubTaskID != m.want.task || !m.taskText:
			return 1
		}
		return 0
	}
	slices.SortStableFunc(all, func(a, b report.Blocker) int { return distance(a) - distance(b) })
	return all
}

// answer asks the user about all[i]; an empty answer leads to the next one.
func (m *model) answer(all []report.Blocker, i int) {
	if m.editor, m.ask = nil, nil; i == len(all) {
		m.say("Nothing else waits for an answer.", nil)
		return
	}
	m.ask = &all[i]
	m.prompt(m.ask.ID+"> ", func(typed string, complete bool) tea.Cmd {
		if !complete {
			return nil
		}
		how, err := view.ParseAnswer(typed, &all[i].Blocker)
		switch {
		case errors.Is(err, io.EOF):
			m.editor, m.ask = nil, nil
			return nil
		case err != nil:
			m.say("", err)
			return nil
		case how == nil:
			m.answer(all, i+1)
			return nil
		}
		return m.do(m.editor, func() (string, error) {
			answered, err := m.project.SettleBlocker(m.ctx, &all[i], *how)
			return view.SettledBlocker(answered, time.Now()), err
		})
	})
}

func (m *model) note() {
	o := m.about(boulder.OrderNote)
	if o == nil {
		return
	}
	m.prompt("note> ", func(typed string, complete bool) tea.Cmd {
		if !complete {
			return nil
		}
		o.Text = m.project.Clean("The note", typed)[0]
		return m.order(o, m.editor)
	})
}

// about makes an order about the boulder or sub-task at the cursor; nil, with a message, if there is none.
func (m *model) about(do boulder.OrderKind) *order {
	o := &order{m.pane[onBoulders].id(), boulder.Order{Do: do}}
	if m.taskText {
		o.SubTaskID = m.pane[onTasks].id()
	}
	ofTask := m.taskText || do == boulder.OrderRetry || do == boulder.OrderSkip
	if o.boulder == "" || ofTask && o.SubTaskID == "" {
		m.say("", errors.New("the cursor is at nothing to "+string(do)+": choose a sub-task first"))
		return nil
	}
	return o
}

// order carries out an order. typed is the editor that its text comes from, or nil.
func (m *model) order(o *order, typed *view.Editor) tea.Cmd {
	return m.do(typed, func() (string, error) {
		if err := o.Validate(); err != nil {
			return "", err
		}
		done, err := m.project.Order(m.ctx, func(d *project.Access) (boulder.Snapshot, boulder.Order, error) {
			b, err := d.Get(m.ctx, o.boulder)
			return b, o.Order, err
		})
		if err != nil {
			return "", err
		}
		return view.NewOrder(done).Text(), nil
	})
}

// do runs f, unless another call is under way. typed, if not nil, closes if f has an effect.
func (m *model) do(typed *view.Editor, f func() (effect string, err error)) tea.Cmd {
	if m.doing {
		m.say("", errors.New("the order before is still being carried out"))
		return nil
	}
	m.doing = true
	m.say("…", nil)
	return func() tea.Msg {
		effect, err := f()
		if effect == "" {
			typed = nil
		}
		return saidMsg{effect, err, typed}
	}
}

func (o *order) question() string {
	of := "boulder " + boulder.ShortID(o.boulder)
	if o.SubTaskID != "" {
		of = fmt.Sprintf("%q of %s", o.SubTaskID, of)
	}
	return fmt.Sprintf("%s %s?", o.Do, of)
}
