// Package view is what users see: pure functions from records and events to text, and the terminal that shows it.
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

	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/internal/text"
)

// framesPerSecond bounds the drawing, however many events arrive.
const framesPerSecond = 10

// Screen draws a picture at the bottom of a terminal. It only writes: the terminal keeps its mode, so keys and Ctrl-C
// work as usual.
type Screen struct {
	frame      func(size page.Size, tick int) string
	flush      func() []string
	stream     io.Writer
	drawn      []string // lines; the cursor is in the last
	over, done chan struct{}
}

// Screen starts drawing at the bottom of the terminal behind Stderr, until [Screen.Close]. frame must return at most
// size.Room lines narrower than the terminal; flush returns lines that scroll away above them. Both are called from the
// drawing goroutine.
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

// Close removes the picture and waits until the terminal is restored. It must be called once.
func (s *Screen) Close() {
	close(s.over)
	<-s.done
}

// draw replaces the picture with the flushed lines and the new picture below them.
func (s *Screen) draw(width int, frame string) {
	up := -1
	for _, line := range s.drawn { // a terminal that became narrower has wrapped some
		up += 1 + max(0, ansi.StringWidthWc(line)-1)/width
	}
	var out strings.Builder
	if up > 0 {
		out.WriteString(ansi.CursorUp(up))
	}
	s.drawn = strings.Split(frame, "\n")
	lines := append(s.flush(), s.drawn...)
	out.WriteString("\r" + strings.Join(lines, ansi.EraseLineRight+"\r\n") + ansi.EraseScreenBelow)
	_, _ = io.WriteString(s.stream, out.String()) // a picture that cannot be drawn does not stop the work
}

// ErrInterrupted is returned for Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// ReadAnswer reads one answer from a terminal, which is in raw mode meanwhile. Enter ends it; pasted text may have many
// lines, and a line that ends with a backslash continues on the next. It returns [ErrInterrupted] for Ctrl-C, and
// [io.EOF] for Ctrl-D or if the terminal is gone.
func ReadAnswer(ctx context.Context, in *os.File, out io.Writer, prompt string) (string, error) {
	a := NewEditor(prompt, page.SizeOf(in).Width)
	err := Program(ctx, a, in, out, os.Getenv("TERM"), false)
	switch {
	case ctx.Err() != nil:
		return "", err
	case err != nil || !a.over: // the terminal is gone
		return "", io.EOF
	case a.err != nil:
		return "", a.err
	}
	return a.Text(), nil
}

// silentTerminal returns an environment in which bubbletea does not query the terminal. It asks most terminals for
// modes 2026 and 2027, and a late reply would appear on the next command line. It does not ask over SSH, except for a
// few terminal types.
func silentTerminal(termType string) []string {
	for _, asked := range []string{"ghostty", "wezterm", "alacritty", "kitty", "rio"} {
		if strings.Contains(termType, asked) {
			termType = "xterm-256color"
		}
	}
	return []string{"TERM=" + termType, "SSH_TTY=/dev/tty"}
}

// keyboard calls gone if reading from the terminal fails. bubbletea alone would wait for ever.
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

// Editor edits a text that the user types.
type Editor struct {
	prompt        string
	before, after string // the text before and after the cursor
	width         int    // of the terminal
	over          bool
	err           error // why it ended, or nil
}

// NewEditor makes an empty Editor, width columns wide, with the keys of [ReadAnswer].
func NewEditor(prompt string, width int) *Editor { return &Editor{prompt: prompt, width: width} }

// Type handles a key or a paste, and reports whether the text is complete. Further keys continue the same text.
func (e *Editor) Type(msg tea.Msg) (done bool) {
	_, _ = e.Update(msg)
	done, e.over = e.over, false
	return done
}

// Text returns what was typed so far, trimmed.
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

// strokes are the keys that move over, or delete, a character, a word or the rest of a line.
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

// answerLines is how many lines of an answer are visible at once.
const answerLines = 12

// View implements [tea.Model].
func (e *Editor) View() tea.View {
	lines := func(s string) []string {
		return strings.Split(ansi.HardwrapWc(e.prompt+s, max(1, e.width-1), true), "\n")
	}
	before, all := lines(e.before), lines(e.before+e.after)
	first := max(0, len(before)-answerLines)
	v := tea.NewView(strings.Join(all[first:min(len(all), first+answerLines)], "\n"))
	if e.over { // bubbletea erases the last line when it ends
		v.Content += "\n"
		return v
	}
	v.Cursor = tea.NewCursor(ansi.StringWidthWc(before[len(before)-1]), len(before)-1-first)
	return v
}

// Program runs m on the terminal until it quits, the terminal is gone (no error), or ctx ends (its cause). It restores
// the terminal.
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
