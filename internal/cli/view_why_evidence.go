package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

func (v whyView) ended(s whyStep) {
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
		how = "after " + elapsed(e.Duration) + ", " + how
	}
	v.at(s, fmt.Sprintf("turn %d ended:", s.Turn), how)
	if t := s.Ended.Truncated; !strings.Contains(how, t) {
		v.detail("truncated:", t)
	}
	v.detail("said:", clipText(e.FinalMessage, 3*callShown))
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

func (v whyView) calls(e *boulder.Evidence) {
	if e.ToolCount == 0 {
		v.detail("tools:", "no call")
		return
	}
	shown := e.ToolCalls[max(0, len(e.ToolCalls)-callsShown):]
	text := plural(e.ToolCount, "call")
	switch {
	case len(shown) == 0:
		v.detail("tools:", text)
		return
	case len(shown) < e.ToolCount:
		text += fmt.Sprintf(", the last %d:", len(shown))
	default:
		text += ":"
	}
	v.detail("tools:", text)
	for _, c := range shown {
		line := clipText(c.Tool+" "+cmp.Or(c.Title, toolInput(json.RawMessage(c.Input))), callShown)
		if c.Status == "error" {
			line += v.dim(" error: " + clipText(c.Output, callShown))
		} else if c.Status != "completed" {
			line += v.dim(" (never ended)")
		}
		v.say(depthMore, v.call(c.Tool, c.Status), line)
	}
}

func (v whyView) changes(d boulder.Diff) {
	if d.Unavailable != "" {
		v.detail("changes:", "not known: "+d.Unavailable)
		return
	}
	if len(d.Files) == 0 {
		v.detail("changes:", "none")
		return
	}
	own, unclaimed, others := d.Split(v.claimed)
	text := changedFiles(own)
	if len(unclaimed) > 0 {
		text = joinedBy("; ", text, changedFiles(unclaimed)+" (by this or another sub-task)")
	}
	if len(others) > 0 {
		text = joinedBy("; ", text, plural(len(others), "file")+" by other sub-tasks")
	}
	v.detail("changes:", text)
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

func (v whyView) todos(e *boulder.Evidence) {
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

func (v whyView) diagnostics(all []boulder.Diagnostic) {
	for i, d := range all {
		if i == diagnosticsShown {
			v.detail("diagnostic:", fmt.Sprintf("and %d more", len(all)-i))
			return
		}
		v.detail("diagnostic:", fmt.Sprintf("%s:%d: %s: %s", d.File, d.Line, d.Severity, d.Message))
	}
}

// gate is a run of a gate, with the end of its output if it did not pass.
func (v whyView) gate(depth int, label string, g boulder.Gate) {
	mark := v.green("✓")
	how := ""
	switch {
	case g.Green():
	case g.NoWorse != "":
		mark, how = v.yellow("~"), fmt.Sprintf("exit code %d, but no worse than before: %s", g.ExitCode, g.NoWorse)
	case g.TimedOut:
		mark, how = v.red("✗"), "did not end in time"
	default:
		mark, how = v.red("✗"), fmt.Sprintf("exit code %d", g.ExitCode)
	}
	end := v.dim("(" + joinedBy(", ", oneLine(how), elapsed(g.Duration)) + ")")
	v.say(depth, mark, joinedBy(" ", label, "gate "+oneLine(g.Command)+" "+end))
	out := strings.TrimSpace(safeText(g.Output))
	if g.Green() || g.NoWorse != "" || out == "" {
		return
	}
	for line := range strings.Lines(lastLines(out, gateLinesShown)) {
		fmt.Fprintln(v.out, strings.Repeat(" ", depth+4)+v.dim(clipLine(strings.TrimRight(line, "\n"), v.width-depth-4)))
	}
}
