// Package view is what users see: pure functions from records and events to text, and the part of a terminal that they
// are drawn on.
package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
)

// framesPerSecond bounds the drawing: events only change the state, however many come.
const framesPerSecond = 10

// Screen is the bottom of a terminal while a picture is drawn there. It only writes: the terminal stays in its usual mode,
// and keys and Ctrl-C do what they always do.
type Screen struct {
	frame      func(size page.Size, tick int) string
	flush      func() []string
	stream     io.Writer
	drawn      []string // lines, in the last of which the cursor stands
	over, done chan struct{}
}

// Screen takes the bottom of the terminal behind Stderr, and draws there, at each tick again, until [Screen.Close]. frame
// gives at most size.Room lines, none of them as wide as the terminal; flush lines that scroll away above them. The
// goroutine that draws calls both.
func (c Console) Screen(frame func(size page.Size, tick int) string, flush func() []string) *Screen {
	stream := c.Stderr.File.(io.Writer)
	s := &Screen{frame: frame, flush: flush, stream: stream, over: make(chan struct{}), done: make(chan struct{})}
	go s.run() // Close waits for it
	return s
}

func (s *Screen) run() {
	defer close(s.done)
	next := time.NewTicker(time.Second / framesPerSecond)
	defer next.Stop()
	fmt.Fprint(s.stream, ansi.HideCursor)
	for tick := 0; ; tick++ {
		size := page.SizeOf(s.stream)
		s.draw(size.Width, s.frame(size, tick))
		select {
		case <-next.C:
		case <-s.over:
			s.draw(size.Width, "")
			fmt.Fprint(s.stream, ansi.ShowCursor)
			return
		}
	}
}

// Close takes the picture away and returns when the terminal is as it was.
func (s *Screen) Close() {
	close(s.over)
	<-s.done
}

// draw writes, where the picture begins, the lines that scroll away, and below them the new picture.
func (s *Screen) draw(width int, frame string) {
	up := -1
	for _, line := range s.drawn { // a terminal that became narrower has broken some
		up += 1 + max(0, ansi.StringWidthWc(line)-1)/width
	}
	var out strings.Builder
	if up > 0 {
		out.WriteString(ansi.CursorUp(up))
	}
	s.drawn = strings.Split(frame, "\n")
	lines := append(s.flush(), s.drawn...)
	out.WriteString("\r" + strings.Join(lines, ansi.EraseLineRight+"\r\n") + ansi.EraseScreenBelow)
	_, _ = io.WriteString(s.stream, out.String()) // a picture that cannot be drawn is no reason to stop the work
}

// ErrInterrupted is Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// ReadAnswer reads one answer on a terminal. Enter ends it; a text that is pasted stays one answer however many lines it
// has, and a line that ends with a backslash continues in the next one. Ctrl-C is [ErrInterrupted]; Ctrl-D, or a terminal
// that is gone, is [io.EOF]. The terminal is in raw mode only meanwhile.
func ReadAnswer(ctx context.Context, in *os.File, out io.Writer, prompt string) (string, error) {
	a := NewEditor(prompt, page.SizeOf(in).Width)
	err := Program(ctx, a, in, out, os.Getenv("TERM"), false)
	switch {
	case ctx.Err() != nil:
		return "", err
	case err != nil || !a.over: // a terminal that is gone
		return "", io.EOF
	case a.err != nil:
		return "", a.err
	}
	return a.Text(), nil
}

// silentTerminal is the environment that bubbletea gets to see. By its own it asks most terminals what they can do
// (modes 2026 and 2027); an answer that comes late would turn up on the next command line. It does not ask over SSH, unless
// the terminal's type is one of a few that it knows.
func silentTerminal(termType string) []string {
	for _, asked := range []string{"ghostty", "wezterm", "alacritty", "kitty", "rio"} {
		if strings.Contains(termType, asked) {
			termType = "xterm-256color"
		}
	}
	return []string{"TERM=" + termType, "SSH_TTY=/dev/tty"}
}

// keyboard tells when its terminal is gone: bubbletea would wait on.
type keyboard struct {
	*os.File
	gone func()
}

func (k keyboard) Read(b []byte) (int, error) {
	n, err := k.File.Read(b)
	if err != nil {
		k.gone()
	}
	return n, err
}

// Editor is a text that the user types.
type Editor struct {
	prompt        string
	before, after string // the cursor
	width         int    // of the terminal
	over          bool
	err           error // that ended it
}

// NewEditor begins a text in a line of some columns, with the keys of [ReadAnswer].
func NewEditor(prompt string, width int) *Editor { return &Editor{prompt: prompt, width: width} }

// Type takes a key or a paste, and reports whether the text is complete. What is typed then goes on with the same text.
func (e *Editor) Type(msg tea.Msg) (done bool) {
	_, _ = e.Update(msg)
	done, e.over = e.over, false
	return done
}

// Text is what was typed so far.
func (e *Editor) Text() string {
	return strings.TrimSpace(strings.ReplaceAll(e.before+e.after, "\\\n", "\n"))
}

// Init implements [tea.Model].
func (e *Editor) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (e *Editor) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		e.width = m.Width
	case tea.PasteMsg:
		e.before += text.Safe(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(m.Content))
	case tea.KeyPressMsg:
		typed := e.before + e.after
		switch key := m.String(); {
		case key == "ctrl+c":
			e.err = ErrInterrupted
		case key == "ctrl+d" && typed == "":
			e.err = io.EOF
		case key == "enter" && strings.HasSuffix(typed, `\`):
			e.before, e.after = typed+"\n", ""
			return e, nil
		case key != "enter":
			e.edit(key)
			e.before += m.Text
			return e, nil
		}
		e.over = true
		return e, tea.Quit
	}
	return e, nil
}

// strokes are the keys that move over a piece of the text or delete it: a character, a word, a line.
var strokes = []struct {
	before       func() *regexp.Regexp
	left, rubOut string
	after        func() *regexp.Regexp
	right, erase string
}{
	{text.Regexp(`(?s:.)$`), "left ctrl+b", "backspace ctrl+h", text.Regexp(`^(?s:.)`), "right ctrl+f", "delete ctrl+d"},
	{text.Regexp(`\S*\s*$`), "ctrl+left alt+b", "ctrl+w", text.Regexp(`^\s*\S*`), "ctrl+right alt+f", "alt+d"},
	{text.Regexp(`.*$`), "home ctrl+a", "ctrl+u", text.Regexp(`^.*`), "end ctrl+e", "ctrl+k"},
}

func (e *Editor) edit(key string) {
	for _, s := range strokes {
		is := func(keys string) bool { return slices.Contains(strings.Fields(keys), key) }
		before, after := s.before().FindString(e.before), s.after().FindString(e.after)
		switch {
		case is(s.left):
			e.before, e.after = strings.TrimSuffix(e.before, before), before+e.after
		case is(s.rubOut):
			e.before = strings.TrimSuffix(e.before, before)
		case is(s.right):
			e.before, e.after = e.before+after, strings.TrimPrefix(e.after, after)
		case is(s.erase):
			e.after = strings.TrimPrefix(e.after, after)
		}
	}
}

// answerLines is how many lines of an answer are seen at once.
const answerLines = 12

// View implements [tea.Model].
func (e *Editor) View() tea.View {
	lines := func(s string) []string {
		return strings.Split(ansi.HardwrapWc(e.prompt+s, max(1, e.width-1), true), "\n")
	}
	before, all := lines(e.before), lines(e.before+e.after)
	first := max(0, len(before)-answerLines)
	v := tea.NewView(strings.Join(all[first:min(len(all), first+answerLines)], "\n"))
	if e.over { // bubbletea takes the last line away when it ends
		v.Content += "\n"
		return v
	}
	v.Cursor = tea.NewCursor(ansi.StringWidthWc(before[len(before)-1]), len(before)-1-first)
	return v
}

// Program runs a program that has the whole terminal, until it quits, the terminal is gone, or ctx ends, whose cause is the
// error then. The terminal is afterwards as it was.
func Program(ctx context.Context, m tea.Model, in *os.File, out io.Writer, termType string, color bool) error {
	there, gone := context.WithCancel(ctx)
	defer gone()
	profile := colorprofile.ASCII
	if color {
		profile = colorprofile.ANSI
	}
	_, err := tea.NewProgram(m, tea.WithContext(there), tea.WithInput(keyboard{in, gone}), tea.WithOutput(out),
		tea.WithoutSignalHandler(), tea.WithColorProfile(profile), tea.WithEnvironment(silentTerminal(termType))).Run()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case there.Err() != nil:
		return nil
	}
	return err
}
