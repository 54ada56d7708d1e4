package view

import (
	"io"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
)

// Paint colours text, or leaves it as it is. The colours are the sixteen of the terminal, which its owner chose to be
// readable.
type Paint struct{ On bool }

// Out is a stream that people read.
type Out struct {
	Paint
	io.Writer
	File any // the terminal behind it; nil: it is none
}

// Width is that of the terminal, in columns; a common one if it is none.
func (o Out) Width() int { return SizeOf(o.File).Width }

// Lines is how wide lines of text may be; 0: a file has lines of any length.
func (o Out) Lines() int {
	if o.File == nil {
		return 0
	}
	return min(o.Width(), widthLine) - 1
}

func (p Paint) style(s string, style ansi.Style) string {
	if !p.On || s == "" {
		return s
	}
	return style.Styled(s)
}

// Bold makes a text bold, where the stream shows styles.
func (p Paint) Bold(s string) string { return p.style(s, ansi.NewStyle().Bold()) }

// Dim makes a text faint.
func (p Paint) Dim(s string) string { return p.style(s, ansi.NewStyle().Faint()) }

// Green is for what is done.
func (p Paint) Green(s string) string { return p.style(s, ansi.NewStyle().ForegroundColor(ansi.Green)) }

// Red is for what failed.
func (p Paint) Red(s string) string { return p.style(s, ansi.NewStyle().ForegroundColor(ansi.Red)) }

// Yellow is for what waits.
func (p Paint) Yellow(s string) string {
	return p.style(s, ansi.NewStyle().ForegroundColor(ansi.Yellow))
}

// Cyan is for commands to type.
func (p Paint) Cyan(s string) string { return p.style(s, ansi.NewStyle().ForegroundColor(ansi.Cyan)) }

// mark is one column that shows the status of a sub-task.
func (p Paint) mark(s boulder.SubTaskStatus) string {
	switch s {
	case boulder.SubTaskCompleted:
		return p.Green("✓")
	case boulder.SubTaskFailed:
		return p.Red("✗")
	case boulder.SubTaskBlocked:
		return p.Yellow("!")
	case boulder.SubTaskInProgress:
		return p.Cyan("●")
	case boulder.SubTaskPending:
		return p.Dim("○")
	}
	return p.Dim("-")
}

// call is one column that shows how a tool call ended. A shell command that OpenCode calls completed may have failed
// all the same: what is stored of it says that it ended, and not with which exit code.
func (p Paint) call(tool, state string) string {
	switch {
	case state == "error":
		return p.Red("✗")
	case state != "completed":
		return p.Dim("…")
	case tool == "bash":
		return p.Dim("·")
	}
	return p.Green("✓")
}

// status colours the word for the status of a boulder.
func (p Paint) status(s boulder.Status) string {
	switch s {
	case boulder.Completed:
		return p.Green(string(s))
	case boulder.Failed:
		return p.Red(string(s))
	case boulder.Partial, boulder.Paused, boulder.AwaitingApproval:
		return p.Yellow(string(s))
	case boulder.Cancelled:
		return p.Dim(string(s))
	}
	return p.Cyan(string(s))
}
