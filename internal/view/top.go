package view

import (
	"context"
	"io"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/text"
)

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

// Editor is a text that the user types in a [Program], with the keys of [ReadAnswer].
type Editor struct{ answer }

// NewEditor begins a text in a line of some columns.
func NewEditor(prompt string, width int) *Editor {
	return &Editor{answer{prompt: prompt, width: width}}
}

// Type takes a key or a paste, and reports whether the text is complete. What is typed then goes on with the same text.
func (e *Editor) Type(msg tea.Msg) (done bool) {
	_, _ = e.Update(msg)
	done, e.over = e.over, false
	return done
}

// Text is what was typed so far.
func (e *Editor) Text() string { return e.text() }

// AnswerHint says how to answer a blocker; later is how not to.
func AnswerHint(b *boulder.Blocker, later string) string {
	return "Your answer · " + text.If(b.AsksPermission(), "/allow or /deny: give or refuse the permission · ") +
		text.If(len(b.Options) > 0, "a number: that option · ") + later
}

// Line is a sub-task, with what goes on in it, on a line of at most so many columns, behind the branch of a tree that it is on.
func (s *Status) Line(p page.Paint, i, width int, branch string) string {
	t := tasks{Paint: p, width: width + 1 - ansi.StringWidthWc(branch), fixed: true}
	for _, r := range s.SubTasks {
		t.wide = max(t.wide, min(ansi.StringWidthWc(r.ID), max(8, width/6), widestLabel))
	}
	r := s.SubTasks[i]
	if r.live {
		r.name = text.JoinedBy(" · ", r.name, r.now)
	}
	return p.Dim(branch) + strings.Join(t.lines(r), "")
}
