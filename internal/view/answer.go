package view

import (
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
)

// ErrInterrupted is Ctrl-C.
var ErrInterrupted = errors.New("interrupted")

// ReadAnswer reads one answer on a terminal. Enter ends it; a text that is pasted stays one answer however many lines it
// has, and a line that ends with a backslash continues in the next one. Ctrl-C is [ErrInterrupted]; Ctrl-D, or a terminal
// that is gone, is [io.EOF]. The terminal is in raw mode only meanwhile.
func ReadAnswer(ctx context.Context, in *os.File, out io.Writer, prompt string) (string, error) {
	there, gone := context.WithCancel(ctx)
	defer gone()
	a := &answer{prompt: prompt, width: page.SizeOf(in).Width}
	_, err := tea.NewProgram(a, tea.WithContext(there), tea.WithInput(keyboard{in, gone}), tea.WithOutput(out),
		tea.WithoutSignalHandler(), tea.WithEnvironment(silentTerminal(os.Getenv("TERM")))).Run()
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil: // a terminal that is gone
		return "", io.EOF
	case a.err != nil:
		return "", a.err
	}
	return strings.TrimSpace(strings.ReplaceAll(a.before+a.after, "\\\n", "\n")), nil
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

type answer struct {
	prompt        string
	before, after string // the cursor
	width         int    // of the terminal
	over          bool
	err           error // that ended it
}

func (a *answer) Init() tea.Cmd { return nil }

func (a *answer) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		a.width = m.Width
	case tea.PasteMsg:
		a.before += text.Safe(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(m.Content))
	case tea.KeyPressMsg:
		typed := a.before + a.after
		switch key := m.String(); {
		case key == "ctrl+c":
			a.err = ErrInterrupted
		case key == "ctrl+d" && typed == "":
			a.err = io.EOF
		case key == "enter" && strings.HasSuffix(typed, `\`):
			a.before, a.after = typed+"\n", ""
			return a, nil
		case key != "enter":
			a.edit(key)
			a.before += m.Text
			return a, nil
		}
		a.over = true
		return a, tea.Quit
	}
	return a, nil
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

func (a *answer) edit(key string) {
	for _, s := range strokes {
		is := func(keys string) bool { return slices.Contains(strings.Fields(keys), key) }
		before, after := s.before().FindString(a.before), s.after().FindString(a.after)
		switch {
		case is(s.left):
			a.before, a.after = strings.TrimSuffix(a.before, before), before+a.after
		case is(s.rubOut):
			a.before = strings.TrimSuffix(a.before, before)
		case is(s.right):
			a.before, a.after = a.before+after, strings.TrimPrefix(a.after, after)
		case is(s.erase):
			a.after = strings.TrimPrefix(a.after, after)
		}
	}
}

// answerLines is how many lines of an answer are seen at once.
const answerLines = 12

func (a *answer) View() tea.View {
	lines := func(s string) []string {
		return strings.Split(ansi.HardwrapWc(a.prompt+s, max(1, a.width-1), true), "\n")
	}
	before, all := lines(a.before), lines(a.before+a.after)
	first := max(0, len(before)-answerLines)
	v := tea.NewView(strings.Join(all[first:min(len(all), first+answerLines)], "\n"))
	if a.over { // bubbletea takes the last line away when it ends
		v.Content += "\n"
		return v
	}
	v.Cursor = tea.NewCursor(ansi.StringWidthWc(before[len(before)-1]), len(before)-1-first)
	return v
}
