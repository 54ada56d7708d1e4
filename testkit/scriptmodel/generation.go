package scriptmodel

import (
	"maps"
	"slices"
)

// tools2 maps tools of OpenCode 1 to their names in OpenCode 2, with renamed input fields.
var tools2 = map[string]struct {
	name   string
	fields map[string]string
}{
	"bash":      {"shell", nil},
	"task":      {"subagent", map[string]string{"subagent_type": "agent", "task_id": "sessionID"}},
	"read":      {"read", map[string]string{"filePath": "path"}},
	"write":     {"write", map[string]string{"filePath": "path"}},
	"edit":      {"edit", map[string]string{"filePath": "path"}},
	"todowrite": {"manager_todo", nil},
}

// forGeneration translates a call for the generation of OpenCode that offers the tools.
func (c ToolCall) forGeneration(offered []string) ToolCall {
	renamed, known := tools2[c.Name]
	if !known || !slices.Contains(offered, "shell") && !slices.Contains(offered, "subagent") {
		return c
	}
	c.Name = renamed.name
	if args, ok := c.Args.(map[string]any); ok { // other arguments are invalid on purpose
		args = maps.Clone(args)
		for old, name := range renamed.fields {
			if value, has := args[old]; has {
				args[name] = value
				delete(args, old)
			}
		}
		c.Args = args
	}
	return c
}
