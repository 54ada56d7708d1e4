package fakeopencode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sashabaranov/go-openai"

	"github.com/bouldermgr/manager/internal/wildcard"
)

// toolCall is a running call, in a goroutine of its own.
type toolCall struct {
	ctx     context.Context
	step    *step
	content *content
	input   map[string]any
	err     error // how it ended; set when run has returned
}

// result is the output of a successful call: texts for the model, metadata for clients.
type result struct {
	text     string
	metadata map[string]any
	notice   string // a second text, by the tool itself
}

type tool struct {
	name       string
	action     string // of the permission; denied for everything, the tool is not offered
	parameters any
	failure    string // replaces every error's text for the model; %s is the input's subject
	subject    string // name of that field
	run        func(*toolCall) (result, error)
}

func builtIn() []tool {
	return []tool{
		{"shell", "shell", object("command"), "Unable to execute command: %s", "command", (*toolCall).shell},
		{"write", "edit", object("path", "content"), "Unable to write %s", "path", (*toolCall).write},
		{"subagent", "subagent", object("agent", "description", "prompt", "background"), "", "", (*toolCall).subagent},
		{"question", "question", object("questions"), "", "", (*toolCall).question},
	}
}

// object returns a schema with named fields of any type.
func object(names ...string) any {
	properties := fields{}
	for _, name := range names {
		properties[name] = fields{}
	}
	return fields{"type": "object", "properties": properties}
}

// tools returns the session's tools, without those denied for everything.
func (x *session) tools(a *agent) []tool {
	rules := x.location().rules(a, x.Info.Permissions...)
	return slices.DeleteFunc(append(builtIn(), x.location().mcpTools()...), func(t tool) bool {
		for _, r := range slices.Backward(rules) {
			if wildcard.Match(r.Action, t.action) {
				return r.Resource == "*" && r.Effect == "deny"
			}
		}
		return false
	})
}

func (x *session) offered(a *agent) (all []openai.Tool) {
	for _, t := range x.tools(a) {
		all = append(all, openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: t.name, Description: t.name, Parameters: t.parameters,
		}})
	}
	return all
}

// failed returns an error whose text the model reads.
func failed(format string, args ...any) *turnError {
	return &turnError{Type: "tool.execution", Message: fmt.Sprintf(format, args...)}
}

func (t *toolCall) server() *Server { return t.step.x.server }

func (t *toolCall) run() {
	t.server().mu.Lock()
	defer t.server().mu.Unlock()
	x, c := t.step.x, t.content
	used := tool{run: func(*toolCall) (result, error) {
		return result{}, &turnError{Type: "tool.unknown", Message: "Unknown tool: " + c.Name}
	}}
	for _, one := range x.tools(t.step.agent) {
		if one.name == c.Name {
			used = one
		}
	}
	var out result
	if out, t.err = used.run(t); t.err != nil {
		x.failTool(t.step.message, c, t.failure(used))
		return
	}
	c.State = &toolState{Status: "completed", Input: t.input, Content: []toolText{}, Metadata: out.metadata}
	for _, text := range []string{out.text, out.notice} {
		if text != "" {
			c.State.Content = append(c.State.Content, toolText{"text", text})
		}
	}
	c.Time.Completed = now()
	success := t.step.about(fields{"id": c.ID, "content": c.State.Content, "executed": false})
	if out.metadata != nil {
		success["metadata"] = out.metadata
	}
	x.emit("session.tool.success", success)
}

// failure returns the reported error. Most tools have one text for all errors, so a rejection's text is lost.
func (t *toolCall) failure(used tool) *turnError {
	told, known := errors.AsType[*turnError](t.err)
	if !known {
		told = failed("%v", t.err)
	}
	switch {
	case t.ctx.Err() != nil:
		return &turnError{Type: "aborted", Message: "Tool execution aborted"}
	case used.failure != "" && (!known || told.said && !t.server().behaviour.KeepRejectText):
		told.Message = fmt.Sprintf(used.failure, t.input[used.subject])
	}
	return told
}

func (t *toolCall) string(name string) string {
	text, _ := t.input[name].(string)
	return text
}

// progress publishes a running call's metadata.
func (t *toolCall) progress(metadata map[string]any) {
	t.content.State.Metadata = metadata
	t.step.x.live("session.tool.progress", t.step.about(fields{"id": t.content.ID, "metadata": metadata}))
}

func (t *toolCall) write() (result, error) {
	name, dir := t.string("path"), t.step.x.Info.Location.Directory
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	if rel, err := filepath.Rel(dir, path); err != nil || strings.HasPrefix(rel, "..") {
		if err := t.ask("external_directory", filepath.Join(filepath.Dir(path), "*")); err != nil {
			return result{}, err
		}
	}
	if err := t.ask("edit", name); err != nil {
		return result{}, err
	}
	err := os.WriteFile(path, []byte(t.string("content")), 0o644)
	return result{text: "Wrote file successfully: " + name}, err
}
