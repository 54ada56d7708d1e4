package cli

import (
	"fmt"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// screen is the bottom of a terminal while a bubbletea program draws there. It only writes: the terminal stays in its
// usual mode, keys and Ctrl-C do what they always do.
type screen struct {
	stream  io.Writer
	picture *picture
	program *tea.Program
	done    chan struct{}
}

// size of a terminal, in characters.
type size struct{ width, height int }

func openScreen(stream io.Writer, termType string, profile colorprofile.Profile, p *picture) *screen {
	s := &screen{stream: stream, picture: p, done: make(chan struct{})}
	s.program = tea.NewProgram(p,
		tea.WithOutput(stream), tea.WithInput(nil), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond),
		tea.WithColorProfile(profile), tea.WithEnvironment(silentTerminal(termType)),
	)
	go func() { // close waits for it
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

// close takes the picture away and returns when the terminal is as it was. bubbletea leaves the cursor in the last
// line of the picture.
func (s *screen) close() {
	s.program.Send(overMsg{})
	<-s.done
	if up := s.picture.lines - 1; up > 0 {
		fmt.Fprint(s.stream, ansi.CursorUp(up))
	}
	fmt.Fprint(s.stream, "\r", ansi.EraseScreenBelow)
}

func (s *screen) size() size { return terminalSize(s.stream) }

// terminalSize is that of a stream, or a common one if it is no terminal.
func terminalSize(stream any) size {
	if f, ok := fileOf(stream); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return size{width: w, height: h}
		}
	}
	return size{width: 100, height: 30}
}
