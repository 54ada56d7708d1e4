package main

import (
	"fmt"
	"strings"
)

// fakeTurn is a turn of an agent that repeatedly thinks, says something and runs a command, in real proportions: most
// events are pieces of text, most bytes are command output, which OpenCode repeats with every piece printed.
type fakeTurn struct {
	*fakeServer
	session         *fakeSession
	id, prompt, dir string
	sent            int // bytes of events so far
	step            int
	parts           []any
	message         string
}

// Sizes of a step, in bytes.
const (
	thought    = 2_000
	said       = 600
	token      = 12
	output     = 16_000
	outputStep = 2_000 // printed at a time
	preview    = 30_000
)

func (t *fakeTurn) run() {
	t.status("busy")
	for t.ctx.Err() == nil {
		last := t.sent >= t.events
		t.work(last)
		if last {
			break
		}
	}
	t.gather()
	t.mu.Lock()
	t.session.busy = false
	t.mu.Unlock()
	t.status("idle")
	t.emit("session.idle", map[string]any{"sessionID": t.id})
}

func (t *fakeTurn) status(s string) {
	t.emit("session.status", map[string]any{"sessionID": t.id, "status": map[string]any{"type": s}})
}

// work is one call of the model, with its tool unless it is the last.
func (t *fakeTurn) work(last bool) {
	t.step++
	t.mu.Lock()
	t.message = t.fakeServer.id("msg")
	t.mu.Unlock()
	t.parts = nil
	finish := "tool-calls"
	if last {
		finish = "stop"
	}
	info := map[string]any{
		"id": t.message, "sessionID": t.id, "role": "assistant", "parentID": t.prompt, "mode": "build", "agent": "build",
		"providerID": "scripted", "modelID": "agent", "path": map[string]any{"cwd": t.dir, "root": t.dir},
		"time": map[string]any{"created": now()}, "cost": 0.002, "tokens": tokens,
	}
	t.emit("message.updated", map[string]any{"sessionID": t.id, "info": info})
	t.text("reasoning", prose(thought, t.step))
	t.text("text", prose(said, t.step))
	if !last {
		t.tool()
	}
	t.part(map[string]any{"type": "step-finish", "reason": finish, "cost": 0.002, "tokens": tokens}, true)
	info["finish"], info["time"] = finish, map[string]any{"created": now(), "completed": now()}
	t.emit("message.updated", map[string]any{"sessionID": t.id, "info": info})
	data := encode(map[string]any{"info": info, "parts": t.parts})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.session.messages = append(t.session.messages, data)
}

var tokens = map[string]any{
	"input": 2400, "output": 120, "reasoning": 500, "cache": map[string]any{"read": 20_000, "write": 0},
}

// text sends a part that the model writes: empty, then in pieces, then whole.
func (t *fakeTurn) text(kind, text string) {
	p := t.part(map[string]any{"type": kind, "text": ""}, false)
	for at := 0; at < len(text); at += token {
		t.emitOnce("message.part.delta", map[string]any{
			"sessionID": t.id, "messageID": t.message, "partID": p["id"], "field": "text",
			"delta": text[at:min(at+token, len(text))],
		})
	}
	p["text"] = text
	t.part(p, true)
}

// tool sends a command that prints for a while.
func (t *fakeTurn) tool() {
	command := fmt.Sprintf("go test ./part%d/... -run Test%d", t.step, t.step)
	input := map[string]any{"command": command, "description": "Run the tests"}
	p := t.part(map[string]any{
		"type": "tool", "tool": "bash", "callID": fmt.Sprintf("call_%s_%d", t.id, t.step),
		"state": map[string]any{"status": "pending", "input": map[string]any{}, "raw": ""},
	}, false)
	text := prose(output, t.step)
	for printed := 0; printed < len(text); printed += outputStep {
		p["state"] = map[string]any{
			"status": "running", "input": input, "time": map[string]any{"start": now()},
			"metadata": map[string]any{"output": text[max(0, printed-preview):printed]},
		}
		t.part(p, false)
	}
	p["state"] = map[string]any{
		"status": "completed", "input": input, "output": text, "title": "Run the tests",
		"metadata": map[string]any{"output": text, "exit": 0, "truncated": false},
		"time":     map[string]any{"start": now(), "end": now()},
	}
	t.part(p, true)
}

// part sends a part, and adds it to the message if it is final.
func (t *fakeTurn) part(p map[string]any, final bool) map[string]any {
	if p["id"] == nil {
		t.mu.Lock()
		p["id"] = t.fakeServer.id("prt")
		t.mu.Unlock()
		p["sessionID"], p["messageID"] = t.id, t.message
	}
	t.emit("message.part.updated", map[string]any{"sessionID": t.id, "part": p, "time": now()})
	if final {
		t.parts = append(t.parts, p)
	}
	return p
}

// emit sends an event and its copy.
func (t *fakeTurn) emit(eventType string, properties any) {
	t.emitOnce(eventType, properties)
	data := repeated(t.dir, eventType, properties)
	t.sent += len(data)
	t.send(data)
}

func (t *fakeTurn) emitOnce(eventType string, properties any) {
	data := event(t.dir, eventType, properties)
	t.sent += len(data)
	t.send(data)
}

// prose returns n bytes of lines that look like tool output, with quotes, tabs and a letter beyond ASCII.
func prose(n, seed int) string {
	var b strings.Builder
	for line := 0; b.Len() < n; line++ {
		fmt.Fprintf(&b, "\tpart%d/file%d.go:%d: %q is not what it says, naïvely <%d>\n",
			seed, line%7, line, "value", line*seed)
	}
	return b.String()[:n]
}
