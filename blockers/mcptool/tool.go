package mcptool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

const (
	// ToolName is the tool's name. OpenCode prefixes it with the name of the server, see [DefaultName].
	ToolName = "blocker"
	// Registered tells an agent that its blocker was recorded (seed 003, FR-009).
	Registered = "Great, blocker registered, move on with the next non-blocking issues!"
	// Off tells an agent that diversion is off.
	Off = "The blocker diverter is off; nothing was recorded. Go on as if this tool were not there: ask the user if you " +
		"need to, or choose yourself and say so in your final message."
	// Unknown tells an agent that its session could not be identified.
	Unknown = "It could not be found out which session made this call, so nothing was recorded. Make the same call once " +
		"more. If that fails too, go on without it, and put the question into your final message."
)

const (
	// recording bounds the write: the register waits five seconds for its database. Together with patience it stays below
	// OpenCode's call timeout of fifteen seconds, see opencode.MCPServer.
	recording = 8 * time.Second
	// maxArguments bounds a call, in bytes. Its fields may have some 21,000 characters in all. A session shows up to 64
	// KiB of a text and 256 KiB of an input (opencode), so that any valid call can be matched.
	maxArguments = 200 << 10
)

// description is all that an agent in a session of the user's own knows of the tool; in a run the brief explains it
// too. %s is what agents may choose themselves.
const description = `Report what only the user can decide or allow, and go on without waiting for an answer. ` +
	`The user reads it later and may answer in a later session. Report each thing once.

A soft blocker (blocks_progress: false) is a choice that can be changed later: %s. ` +
	`Find three options, choose one, go on with it, and give options, chosen_option and chosen_reasoning.

A hard blocker (blocks_progress: true) is what you must not decide: architecture that much depends on, security, ` +
	`secrets, money, deleting or publishing something, a permission that was refused and that you cannot do without. ` +
	`Do not do it in another way; go on with what does not depend on it.`

// schema is that of the input; %s are the categories. That a soft blocker needs options, choice and reason is only said
// in texts: model providers refuse schemas with conditions.
const schema = `{
	"type": "object", "additionalProperties": false, "required": ["category", "question", "context", "blocks_progress"],
	"properties": {
		"category": {"type": "string", "enum": %s, "description": "What kind of thing it is about"},
		"question": {"type": "string", "description":
			"What the user has to decide or allow, so that it can be answered without having seen your work"},
		"context": {"type": "string", "description":
			"What the user has to know for it: files, findings, what follows from each answer"},
		"blocks_progress": {"type": "boolean", "description":
			"true: hard, you must not decide it; false: soft, you have chosen one of the options"},
		"options": {"type": "array", "items": {"type": "string"}, "description":
			"What there is to choose from, best three. Needed for a soft blocker"},
		"chosen_option": {"type": "string", "description":
			"The option that you go on with, word for word. Needed for a soft blocker"},
		"chosen_reasoning": {"type": "string", "description": "Why you chose it. Needed for a soft blocker"}
	}
}`

// scopeOf returns the session that makes a call; false if unknown.
type scopeOf func(context.Context, *mcp.CallToolRequest) (boulder.BlockerScope, bool)

func (s *Server) tools(who scopeOf, names ...string) *mcp.Server {
	version := "(devel)"
	if build, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(build.Main.Version, version)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: DefaultName, Version: version}, &mcp.ServerOptions{
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}, // the list never changes
	})
	if slices.Contains(names, opencode.TodoTool) {
		addTodos(server)
	}
	if !slices.Contains(names, boulder.BlockerTool) {
		return server
	}
	no := false
	categories, _ := json.Marshal(boulder.BlockerCategories()) // texts always marshal
	server.AddTool(&mcp.Tool{
		Name: ToolName, Title: "Report a blocker", Description: fmt.Sprintf(description, strings.Join(s.cfg.Register.Diversion().Soft, ", ")),
		InputSchema: json.RawMessage(fmt.Sprintf(schema, categories)),
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no, IdempotentHint: true},
	}, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, failed := s.handle(ctx, r, who)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}, IsError: failed}, nil
	})
	return server
}

// handle records a call and returns the answer; failed marks it as the tool's error.
func (s *Server) handle(ctx context.Context, r *mcp.CallToolRequest, who scopeOf) (answer string, failed bool) {
	arguments := r.Params.Arguments
	if len(arguments) > maxArguments {
		return fmt.Sprintf("The call is too long, with %d bytes; nothing was recorded. Shorten question and context, or put the "+
			"background into a file and name that.", len(arguments)), true
	}
	scope, known := who(ctx, r)
	if known && !s.cfg.Register.On(scope) {
		return Off, false
	}
	in, err := blockers.ReadInput(arguments)
	if err == nil && !known {
		s.cfg.Logger.Warn("a call of the blocker tool belongs to no known session")
		return Unknown, true
	}
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, recording)
		defer cancel()
		_, err = s.cfg.Register.Raise(ctx, scope, in) // a duplicate gets the same answer
	}
	var invalid *blockers.InputError
	switch {
	case err == nil:
		return Registered, false
	case errors.Is(err, blockers.ErrOff): // switched off meanwhile
		return Off, false
	case errors.Is(err, blockers.ErrTooMany), errors.Is(err, blockers.ErrOver):
		return fmt.Sprintf("Not recorded: %s. Go on with what needs no answer, and put the question into your final message.",
			err), true
	case errors.As(err, &invalid):
		return err.Error() + "\nNothing was recorded. Call the tool again with this put right.", true
	}
	s.cfg.Logger.Error("a blocker could not be recorded", "session", scope.SessionID, "error", err)
	return fmt.Sprintf("The blocker could not be recorded: %s. Make the same call once more. If that fails too, go on without "+
		"it, and put the question into your final message.", err), true
}
