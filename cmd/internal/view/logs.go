package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/text"
)

// How much of a transcript is shown, in lines. A cut text has a notice that names the file.
const (
	promptShown  = 20 // from the beginning
	textShown    = 60 // from the beginning
	outputShown  = 8  // from the end
	linesVerbose = 2000

	lineShown    = 400 // columns of a line
	widthVerbose = 4000
	inputShown   = 160 // columns of a tool's input; with --verbose lineShown
)

// Transcript formats the lines of one attempt's transcript.
type Transcript struct {
	o       page.Out
	verbose bool
	path    string              // of the transcript, relative to the project
	sent    map[string][]string // names of the manager's prompts that were not shown yet, by prompt text
}

// NewTranscript makes a Transcript for the stream o. turns are the turns of the sub-task.
func NewTranscript(o page.Out, verbose bool, of SessionTranscript, turns []boulder.Turn) *Transcript {
	v := &Transcript{o: o, verbose: verbose, path: of.Path, sent: map[string][]string{}}
	sent := func(prompt, format string, args ...any) {
		prompt = strings.TrimSpace(strings.ToValidUTF8(prompt, "\uFFFD"))
		v.sent[prompt] = append(v.sent[prompt], fmt.Sprintf(format, args...))
	}
	for _, t := range turns {
		if t.Attempt != of.Attempt {
			continue
		}
		sent(t.Prompt, "%s of turn %d", t.Kind, t.Number)
		for _, n := range t.Nudges {
			sent(n.Prompt, "nudge in turn %d (rule %s)", t.Number, n.Rule)
		}
	}
	return v
}

// senderOf says who sent a prompt, and why. The text of the resume prompt is the only one that is not stored, but all
// prompts of the manager except briefs begin with "[manager]".
func (v *Transcript) senderOf(prompt string) string {
	prompt = strings.TrimSpace(prompt)
	names := v.sent[prompt]
	switch {
	case len(names) > 0:
		v.sent[prompt] = names[1:]
		return "manager: " + text.OneLine(names[0])
	case strings.HasPrefix(prompt, "[manager]"):
		return "manager: resume prompt"
	}
	return "prompt that the manager did not send"
}

// Tell formats a line of the transcript for people, with further lines indented. It returns "" for a redundant one.
func (v *Transcript) Tell(l executor.TranscriptLine) string {
	switch l.Type {
	case "prompt":
		return v.o.Cyan(v.senderOf(l.Text)) + v.below(l.Text, promptShown, false)
	case "text":
		return v.o.Bold("agent") + v.below(l.Text, textShown, false)
	case "reasoning":
		return v.o.Dim("agent thinks") + v.below(l.Text, promptShown, false)
	case "tool":
		room := map[bool]int{true: lineShown, false: inputShown}[v.verbose]
		how := text.If(l.State != "completed" && l.State != "error",
			v.o.Dim(" ("+text.OneLine(cmp.Or(l.State, "never ended"))+")"))
		return callMark(v.o.Paint, l.Tool, l.State) + " " + v.o.Bold(text.Clip(l.Tool, inputShown)) + " " +
			text.Clip(toolInput(l.Input), room) + how +
			v.below(l.Output, outputShown, true) + v.below(text.Prefixed("error: ", l.Error), outputShown, true)
	case "end":
		if l.Error != "" {
			return v.o.Red("answer broke off: ") + text.Clip(text.JoinedBy(": ", l.Finish, l.Error), lineShown)
		}
		if l.Finish == "tool-calls" && !v.verbose {
			return "" // the tool's line says it
		}
		spent := text.If(l.Usage.Tokens() > 0, " · "+Usage(l.Usage))
		return v.o.Dim("answer ends: " + text.OneLine(cmp.Or(l.Finish, "no reason")) + spent)
	}
	return text.Clip(l.Type+" "+l.Text, lineShown)
}

// toolInput returns the most telling argument of a call, or the whole input.
func toolInput(input json.RawMessage) string {
	var args map[string]any
	if json.Unmarshal(input, &args) != nil {
		return string(input)
	}
	if command, ok := args["command"].(string); ok {
		return "$ " + command
	}
	for _, name := range []string{"filePath", "path", "pattern", "url", "query", "description"} {
		if text, ok := args[name].(string); ok && text != "" {
			return text
		}
	}
	return string(input)
}

func (v *Transcript) below(s string, limit int, fromEnd bool) string {
	width := lineShown
	if v.verbose {
		limit, width = linesVerbose, widthVerbose
	}
	lines, cut := someLines(s, limit, width, fromEnd)
	if len(lines) == 0 {
		return ""
	}
	if cut != "" {
		note := v.o.Yellow(fmt.Sprintf("[cut: %s; all of it is in %s]", cut, text.OneLine(v.path)))
		if fromEnd {
			lines = slices.Insert(lines, 0, note)
		} else {
			lines = append(lines, note)
		}
	}
	return "\n" + text.Indent(text.Wrap(strings.Join(lines, "\n"), v.o.Lines()-4), "    ")
}

// someLines keeps the first or last lines of a text, none wider than width. cut says what is shown, or is "" if all is.
func someLines(s string, limit, width int, fromEnd bool) (lines []string, cut string) {
	if s = strings.TrimSpace(text.Safe(s)); s == "" {
		return nil, ""
	}
	lines = strings.Split(s, "\n")
	switch total := len(lines); {
	case total <= limit:
	case fromEnd:
		lines, cut = lines[total-limit:], fmt.Sprintf("the last %d of %d lines", limit, total)
	default:
		lines, cut = lines[:limit], fmt.Sprintf("the first %d of %d lines", limit, total)
	}
	long := false
	for i, line := range lines {
		lines[i] = text.ClipLine(line, width)
		long = long || lines[i] != line
	}
	return lines, text.JoinedBy(", ", cut, text.If(long, "long lines"))
}

// SessionTranscript is the transcript of an attempt's session.
type SessionTranscript struct {
	Attempt int
	Path    string // of the transcript, relative to the project
	Lines   []executor.TranscriptLine
}

// ReadTranscripts reads the transcripts that the turns of one sub-task name, one for each attempt: that of its newest turn has
// the whole session. With an error it returns what could be read.
func ReadTranscripts(project string, turns []boulder.Turn) (all []SessionTranscript, err error) {
	for _, t := range slices.Backward(turns) {
		read := slices.ContainsFunc(all, func(s SessionTranscript) bool { return s.Attempt == t.Attempt })
		if read || t.Evidence == nil || t.Evidence.Transcript == "" {
			continue
		}
		lines, readErr := ReadTranscript(project, t.Evidence.Transcript)
		if err = errors.Join(err, readErr); len(lines) > 0 { // else the file is on the machine that ran the turn
			all = append(all, SessionTranscript{t.Attempt, t.Evidence.Transcript, lines})
		}
	}
	slices.Reverse(all)
	return all, err
}

// parseTranscript skips lines that cannot be parsed.
func parseTranscript(r io.Reader) (lines []executor.TranscriptLine, err error) {
	data, err := io.ReadAll(r)
	for line := range bytes.Lines(data) {
		var l executor.TranscriptLine
		if json.Unmarshal(line, &l) == nil && l.Type != "" {
			lines = append(lines, l)
		}
	}
	return lines, err
}

// RunsDir is the directory of the transcripts, relative to the project.
const RunsDir = ".manager/runs"

// ReadTranscript reads a transcript by its path relative to the project. Records are not trusted: a path that leaves
// .manager/runs, also through a symbolic link, is not opened. A missing file gives no lines and no error.
func ReadTranscript(project, name string) (lines []executor.TranscriptLine, err error) {
	rel, err := filepath.Rel(RunsDir, filepath.FromSlash(name))
	if err == nil {
		var f *os.File
		if f, err = os.OpenInRoot(filepath.Join(project, RunsDir), rel); err == nil {
			defer f.Close()
			lines, err = parseTranscript(f)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return lines, fmt.Errorf("transcript %s: %w", name, err)
	}
	return lines, nil
}
