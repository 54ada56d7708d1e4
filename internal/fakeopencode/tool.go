package fakeopencode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/sashabaranov/go-openai"

	"github.com/bouldermgr/manager/internal/wildcard"
)

// toolCall is a call that runs. It has a goroutine of its own, and takes the lock for what it tells and asks.
type toolCall struct {
	ctx     context.Context
	step    *step
	content *content
	input   map[string]any
	err     error // how it ended; set when run has returned
}

// result is what the model reads of a call that went well, and what programs read.
type result struct {
	text     string
	metadata map[string]any
	notice   string // a second text, of the tool itself
}

// tool is one that the model may be offered.
type tool struct {
	name       string
	action     string // of the permission; a rule that denies it for everything takes the tool away
	parameters any
	failure    string // what the model reads in the place of every error; %s is the first field of the input
	subject    string // that field
	run        func(*toolCall) (result, error)
}

// builtIn are the tools of every session.
func builtIn() []tool {
	return []tool{
		{"shell", "shell", object("command"), "Unable to execute command: %s", "command", (*toolCall).shell},
		{"write", "edit", object("path", "content"), "Unable to write %s", "path", (*toolCall).write},
		{"subagent", "subagent", object("agent", "description", "prompt", "background"), "", "", (*toolCall).subagent},
		{"question", "question", object("questions"), "", "", (*toolCall).question},
	}
}

// object is a schema that names its fields and leaves their types open.
func object(names ...string) any {
	properties := fields{}
	for _, name := range names {
		properties[name] = fields{}
	}
	return fields{"type": "object", "properties": properties}
}

// tools lists what the session may use: not what is denied for everything.
func (x *session) tools(a *agent) []tool {
	l := x.server.locations[x.Info.Location.Directory]
	rules := x.rules(a)
	return slices.DeleteFunc(append(builtIn(), l.mcpTools()...), func(t tool) bool {
		for _, r := range slices.Backward(rules) {
			if wildcard.Match(r.Action, t.action) {
				return r.Resource == "*" && r.Effect == "deny"
			}
		}
		return false
	})
}

// offered are the session's tools as the model gets them.
func (x *session) offered(a *agent) (all []openai.Tool) {
	for _, t := range x.tools(a) {
		all = append(all, openai.Tool{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{
			Name: t.name, Description: t.name, Parameters: t.parameters,
		}})
	}
	return all
}

// toolFailure is an error whose words the model reads.
type toolFailure struct{ message string }

func (e *toolFailure) Error() string { return e.message }

func failed(format string, args ...any) error { return &toolFailure{fmt.Sprintf(format, args...)} }

func (t *toolCall) run() {
	x := t.step.x
	x.server.mu.Lock()
	tools := x.tools(t.step.agent)
	x.server.mu.Unlock()
	i := slices.IndexFunc(tools, func(o tool) bool { return o.name == t.content.Name })
	var out result
	var used tool
	if i < 0 {
		t.err = &turnError{Type: "tool.unknown", Message: "Unknown tool: " + t.content.Name}
	} else {
		used = tools[i]
		out, t.err = used.run(t)
	}
	x.server.mu.Lock()
	defer x.server.mu.Unlock()
	if t.err != nil {
		x.failTool(t.step.message, t.content, t.failure(used))
		return
	}
	c := t.content
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

// failure is the error as it is told. Most tools have one sentence for all, so that a rejection's text is lost.
func (t *toolCall) failure(used tool) *turnError {
	told, isTurn := errors.AsType[*turnError](t.err)
	_, isSpoken := errors.AsType[*toolFailure](t.err)
	rejected, isRejected := errors.AsType[*rejection](t.err)
	general := fmt.Sprintf(strings.ReplaceAll(used.failure, "%s", "%[1]v"), t.input[used.subject])
	switch {
	case t.ctx.Err() != nil:
		return &turnError{Type: "aborted", Message: "Tool execution aborted"}
	case isTurn:
		return told
	case isRejected && (used.failure == "" || t.step.x.server.behaviour.KeepRejectText):
		return &turnError{Type: "permission.rejected", Message: rejected.Error()}
	case isRejected:
		return &turnError{Type: "permission.rejected", Message: general}
	case isSpoken || used.failure == "":
		return &turnError{Type: "tool.execution", Message: t.err.Error()}
	}
	return &turnError{Type: "tool.execution", Message: general}
}

func (t *toolCall) string(name string) string {
	text, _ := t.input[name].(string)
	return text
}

// progress tells what is known of a call while it runs.
func (t *toolCall) progress(metadata map[string]any) {
	t.step.x.server.mu.Lock()
	defer t.step.x.server.mu.Unlock()
	t.content.State.Metadata = metadata
	t.step.x.live("session.tool.progress", t.step.about(fields{"id": t.content.ID, "metadata": metadata}))
}

// path is the file that the call names, once the session may reach it: absolute, and as permissions have it.
func (t *toolCall) path(name, action string) (absolute, resource string, err error) {
	dir := t.step.x.Info.Location.Directory
	absolute = t.string(name)
	if !filepath.IsAbs(absolute) {
		absolute = filepath.Join(dir, absolute)
	}
	resource, err = filepath.Rel(dir, absolute)
	if err != nil || strings.HasPrefix(resource, "..") {
		resource = absolute
		if err := t.ask("external_directory", filepath.Join(filepath.Dir(absolute), "*")); err != nil {
			return "", "", err
		}
	}
	return absolute, filepath.ToSlash(resource), t.ask(action, filepath.ToSlash(resource))
}

func (t *toolCall) write() (result, error) {
	path, resource, err := t.path("path", "edit")
	if err != nil {
		return result{}, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return result{}, err
	}
	if err := os.WriteFile(path, []byte(t.string("content")), 0o644); err != nil {
		return result{}, err
	}
	return result{text: "Wrote file successfully: " + resource}, nil
}

// commandSeparator splits a line into the commands that a permission lists one by one.
var commandSeparator = regexp.MustCompile(`\s*(?:&&|\|\||[|;\n])\s*`)

// shell runs a command in a session of its own. A server that is killed leaves it alone.
func (t *toolCall) shell() (result, error) {
	x := t.step.x
	command := t.string("command")
	var commands []string
	for _, c := range commandSeparator.Split(strings.TrimSpace(command), -1) {
		if c != "" {
			commands = append(commands, c)
		}
	}
	if err := t.ask("shell", commands...); err != nil {
		return result{}, err
	}
	x.server.mu.Lock()
	id := x.server.newID("sh_")
	x.server.mu.Unlock()
	out, err := os.Create(filepath.Join(x.server.data, "shell", id))
	if err != nil {
		return result{}, err
	}
	defer out.Close()
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Stdout, cmd.Stderr = x.Info.Location.Directory, out, out
	for name, value := range x.server.cfg.Environ {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	t.progress(map[string]any{"shellID": id})
	kill := context.AfterFunc(t.ctx, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // with all that it started
	_ = cmd.Wait()                                                                                   // the state says it
	kill()
	text, _ := os.ReadFile(out.Name())
	code := cmd.ProcessState.ExitCode()
	return result{
		string(text), map[string]any{"status": "completed", "truncated": false, "shellID": id, "exit": code},
		fmt.Sprintf("Command exited with code %d.", code),
	}, t.ctx.Err()
}
