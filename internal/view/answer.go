package view

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/bouldermgr/manager/internal/page"
)

// ErrInterrupted is returned for Ctrl-C.
var ErrInterrupted = tea.ErrInterrupted

// answerLines is how many lines of an answer are seen at once.
const answerLines = 12

// ReadAnswer reads one answer on a terminal. Enter ends it; a text that is pasted stays one answer however many lines it
// has, and a line that ends with a backslash continues in the next one. Ctrl-C is [ErrInterrupted]; Ctrl-D, or a terminal
// that is gone, is [io.EOF]. The terminal is in raw mode only meanwhile.
func ReadAnswer(ctx context.Context, in *os.File, out io.Writer, prompt string) (string, error) {
	area := textarea.New()
	area.ShowLineNumbers, area.DynamicHeight = false, true
	area.MaxHeight, area.MaxContentHeight = answerLines, 100_000
	area.SetStyles(textarea.Styles{})
	area.SetVirtualCursor(false)
	area.SetPromptFunc(len(prompt), func(i textarea.PromptInfo) string {
		if i.LineNumber > 0 {
			return ""
		}
		return prompt
	})
	area.SetWidth(page.SizeOf(in).Width)
	there, gone := context.WithCancel(ctx)
	defer gone()
	program := tea.NewProgram(&answer{area: area}, tea.WithContext(there), tea.WithInput(keyboard{in, gone}),
		tea.WithOutput(out), tea.WithoutSignalHandler(), tea.WithEnvironment(silentTerminal(os.Getenv("TERM"))))
	end, err := program.Run()
	a, ok := end.(*answer)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case errors.Is(err, ErrInterrupted):
		return "", ErrInterrupted
	case err != nil || !ok || a.left: // a terminal that is gone
		return "", io.EOF
	}
	return strings.TrimSpace(strings.ReplaceAll(a.area.Value(), "\\\n", "\n")), nil
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

// answer is an answer that is being typed.
type answer struct {
	area textarea.Model
	over bool
	left bool
}

func (a *answer) Init() tea.Cmd { return a.area.Focus() }

func (a *answer) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case tea.WindowSizeMsg:
		a.area.SetWidth(m.Width)
	case tea.PasteMsg:
		msg = tea.PasteMsg{Content: strings.ReplaceAll(m.Content, "\r\n", "\n")}
	case tea.KeyPressMsg:
		switch m.String() {
		case "ctrl+c":
			a.over = true
			return a, tea.Interrupt
		case "ctrl+d":
			if a.area.Value() == "" {
				a.over, a.left = true, true
				return a, tea.Quit
			}
		case "enter":
			if !strings.HasSuffix(a.area.Value(), `\`) {
				a.over = true
				return a, tea.Quit
			}
		}
	}
	var cmd tea.Cmd
	a.area, cmd = a.area.Update(msg)
	return a, cmd
}

func (a *answer) View() tea.View {
	if a.over { // bubbletea takes the last line away when it ends
		return tea.NewView(a.area.View() + "\n")
	}
	v := tea.NewView(a.area.View())
	v.Cursor = a.area.Cursor()
	return v
}
