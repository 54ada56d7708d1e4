package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

func (v WhyView) ended(s WhyStep) {
	how := describeEnd(*s.Ended)
	if s.Ended.Rule != "" {
		how += fmt.Sprintf(" (rule %s)", s.Ended.Rule)
	}
	e := s.Evidence
	if e == nil {
		v.at(s, fmt.Sprintf("turn %d ended:", s.Turn), how)
		v.detail("evidence:", "none is stored")
		return
	}
	if e.Duration > 0 {
		how = "after " + text.Elapsed(e.Duration) + ", " + how
	}
	v.at(s, fmt.Sprintf("turn %d ended:", s.Turn), how)
	if t := s.Ended.Truncated; !strings.Contains(how, t) {
		v.detail("truncated:", t)
	}
	v.detail("said:", text.Clip(e.FinalMessage, 3*callShown))
	v.calls(e)
	v.changes(e.Diff)
	v.todos(e)
	v.diagnostics(e.Diagnostics)
	if e.NoServer {
		v.detail("diagnostics:", "no language server ran")
	}
	if e.Promised {
		v.detail("promise:", "given")
	}
	for _, g := range e.Gates {
		v.gate(depthDetail, "", g)
	}
	v.detail("transcript:", e.Transcript)
}

func (v WhyView) calls(e *boulder.Evidence) {
	if e.ToolCount == 0 {
		v.detail("tools:", "no call")
		return
	}
	shown := e.ToolCalls[max(0, len(e.ToolCalls)-callsShown):]
	s := text.Plural(e.ToolCount, "call")
	switch {
	case len(shown) == 0:
		v.detail("tools:", s)
		return
	case len(shown) < e.ToolCount:
		s += fmt.Sprintf(", the last %d:", len(shown))
	default:
		s += ":"
	}
	v.detail("tools:", s)
	for _, c := range shown {
		line := text.Clip(c.Tool+" "+cmp.Or(c.Title, toolInput(json.RawMessage(c.Input))), callShown)
		if c.Status == "error" {
			line += v.Dim(" error: " + text.Clip(c.Output, callShown))
		} else if c.Status != "completed" {
			line += v.Dim(" (never ended)")
		}
		v.say(depthMore, v.call(c.Tool, c.Status), line)
	}
}

func (v WhyView) changes(d boulder.Diff) {
	if d.Unavailable != "" {
		v.detail("changes:", "not known: "+d.Unavailable)
		return
	}
	if len(d.Files) == 0 {
		v.detail("changes:", "none")
		return
	}
	own, unclaimed, others := d.Split(v.claimed)
	s := changedFiles(own)
	if len(unclaimed) > 0 {
		s = JoinedBy("; ", s, changedFiles(unclaimed)+" (by this or another sub-task)")
	}
	if len(others) > 0 {
		s = JoinedBy("; ", s, text.Plural(len(others), "file")+" by other sub-tasks")
	}
	v.detail("changes:", s)
}

func changedFiles(changes []boulder.FileChange) string {
	var files []string
	for _, f := range changes[:min(len(changes), filesShown)] {
		text := f.Path + " (binary)"
		if f.Added >= 0 {
			text = fmt.Sprintf("%s +%d −%d", f.Path, f.Added, f.Removed)
		}
		files = append(files, text)
	}
	if more := len(changes) - filesShown; more > 0 {
		files = append(files, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(files, ", ")
}

func (v WhyView) todos(e *boulder.Evidence) {
	open := e.OpenTodos()
	if len(e.Todos) == 0 {
		return
	}
	text := fmt.Sprintf("%d of %d open", len(open), len(e.Todos))
	if len(open) > 0 {
		text += ": " + open[0].Content
	}
	v.detail("todos:", text)
}

func (v WhyView) diagnostics(all []boulder.Diagnostic) {
	for i, d := range all {
		if i == diagnosticsShown {
			v.detail("diagnostic:", fmt.Sprintf("and %d more", len(all)-i))
			return
		}
		v.detail("diagnostic:", fmt.Sprintf("%s:%d: %s: %s", d.File, d.Line, d.Severity, d.Message))
	}
}

// gate is a run of a gate, with the end of its output if it did not pass.
func (v WhyView) gate(depth int, label string, g boulder.Gate) {
	mark := v.Green("✓")
	how := ""
	switch {
	case g.Green():
	case g.NoWorse != "":
		mark, how = v.Yellow("~"), fmt.Sprintf("exit code %d, but no worse than before: %s", g.ExitCode, g.NoWorse)
	case g.TimedOut:
		mark, how = v.Red("✗"), "did not end in time"
	default:
		mark, how = v.Red("✗"), fmt.Sprintf("exit code %d", g.ExitCode)
	}
	end := v.Dim("(" + JoinedBy(", ", text.OneLine(how), text.Elapsed(g.Duration)) + ")")
	v.say(depth, mark, JoinedBy(" ", label, "gate "+text.OneLine(g.Command)+" "+end))
	out := strings.TrimSpace(text.Safe(g.Output))
	if g.Green() || g.NoWorse != "" || out == "" {
		return
	}
	for line := range strings.Lines(lastLines(out, gateLinesShown)) {
		fmt.Fprintln(v, strings.Repeat(" ", depth+4)+v.Dim(text.ClipLine(strings.TrimRight(line, "\n"), v.Width-depth-4)))
	}
}
