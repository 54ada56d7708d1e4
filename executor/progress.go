package executor

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
)

// say reports progress. It returns when that is stored.
func (t *turn) say(p boulder.SubTaskProgress) error {
	t.seen.activity = cmp.Or(p.Activity, t.seen.activity)
	p.AttemptRef, p.Usage = t.job.Attempt.AttemptRef, t.seen.usage
	return t.report(p)
}

// notice reports progress that also users who do not follow every step should see.
func (t *turn) notice(activity string) error {
	return t.say(boulder.SubTaskProgress{Activity: activity, Notice: true})
}

func (t *turn) reportToolCall(sessionID string, told session.CallUpdate) error {
	own := sessionID == t.job.Attempt.SessionID
	if told.Begun != nil && own && announcement(told.Begun) != "" {
		return t.say(boulder.SubTaskProgress{Activity: announcement(told.Begun)})
	}
	call := told.Ended
	if call == nil {
		return nil
	}
	t.touch(call)
	if !own {
		return t.say(boulder.SubTaskProgress{Activity: "sub-agent: " + t.activity(call)})
	}
	if (told.Announced && announcement(call) != "" || call.Tool == opencode.TodoTool) && call.State != opencode.ToolError {
		return nil // already reported as it began, or as a change of the list
	}
	return t.say(boulder.SubTaskProgress{Activity: t.activity(call), Checkpoint: t.checkpoint(call)})
}

func (t *turn) touch(call *opencode.ToolCall) {
	for _, file := range call.EditedFiles() {
		t.seen.touched[t.relative(file)] = true
	}
}

// announcement is what to report when a long call begins, lest it look like a hung model; empty: nothing.
func announcement(call *opencode.ToolCall) string {
	if call.Tool != "bash" && call.Tool != "task" {
		return ""
	}
	var input struct{ Command, Description string }
	_ = json.Unmarshal(call.Input, &input) // malformed arguments announce nothing
	return text.Prefixed(call.Tool+": ", text.Short(cmp.Or(input.Command, input.Description), 100))
}

func (t *turn) activity(call *opencode.ToolCall) string {
	what, _, _ := strings.Cut(call.Title, "\n")
	if files := call.EditedFiles(); strings.TrimSpace(what) == "" && len(files) > 0 {
		what = t.relative(files[0])
	}
	return text.Short(text.JoinedBy(" ", call.Tool, what, text.If(call.State == opencode.ToolError, "(failed)")), 120)
}

var hunkHeader = text.Regexp(`^@@ -\d+(?:,\d+)? \+(\d+)`)

// checkpoint returns where an editing call made its last change: from OpenCode's diff, else the last line written.
func (t *turn) checkpoint(call *opencode.ToolCall) *boulder.Checkpoint {
	files := call.EditedFiles()
	if len(files) == 0 {
		return nil
	}
	c := &boulder.Checkpoint{File: t.relative(files[len(files)-1]), Line: 1, At: t.cfg.Now().UTC()}
	var metadata struct{ Diff string }
	var input struct{ Content string }
	if json.Unmarshal(call.Metadata, &metadata) == nil && metadata.Diff != "" {
		if line, context := lastAdded(metadata.Diff); line > 0 {
			c.Line, c.Context = line, text.Short(context, 200)
			return c
		}
	}
	if json.Unmarshal(call.Input, &input) == nil && input.Content != "" {
		lines := strings.Split(strings.TrimRight(input.Content, "\n"), "\n")
		c.Line, c.Context = len(lines), text.Short(lines[len(lines)-1], 200)
	}
	return c
}

// lastAdded returns the last added line of a unified diff and its number in the new file; 0 if none was added.
func lastAdded(diff string) (line int, text string) {
	next := 0
	for l := range strings.Lines(diff) {
		l = strings.TrimRight(l, "\r\n")
		if m := hunkHeader().FindStringSubmatch(l); m != nil {
			next, _ = strconv.Atoi(m[1])
			continue
		}
		if next == 0 || l == "" {
			continue
		}
		switch l[0] {
		case '+':
			line, text = next, l[1:]
			next++
		case ' ':
			next++
		}
	}
	return line, strings.TrimSpace(text)
}

// relative makes a path inside the turn's directory relative to it.
func (t *turn) relative(path string) string {
	if !filepath.IsAbs(path) {
		return filepath.ToSlash(path)
	}
	if rel, err := filepath.Rel(t.path, path); err == nil && filepath.IsLocal(rel) {
		return filepath.ToSlash(rel)
	}
	return path
}
