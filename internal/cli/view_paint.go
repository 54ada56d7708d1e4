package cli

import (
	"io"

	"github.com/charmbracelet/x/ansi"

	"github.com/bouldermgr/manager/boulder"
)

// paint colours text, or leaves it as it is. The colours are the sixteen of the terminal, which its owner chose to be
// readable.
type paint struct{ on bool }

func (a *app) paint(stream io.Writer) paint { return paint{on: a.color(stream)} }

func (p paint) style(s string, style ansi.Style) string {
	if !p.on || s == "" {
		return s
	}
	return style.Styled(s)
}

func (p paint) bold(s string) string  { return p.style(s, ansi.NewStyle().Bold()) }
func (p paint) dim(s string) string   { return p.style(s, ansi.NewStyle().Faint()) }
func (p paint) green(s string) string { return p.style(s, ansi.NewStyle().ForegroundColor(ansi.Green)) }
func (p paint) red(s string) string   { return p.style(s, ansi.NewStyle().ForegroundColor(ansi.Red)) }
func (p paint) yellow(s string) string {
	return p.style(s, ansi.NewStyle().ForegroundColor(ansi.Yellow))
}
func (p paint) cyan(s string) string { return p.style(s, ansi.NewStyle().ForegroundColor(ansi.Cyan)) }

// mark is one column that shows the status of a sub-task.
func (p paint) mark(s boulder.SubTaskStatus) string {
	switch s {
	case boulder.SubTaskCompleted:
		return p.green("✓")
	case boulder.SubTaskFailed:
		return p.red("✗")
	case boulder.SubTaskBlocked:
		return p.yellow("!")
	case boulder.SubTaskInProgress:
		return p.cyan("●")
	case boulder.SubTaskPending:
		return p.dim("○")
	}
	return p.dim("-")
}

// call is one column that shows how a tool call ended. A shell command that OpenCode calls completed may have failed
// all the same: what is stored of it says that it ended, and not with which exit code.
func (p paint) call(tool, state string) string {
	switch {
	case state == "error":
		return p.red("✗")
	case state != "completed":
		return p.dim("…")
	case tool == "bash":
		return p.dim("·")
	}
	return p.green("✓")
}

// status colours the word for the status of a boulder.
func (p paint) status(s boulder.Status) string {
	switch s {
	case boulder.Completed:
		return p.green(string(s))
	case boulder.Failed:
		return p.red(string(s))
	case boulder.Partial, boulder.Paused, boulder.AwaitingApproval:
		return p.yellow(string(s))
	case boulder.Cancelled:
		return p.dim(string(s))
	}
	return p.cyan(string(s))
}
