// Package view is what users see: pure functions from records and events to text, and the part of a terminal that they
// are drawn on.
package view

import (
	"fmt"
	"io"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"
)

// Screen is the bottom of a terminal while a bubbletea program draws there. It only writes: the terminal stays in its
// usual mode, keys and Ctrl-C do what they always do.
type Screen struct {
	stream  io.Writer
	picture *model
	program *tea.Program
	done    chan struct{}
}

// OpenScreen takes the bottom of a terminal of the given type and draws there until [Screen.Close].
func OpenScreen(stream io.Writer, termType string, profile colorprofile.Profile, p Picture) *Screen {
	s := &Screen{stream: stream, picture: &model{Picture: p}, done: make(chan struct{})}
	s.program = tea.NewProgram(s.picture,
		tea.WithOutput(stream), tea.WithInput(nil), tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond),
		tea.WithColorProfile(profile), tea.WithEnvironment(silentTerminal(termType)),
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
