package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// How much of a transcript is shown, in lines; with --verbose there is more. What is cut says so, and where all
// of it is.
const (
	promptShown  = 20 // from the beginning
	textShown    = 60 // from the beginning
	outputShown  = 8  // from the end
	linesVerbose = 2000

	lineShown    = 400 // columns of a line
	widthVerbose = 4000
	inputShown   = 160 // columns of a tool's input; with --verbose lineShown
)

// transcriptView tells the lines of one attempt's transcript.
type transcriptView struct {
	paint
	verbose bool
	width   int             // of lines; 0: as they come
	path    string          // of the transcript, relative to the project
	prompts []managerPrompt // of the attempt, in order, as far as they have not been met
}

// managerPrompt is a prompt that the manager sent.
type managerPrompt struct {
	text, name string
}

// promptsOf lists what the manager sent to an attempt.
func promptsOf(turns []boulder.Turn, attempt int) []managerPrompt {
	var all []managerPrompt
	for _, t := range turns {
		if t.Attempt != attempt {
			continue
		}
		all = append(all, managerPrompt{t.Prompt, fmt.Sprintf("%s of turn %d", t.Kind, t.Number)})
		for _, n := range t.Nudges {
			all = append(all, managerPrompt{n.Prompt, fmt.Sprintf("nudge in turn %d (rule %s)", t.Number, n.Rule)})
		}
	}
	return all
}

// promptMark begins all prompts of the manager but briefs.
const promptMark = "[manager]"

// whose says who sent a prompt, and why.
func (v *transcriptView) whose(text string) string {
	text = strings.TrimSpace(text)
	for i, p := range v.prompts {
		if strings.TrimSpace(strings.ToValidUTF8(p.text, "\uFFFD")) == text {
			v.prompts = append(v.prompts[:i:i], v.prompts[i+1:]...)
			return "manager: " + p.name
		}
	}
	if strings.HasPrefix(text, promptMark) {
		return "manager: resume prompt" // the only one whose text is not stored
	}
	return "prompt that the manager did not send"
}

// tell is a line of the transcript as people read it; what has more than one line is indented below the first. It is
// empty for what nobody misses.
func (v *transcriptView) tell(l transcriptLine) string {
	switch l.Type {
	case "prompt":
		return v.cyan(oneLine(v.whose(l.Text))) + v.below(l.Text, promptShown, false)
	case "text":
		return v.bold("agent") + v.below(l.Text, textShown, false)
	case "reasoning":
		return v.dim("agent thinks") + v.below(l.Text, promptShown, false)
	case "tool":
		return v.tool(l)
	case "end":
		if l.Error != "" {
			return v.red("answer broke off: ") + clipText(joinedBy(": ", l.Finish, l.Error), lineShown)
		}
		if l.Finish == "tool-calls" && !v.verbose {
			return "" // the tool's line has told it
		}
		return v.dim("answer ends: " + oneLine(cmp.Or(l.Finish, "no reason")))
	case lineTooLong:
		return v.yellow(fmt.Sprintf("[cut: %s; it is in %s]", oneLine(l.Text), oneLine(v.path)))
	}
	return clipText(l.Type+" "+l.Text, lineShown)
}

func (v *transcriptView) tool(l transcriptLine) string {
	room := inputShown
	if v.verbose {
		room = lineShown
	}
	text := v.call(l.Tool, l.State) + " " + v.bold(clipText(l.Tool, inputShown)) + " " + clipText(toolInput(l.Input), room)
	if l.State != "completed" && l.State != "error" {
		text += v.dim(" (" + oneLine(cmp.Or(l.State, "never ended")) + ")")
	}
	return text + v.below(l.Output, outputShown, true) + v.below(prefixed("error: ", l.Error), outputShown, true)
}

// toolInput is what a call is about: the one argument that tells most, or all of them.
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

// below is a text on lines of its own, cut visibly, from the beginning or from the end.
func (v *transcriptView) below(text string, limit int, fromEnd bool) string {
	width := lineShown
	if v.verbose {
		limit, width = linesVerbose, widthVerbose
	}
	lines, cut := someLines(text, limit, width, fromEnd)
	if len(lines) == 0 {
		return ""
	}
	if cut != "" {
		note := v.yellow(fmt.Sprintf("[cut: %s; all of it is in %s]", cut, oneLine(v.path)))
		if fromEnd {
			lines = slices.Insert(lines, 0, note)
		} else {
			lines = append(lines, note)
		}
	}
	return "\n" + indent(wrap(strings.Join(lines, "\n"), v.width-4), "    ")
}

// textLooked bounds, in bytes, what is looked at of one text: the end of a tool's output of a hundred thousand lines is
// found without the rest being cleaned first.
const textLooked = 256 << 10

// someLines keeps the first or last lines of a text, none wider than width, and says what was cut; empty if nothing
// was.
func someLines(text string, limit, width int, fromEnd bool) (lines []string, cut string) {
	text = strings.TrimSpace(text)
	total := strings.Count(text, "\n") + 1
	if over := len(text) - textLooked; over > 0 && fromEnd {
		text = text[over:]
	} else if over > 0 {
		text = text[:textLooked]
	}
	text = strings.TrimSpace(safeText(text))
	if text == "" {
		return nil, ""
	}
	lines = strings.Split(text, "\n")
	from, where := 0, "first"
	if fromEnd {
		from, where = max(0, len(lines)-limit), "last"
	}
	lines = lines[from:min(len(lines), from+limit)]
	if len(lines) < total {
		cut = fmt.Sprintf("the %s %d of %d lines", where, len(lines), total)
	}
	for i, line := range lines {
		if lines[i] = clipLine(line, width); lines[i] != line {
			cut = joinedBy(", ", strings.TrimSuffix(cut, ", long lines"), "long lines")
		}
	}
	return lines, cut
}
