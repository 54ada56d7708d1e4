package view

import (
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/bouldermgr/manager/internal/page"
)

// Picture is what a [Screen] draws, anew at each tick, whatever happens between two. Its functions are called by the
// goroutine that draws.
type Picture struct {
	Frame func(size page.Size, tick int) string // at most size.Room lines, none of them as wide as the terminal
	Flush func() []string                       // hands out lines that scroll away above the picture; nil: there are none
}

// model is a Picture as bubbletea calls it.
//
// It grows but does not shrink: of a picture that became smaller, bubbletea 2.0.9 (ultraviolet, TerminalRenderer.move)
// takes the cursor for higher up than it is, draws from there, and leaves the first lines standing. The lines that are
// not needed any more are empty.
type model struct {
	Picture
	size    page.Size
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

func (p *model) Init() tea.Cmd { return next() }

// framesPerSecond bounds the drawing: events only change the state, however many come.
const framesPerSecond = 10

func next() tea.Cmd {
	return tea.Tick(time.Second/framesPerSecond, func(time.Time) tea.Msg { return tickMsg{} })
}

func (p *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.size = page.Size{Width: msg.Width, Height: msg.Height}
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

func (p *model) draw() {
	p.content = p.Frame(p.size, p.tick)
	n := strings.Count(p.content, "\n") + 1
	p.lines = max(n, min(p.lines, p.size.Room()))
	p.content += strings.Repeat("\n", p.lines-n)
}

func (p *model) View() tea.View {
	return tea.View{Content: p.content, DisableBracketedPasteMode: true}
}

// scroll prints the lines that stay, in portions that fit above the picture.
func (p *model) scroll() tea.Cmd {
	if p.Flush == nil {
		return nil
	}
	lines := p.Flush()
	portion := max(1, p.size.Height-p.size.Room()-1)
	var cmds []tea.Cmd
	for part := range slices.Chunk(lines, portion) {
		cmds = append(cmds, tea.Println(strings.Join(part, "\n")))
	}
	return tea.Sequence(cmds...)
}
