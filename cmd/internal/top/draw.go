package top

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/project"
)

// wide is the terminal width, in columns, from which on the text is to the right of the lists.
const wide = 120

// fullScreen reports whether the text fills the screen.
func (m *model) fullScreen() bool { return m.zoom || m.ask != nil }

func (m *model) sideBySide() bool { return m.size.Width >= wide && !m.fullScreen() }

func (m *model) widths() (lists, text int) {
	if m.sideBySide() {
		lists = max(60, m.size.Width*2/5)
		return lists, m.size.Width - lists - 1
	}
	return m.size.Width, m.size.Width
}

func (m *model) arrange() {
	boulders, tasks, words := &m.pane[onBoulders], &m.pane[onTasks], &m.pane[onText]
	m.fillLists()
	room := max(6, m.size.Height-2-len(m.foot())) // without the head and the first pane's title
	switch words.height = room; {
	case m.sideBySide():
		boulders.height = max(1, min(len(boulders.lines), room/3))
		tasks.height = room - 1 - boulders.height
	case !m.fullScreen(): // the focused list gets the most lines
		most := [panes]int{min(3, room/5), min(5, room/4)}
		if m.focus < onText {
			most[m.focus] = max(room/2, room-10)
		}
		boulders.height = max(1, min(len(boulders.lines), most[onBoulders]))
		tasks.height = max(1, min(len(tasks.lines), most[onTasks]))
		words.height = room - 2 - boulders.height - tasks.height
	}
	m.fillText()
	for i := range m.pane {
		m.pane[i].scroll()
	}
}

func (m *model) fillLists() {
	width, _ := m.widths()
	asked := map[place]bool{}
	for _, b := range m.seen.asks {
		if b.Awaited {
			asked[place{boulder: b.BoulderID}], asked[place{b.BoulderID, b.SubTaskID}] = true, true
		}
	}
	mark := func(of place, line string) string { // "?" if it waits for the user
		return m.paint.Yellow(cmp.Or(text.If(asked[of], page.Question.String()), " ")) + line
	}
	lines := m.printed(width-2, func(o page.Out) { view.List(o, m.seen.items, m.seen.Now) })[1 : 1+len(m.seen.items)] // without the header
	ids := make([]string, len(lines))
	for i, item := range m.seen.items {
		ids[i], lines[i] = item.BoulderID, mark(place{boulder: item.BoulderID}, lines[i])
	}
	m.pane[onBoulders].fill(lines, ids, m.want.boulder)
	lines, ids = nil, []string{}
	if m.seen.status != nil && m.seen.boulder == m.want.boulder {
		for _, l := range tree(m.seen.SubTasks, width/20) {
			of := place{m.want.boulder, m.seen.SubTasks[l.index].ID}
			ids, lines = append(ids, of.task), append(lines, mark(of, m.seen.status.Row(m.paint, l.index, width-2, l.branch)))
		}
	}
	m.pane[onTasks].fill(lines, ids, m.want.task)
}

// printed returns the lines that write prints at a width in columns.
func (m *model) printed(width int, write func(o page.Out)) []string {
	var b strings.Builder
	write(page.Out{Paint: m.paint, Writer: &b, Columns: width + 1})
	return strings.Split(b.String(), "\n")
}

// tabs are the titles of the texts, in the order of the constants below.
var tabs = []string{"Log", "Transcript", "Why", "Status", "Spending"}

const (
	onLog = iota
	onTranscript
	onWhy
	onStatus
	onSpending
)

// fillText renders the text. The previous text stays until the wanted place was read.
func (m *model) fillText() {
	p := &m.pane[onText]
	topic := fmt.Sprint(m.want, m.taskText, m.tab)
	if m.ask != nil {
		topic = m.ask.ID
	} else if m.seen.place != m.want || m.seen.status == nil {
		return
	}
	if topic != m.topic {
		m.topic, p.top, p.tail = topic, 0, m.ask == nil && m.tab <= onTranscript
	}
	p.fill(m.text(), nil, "")
}

func (m *model) text() []string {
	_, width := m.widths()
	r, now := m.seen, time.Now()
	switch {
	case m.ask != nil:
		return m.printed(width, func(o page.Out) { view.PrintBlocker(o, m.ask, 0, true, now) })
	case m.tab == onLog:
		return m.log(width)
	case m.tab == onStatus:
		return m.printed(width, r.status.Print)
	case m.tab == onSpending:
		return m.printed(width, view.NewReceipt(&r.Reading).Print)
	case r.sub == nil:
		return nil
	case m.tab == onTranscript:
		return m.transcript(width)
	default:
		return m.printed(width, view.NewWhy(&r.Reading, r.sub).Print)
	}
}

// logShown is how many of the newest events are shown.
const logShown = 2000

func (m *model) log(width int) (lines []string) {
	events := m.seen.Events
	for _, e := range events[max(0, len(events)-logShown):] {
		told := view.Describe(e)
		if told.Line == "" || m.taskText && told.SubTask != m.want.task {
			continue
		}
		of := text.If(told.SubTask != "" && !m.taskText, m.paint.Cyan(text.OneLine(told.SubTask))+" ")
		lines = append(lines, m.timed(e.Time, of+text.OneLine(told.Line), width)...)
	}
	return lines
}

func (m *model) transcript(width int) (lines []string) {
	for _, of := range m.seen.said {
		lines = append(lines, m.paint.Bold(fmt.Sprintf("attempt %d", of.Attempt)))
		told := view.NewTranscript(page.Out{Paint: m.paint, Columns: width - 8}, false, of, m.seen.turns)
		for _, line := range of.Lines {
			if said := told.Tell(line); said != "" {
				lines = append(lines, m.timed(line.Time, said, width)...)
			}
		}
	}
	if lines == nil {
		return []string{m.paint.Dim("No turn has ended yet.")}
	}
	return lines
}

// timed prefixes a sanitized text with its time, and wraps it.
func (m *model) timed(at time.Time, said string, width int) []string {
	said = strings.ReplaceAll(text.Wrap(said, width-9), "\n", "\n"+strings.Repeat(" ", 9))
	return strings.Split(m.paint.Dim(view.Clock(at))+" "+said, "\n")
}

// head shows the project, what waits for the user, and the process that holds the state.
func (m *model) head() string {
	who, trouble := "no process runs here", ""
	if h := m.seen.Holder; h != nil {
		who, trouble = fmt.Sprintf("process %d: %s", h.PID, text.Clip(h.Command, 40)), text.Prefixed("out of date: ", text.OneLine(h.Trouble))
	}
	return text.Truncate(text.JoinedBy("  ", m.paint.Bold(text.OneLine(filepath.Base(m.project.Dir()))),
		m.paint.Yellow(view.WaitingOf(m.seen.asks).Text()), m.paint.Yellow(trouble), view.WatchedText(m.seen.watched), m.paint.Dim(who)), m.size.Width)
}

// foot shows the last message or read error, the prompt and what the user types, or the keys.
func (m *model) foot() (lines []string) {
	add := func(style func(string) string, most int, said string) {
		all := strings.Split(text.Wrap(text.OneLine(said), m.size.Width-1), "\n")
		for _, line := range all[:min(len(all), most)] {
			lines = append(lines, style(text.Truncate(line, m.size.Width)))
		}
	}
	switch {
	case m.said != "" && m.failed:
		add(m.paint.Yellow, 4, m.said)
	case m.said != "":
		add(m.paint.Green, 4, m.said)
	case errors.Is(m.seen.err, project.ErrNothing): // which is no fault
		add(m.paint.Dim, 2, "Nothing has been run here yet. S starts a plan file; `manager plan` makes one. ? keys · q")
	case m.seen.err != nil:
		add(m.paint.Red, 4, project.Message(m.seen.err))
	}
	switch {
	case m.toConfirm != nil:
		add(m.paint.Yellow, 2, m.toConfirm.question+" y: yes, any other key: no")
	case m.ask != nil:
		add(m.paint.Dim, 3, view.AnswerHint(&m.ask.Blocker, "Enter: later · /skip: continue without · Esc: leave"))
	case m.editor == nil && lines == nil:
		add(m.paint.Dim, 1, "j/k move · Enter open · Esc back · / filter · ] text · a answer · "+
			text.If(m.seen.Boulder.Status == boulder.Paused, "u continue · ")+"? keys · q")
	}
	if m.editor != nil {
		lines = append(lines, strings.Split(m.editor.View().Content, "\n")...)
	}
	return lines
}

func (m *model) View() tea.View {
	lists, width := m.widths()
	draw := func(f focus, title string, width int) []string {
		return m.pane[f].draw(m.paint, title, width, m.focus == f || m.fullScreen())
	}
	body, words := draw(onBoulders, "Boulders", lists), draw(onText, m.title(), width)
	body = append(body, draw(onTasks, "Sub-tasks", lists)...)
	switch {
	case m.help:
		body = m.helpText()
	case m.fullScreen():
		body = words
	case m.sideBySide():
		for i, line := range words {
			body[i] += strings.Repeat(" ", lists+1-ansi.StringWidthWc(body[i])) + line
		}
	default:
		body = append(body, words...)
	}
	foot := m.foot()
	body = append(body, make([]string, m.size.Height)...)[:max(0, m.size.Height-1-len(foot))]
	lines := append(append([]string{m.head()}, body...), foot...)
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	if m.editor != nil {
		typed := m.editor.View()
		v.Cursor = typed.Cursor
		v.Cursor.Y += len(lines) - 1 - strings.Count(typed.Content, "\n")
	}
	return v
}

// title names all texts and marks the shown one.
func (m *model) title() string {
	if m.ask != nil {
		return "Blocker " + m.ask.ID
	}
	of := boulder.ShortID(m.want.boulder)
	if m.taskText && m.tab == onLog || m.tab == onTranscript || m.tab == onWhy {
		of = m.want.task
	}
	all := strings.Replace(strings.Join(tabs, " "), tabs[m.tab], "["+tabs[m.tab]+"]", 1)
	return all + text.Prefixed(" · ", text.OneLine(of))
}

func (m *model) helpText() []string {
	lines := []string{"", m.paint.Bold("Keys"), ""}
	for _, b := range m.bindings() {
		if b.does != "" {
			lines = append(lines, text.Truncate("  "+m.paint.Cyan(text.Fit(b.shown, 11))+b.does, m.size.Width))
		}
	}
	return append(lines, "", m.paint.Dim("Any key goes back."))
}
