// Package view is what users see: pure functions from records and events to text, and the part of a terminal that they
// are drawn on.
package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/internal/page"
)

// Picture is what a [Screen] draws, anew at each tick, whatever happens between two. Its functions are called by the
// goroutine that draws.
type Picture struct {
	Frame func(size page.Size, tick int) string // at most size.Room lines, none of them as wide as the terminal
	Flush func() []string                       // hands out lines that scroll away above the picture; nil: there are none
}

// Screen is the bottom of a terminal while a bubbletea program draws there. It only writes: the terminal stays in its
// usual mode, keys and Ctrl-C do what they always do.
type Screen struct {
	stream  io.Writer
	picture *model
	program *tea.Program
	done    chan struct{}
}

// Screen takes the bottom of the terminal behind Stderr, and draws there until [Screen.Close].
func (c Console) Screen(p Picture) *Screen {
	s := &Screen{stream: c.Stderr.File.(io.Writer), picture: &model{Picture: p}, done: make(chan struct{})}
	profile := colorprofile.ASCII
	if c.Stderr.On {
		profile = colorprofile.ANSI
	}
	s.program = tea.NewProgram(s.picture,
		tea.WithOutput(s.stream), tea.WithInput(nil), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond),
		tea.WithColorProfile(profile), tea.WithEnvironment(silentTerminal(c.TermType)),
	)
	go func() { // Close waits for it
		defer close(s.done)
		_, _ = s.program.Run() // a picture that cannot be drawn is no reason to stop the work
	}()
	return s
}

// silentTerminal is the environment that bubbletea gets to see. By its own it asks most terminals what they can do
// (modes 2026 and 2027), also without input; nobody would read the answers, and they would turn up on the next command
// line. It does not ask over SSH, unless the terminal's type is one of a few that it knows.
func silentTerminal(termType string) []string {
	for _, asked := range []string{"ghostty", "wezterm", "alacritty", "kitty", "rio"} {
		if strings.Contains(termType, asked) {
			termType = "xterm-256color"
		}
	}
	return []string{"TERM=" + termType, "SSH_TTY=/dev/tty"}
}

// Close takes the picture away and returns when the terminal is as it was. bubbletea leaves the cursor in the last
// line of the picture.
func (s *Screen) Close() {
	s.program.Send(overMsg{})
	<-s.done
	if up := s.picture.lines - 1; up > 0 {
		fmt.Fprint(s.stream, ansi.CursorUp(up))
	}
	fmt.Fprint(s.stream, "\r", ansi.EraseScreenBelow)
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

// framesPerSecond bounds the drawing: events only change the state, however many come.
const framesPerSecond = 10

func (p *model) Init() tea.Cmd {
	return tea.Tick(time.Second/framesPerSecond, func(time.Time) tea.Msg { return tickMsg{} })
}

func (p *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.size = page.Size{Width: msg.Width, Height: msg.Height}
	case tickMsg:
		if p.over {
			return p, tea.Sequence(p.scroll(), tea.Quit)
		}
		p.tick++
		cmd = tea.Sequence(p.scroll(), p.Init())
	case overMsg:
		p.over = true // at the next tick: only then have all lines been printed that were on their way
		return p, nil
	default:
		return p, nil
	}
	p.content = p.Frame(p.size, p.tick)
	n := strings.Count(p.content, "\n") + 1
	p.lines = max(n, min(p.lines, p.size.Room()))
	p.content += strings.Repeat("\n", p.lines-n)
	return p, cmd
}

func (p *model) View() tea.View {
	return tea.View{Content: p.content, DisableBracketedPasteMode: true}
}

// scroll prints the lines that stay, in portions that fit above the picture.
func (p *model) scroll() tea.Cmd {
	if p.Flush == nil {
		return nil
	}
	var cmds []tea.Cmd
	for part := range slices.Chunk(p.Flush(), max(1, p.size.Height-p.size.Room()-1)) {
		cmds = append(cmds, tea.Println(strings.Join(part, "\n")))
	}
	return tea.Sequence(cmds...)
}
