package cli

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// picture is the liveView as bubbletea calls it. It is drawn anew at each tick, whatever happens between two.
//
// It grows but does not shrink: of a picture that became smaller, bubbletea 2.0.9 (ultraviolet, TerminalRenderer.move)
// takes the cursor for higher up than it is, draws from there, and leaves the first lines standing. The lines that are
// not needed any more are empty.
type picture struct {
	view    *liveView
	size    size
	tick    int
	over    bool
	content string
	lines   int // of the content
}

// tickMsg asks for the next frame, overMsg for the last.
type (
	tickMsg struct{}
	overMsg struct{}
)

func (p *picture) Init() tea.Cmd { return next() }

func next() tea.Cmd {
	return tea.Tick(time.Second/framesPerSecond, func(time.Time) tea.Msg { return tickMsg{} })
}

func (p *picture) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.size = size{width: msg.Width, height: msg.Height}
		p.draw()
	case tickMsg:
		if p.over {
			return p, tea.Sequence(p.scroll(), tea.Quit)
		}
		p.tick++
		p.draw()
		return p, tea.Sequence(p.scroll(), next())
	case overMsg:
		p.over = true // at the next tick: only then have all lines been printed that were on their way
	}
	return p, nil
}

func (p *picture) draw() {
	p.content = p.view.frame(p.size, p.tick)
	n := strings.Count(p.content, "\n") + 1
	p.lines = max(n, min(p.lines, p.size.room()))
	p.content += strings.Repeat("\n", p.lines-n)
}

func (p *picture) View() tea.View {
	return tea.View{Content: p.content, DisableBracketedPasteMode: true}
}

// scroll prints the lines that stay, in portions that fit above the picture.
func (p *picture) scroll() tea.Cmd {
	lines := p.view.flush()
	portion := max(1, p.size.height-p.size.room()-1)
	var cmds []tea.Cmd
	for part := range slices.Chunk(lines, portion) {
		cmds = append(cmds, tea.Println(strings.Join(part, "\n")))
	}
	return tea.Sequence(cmds...)
}
