package top

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/internal/view"
)

// wide is from how many columns on the text stands beside the lists.
const wide = 120

// tabs are the texts there are.
var tabs = []string{"Log", "Transcript", "Why", "Status", "Spending"}

const (
	onLog = iota
	onTranscript
	onWhy
	onStatus
)

// sheet is what a text is made of: while it is the same the text is.
type sheet struct {
	seen   *reading
	want   place
	deep   bool
	tab    int
	width  int
	filter string
	ask    string
}

// listWidth is how wide lists are.
func (m *model) listWidth() int {
	if m.size.Width >= wide {
		return max(60, m.size.Width*2/5)
	}
	return m.size.Width
}

func (m *model) textWidth() int {
	if m.size.Width >= wide && !m.whole() {
		return m.size.Width - m.listWidth() - 1
	}
	return m.size.Width
}

// whole reports whether the text has the whole screen.
func (m *model) whole() bool { return m.zoom || m.ask != nil }

// arrange gives the panes their heights and lines, from what was read.
func (m *model) arrange() {
	room := m.size.Height - 1 - len(m.foot()) - 1
	m.fillBoulders()
	m.fillTasks()
	boulders, tasks := &m.pane[onBoulders], &m.pane[onTasks]
	p := &m.pane[onText]
	p.height = room
	if !m.whole() && m.size.Width >= wide {
		boulders.height = max(1, min(len(boulders.lines), room/3))
		tasks.height = room - 1 - boulders.height
	} else if !m.whole() { // the list that keys go to gets what it needs, and the text what the others leave
		least := map[focus]int{onBoulders: 3, onTasks: 5}
		if m.focus < onText {
			least[m.focus] = room - 2 - 8
		}
		boulders.height = max(1, min(len(boulders.lines), least[onBoulders]))
		tasks.height = max(1, min(len(tasks.lines), least[onTasks]))
		p.height = room - 2 - boulders.height - tasks.height
	}
	boulders.clamp()
	tasks.clamp()
	s := sheet{m.seen, m.want, m.deep, m.tab, m.textWidth(), m.pane[onText].filter, ""}
	if m.ask != nil {
		s.ask = m.ask.ID
	}
	if s == m.drawn {
		p.clamp()
		return
	}
	if m.drawn.want != s.want || m.drawn.deep != s.deep || m.drawn.tab != s.tab || m.drawn.ask != s.ask { // another text
		p.top, p.tail = 0, m.tab <= onTranscript && s.ask == ""
	}
	m.drawn = s
	filter := p.filter
	if s.ask != "" {
		p.filter = "" // it is not of this text
	}
	p.fill(m.text(s), nil, "")
	p.filter = filter
}

func (m *model) fillBoulders() {
	asked, ids := map[string]bool{}, []string{}
	for _, b := range m.seen.asks {
		asked[b.BoulderID] = asked[b.BoulderID] || b.Awaited
	}
	lines := m.printed(m.listWidth()-2, func(o page.Out) { view.List(o, m.seen.items, m.seen.at) })
	for i, item := range m.seen.items {
		ids = append(ids, item.BoulderID)
		lines[i] = m.needs(asked[item.BoulderID]) + lines[i]
	}
	m.pane[onBoulders].fill(lines[:len(ids)], ids, m.want.boulder)
}

// needs is a column that says whether the user is waited for.
func (m *model) needs(is bool) string {
	return m.Paint.Yellow(map[bool]string{true: "?", false: " "}[is])
}

func (m *model) fillTasks() {
	asked, lines, ids := map[string]bool{}, []string{}, []string{}
	for _, b := range m.seen.asks {
		asked[b.BoulderID+"/"+b.SubTaskID] = asked[b.BoulderID+"/"+b.SubTaskID] || b.Awaited
	}
	if m.seen.status != nil && m.seen.boulder == m.want.boulder {
		for _, l := range tree(m.seen.SubTasks, m.listWidth()/20) {
			id := m.seen.SubTasks[l.index].ID
			ids = append(ids, id)
			lines = append(lines, m.needs(asked[m.want.boulder+"/"+id])+m.seen.status.Line(m.Paint, l.index, m.listWidth()-2, l.branch))
		}
	}
	m.pane[onTasks].fill(lines, ids, m.want.task)
}

// printed is what a view prints in so many columns, line by line.
func (m *model) printed(width int, by func(o page.Out)) []string {
	var b strings.Builder
	by(page.Out{Paint: m.Paint, Writer: &b, Columns: width + 1})
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// text is what the third pane shows.
func (m *model) text(s sheet) (lines []string) {
	r, t := m.seen, m.seen.SubTask()
	now := time.Now()
	switch {
	case s.ask != "":
		return m.printed(s.width, func(o page.Out) { m.ask.Print(o, 0, true, now) })
	case r.boulder != s.want.boulder || r.status == nil:
		return nil
	case s.tab == onLog:
		return m.log(s)
	case s.tab == onStatus:
		return m.printed(s.width, r.status.Print)
	case s.tab > onStatus:
		return m.printed(s.width, view.NewReceipt(r.Snapshot, now).Bound(r.Snapshot, r.limits.EvaluationsTotal).Print)
	case t == nil || r.task != s.want.task:
		return nil
	case s.tab == onTranscript:
		return m.transcript(s)
	}
	why := view.NewWhy(r.Snapshot, t, r.turns(), r.events, r.limits, r.holder.Runs(r.Boulder), now)
	return m.printed(s.width, why.Print)
}

// logShown is how many events are shown.
const logShown = 5000

func (m *model) log(s sheet) (lines []string) {
	events := m.seen.events
	for _, e := range events[max(0, len(events)-logShown):] {
		told := view.Describe(e)
		if told.Line == "" || s.deep && told.SubTask != s.want.task {
			continue
		}
		line := text.OneLine(told.Line)
		if told.SubTask != "" && !s.deep {
			line = m.Paint.Cyan(text.OneLine(told.SubTask)) + " " + line
		}
		lines = append(lines, m.timed(e.Time, line, s.width)...)
	}
	return lines
}

func (m *model) transcript(s sheet) (lines []string) {
	for _, of := range m.seen.said {
		lines = append(lines, m.Paint.Bold(fmt.Sprintf("attempt %d", of.attempt)))
		told := view.NewTranscript(page.Out{Paint: m.Paint, Columns: s.width - 8}, false, of.path, m.seen.turns(), of.attempt)
		for _, line := range of.lines {
			if said := told.Tell(line); said != "" {
				lines = append(lines, m.timed(line.Time, said, s.width)...)
			}
		}
	}
	if len(lines) == 0 {
		return []string{m.Paint.Dim("There is no transcript yet: a turn's is stored when the turn has ended.")}
	}
	return lines
}

// timed is a clean text behind its time, in lines of so many columns.
func (m *model) timed(at time.Time, said string, width int) []string {
	said = strings.ReplaceAll(text.Wrap(said, width-9), "\n", "\n"+strings.Repeat(" ", 9))
	return strings.Split(m.Paint.Dim(view.Clock(at))+" "+said, "\n")
}

// foot is what stands at the bottom: what the user types, what was said, or the keys.
func (m *model) foot() []string {
	width := m.size.Width
	switch {
	case m.editor != nil:
		lines := strings.Split(m.editor.View().Content, "\n")
		lines = lines[max(0, len(lines)-m.size.Height/3):]
		if m.ask != nil {
			lines = append([]string{m.Paint.Dim(text.Truncate(view.AnswerHint(&m.ask.Blocker, "Esc: later · /skip: continue without"), width))}, lines...)
		}
		return append(m.told(), lines...)
	case m.sure != nil:
		what := "boulder " + m.sure.boulder
		if m.sure.SubTaskID != "" {
			what = fmt.Sprintf("%q of ", m.sure.SubTaskID) + what
		}
		return []string{m.Paint.Yellow(text.Truncate(fmt.Sprintf("%s %s? y: yes, any other key: no", m.sure.Do, what), width))}
	case m.said != "":
		return m.told()
	}
	return []string{m.Paint.Dim(text.Truncate("j/k move  Enter open  Esc back  Tab pane  / filter  ] text  a answer  ? all keys  q quit", width))}
}

// told is what was said last, in at most four lines.
func (m *model) told() []string {
	if m.said == "" {
		return nil
	}
	style := m.Paint.Green
	if m.failed {
		style = m.Paint.Yellow
	}
	lines := strings.Split(text.Wrap(text.OneLine(m.said), m.size.Width-1), "\n")
	for i := range lines {
		lines[i] = style(lines[i])
	}
	return lines[:min(len(lines), 4)]
}

// head says where this is, what waits for the user, and what cannot be read.
func (m *model) head() string {
	p, r := m.Paint, m.seen
	who := "no process runs here"
	if h := r.holder; h != nil {
		who = text.Clip(fmt.Sprintf("process %d: %s", h.PID, h.Command), 40)
	}
	line := text.JoinedBy("  ", p.Bold(text.OneLine(filepath.Base(m.Dir()))), p.Yellow(view.WaitingOf(r.asks).Text()), p.Dim(who))
	if r.err != nil {
		line = p.Red(text.OneLine(r.err.Error()))
	}
	return text.Truncate(line, m.size.Width)
}

// View draws the screen.
func (m *model) View() tea.View {
	foot, width := m.foot(), m.size.Width
	var body []string
	draw := func(f focus, title string, width int) []string {
		return m.pane[f].draw(m.Paint, title, width, m.focus == f || m.whole())
	}
	switch {
	case m.help:
		body = m.helpText()
	case m.whole():
		body = draw(onText, m.title(), width)
	case width >= wide:
		left := append(draw(onBoulders, m.count(onBoulders, "Boulders"), m.listWidth()), draw(onTasks, m.count(onTasks, "Sub-tasks"), m.listWidth())...)
		for i, right := range draw(onText, m.title(), m.textWidth()) {
			body = append(body, left[i]+" "+right)
		}
	default:
		body = append(draw(onBoulders, m.count(onBoulders, "Boulders"), width), draw(onTasks, m.count(onTasks, "Sub-tasks"), width)...)
		body = append(body, draw(onText, m.title(), width)...)
	}
	room := max(0, m.size.Height-1-len(foot))
	body = append(body, make([]string, max(0, room-len(body)))...)[:room]
	all := append(append([]string{m.head()}, body...), foot...)
	v := tea.NewView(strings.Join(all[:min(len(all), max(1, m.size.Height))], "\n"))
	v.AltScreen = true
	if m.editor != nil {
		if c := m.editor.View().Cursor; c != nil {
			c.Y += len(all) - strings.Count(m.editor.View().Content, "\n") - 1
			v.Cursor = c
		}
	}
	return v
}

func (m *model) count(f focus, title string) string {
	n := len(m.pane[f].lines)
	return title + text.If(n > 0, fmt.Sprintf(" %d/%d", m.pane[f].at+1, n))
}

// title names the text that is shown, and the others there are.
func (m *model) title() string {
	if m.ask != nil {
		return "Blocker " + m.ask.ID
	}
	var names []string
	for i, name := range tabs {
		if i == m.tab {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	of := m.want.boulder
	if m.deep || m.tab == onTranscript || m.tab == onWhy {
		of = m.want.task
	}
	return strings.Join(names, " ") + text.Prefixed(" · ", text.OneLine(of))
}

func (m *model) helpText() []string {
	lines := []string{"", m.Paint.Bold("Keys"), ""}
	for _, b := range bindings() {
		if b.does != "" {
			lines = append(lines, "  "+m.Paint.Cyan(b.shown)+strings.Repeat(" ", 11-ansi.StringWidthWc(b.shown))+text.Truncate(b.does, m.size.Width-13))
		}
	}
	return append(lines, "", m.Paint.Dim("Any key goes back."))
}
