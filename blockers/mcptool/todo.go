package mcptool

import (
	"context"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bouldermgr/manager/boulder"
)

// TodoName is the name of the todo list tool, see [ToolName].
const TodoName = "todo"

// todoDescription is all that an agent knows of the list.
const todoDescription = `Keep your todo list. Each call replaces the whole list.

Work of three steps or more: list the steps before you begin, keep one in_progress, mark each as completed as soon as it ` +
	`is done and not before, add what you find on the way, and cancel what is not needed.`

// todos is the input, in the shape of OpenCode 1's own tool.
type todos struct {
	Todos []todo `json:"todos" jsonschema:"the whole list"`
}

type todo struct {
	Content  string `json:"content" jsonschema:"what is to be done, in one line"`
	Status   string `json:"status" jsonschema:"pending, in_progress, completed or cancelled"`
	Priority string `json:"priority,omitempty" jsonschema:"high, medium or low"`
}

// addTodos adds the todo list tool. It stores nothing: the latest call in a session is its list, see package opencode.
func addTodos(server *mcp.Server) {
	no := false
	mcp.AddTool(server, &mcp.Tool{
		Name: TodoName, Title: "Todo list", Description: todoDescription,
		Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no, IdempotentHint: true},
	}, func(_ context.Context, r *mcp.CallToolRequest, in todos) (*mcp.CallToolResult, any, error) {
		if size := len(r.Params.Arguments); size > maxArguments {
			return nil, nil, fmt.Errorf("the list is too long, with %d bytes; nothing was changed. Shorten it", size)
		}
		open := 0
		for i, t := range in.Todos {
			// "blocked" is not documented, but agents use it for items that they cannot do.
			if !slices.Contains([]string{"pending", "in_progress", "completed", "cancelled", "blocked"}, t.Status) {
				return nil, nil, fmt.Errorf("todos[%d]: the status %q is none of pending, in_progress, completed, cancelled; "+
					"nothing was changed", i, t.Status)
			}
			if (boulder.Todo{Status: t.Status}).Open() {
				open++
			}
		}
		says := fmt.Sprintf("Noted: %d of %d items are open.", open, len(in.Todos))
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: says}}}, nil, nil
	})
}
