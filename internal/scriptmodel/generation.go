package scriptmodel

import (
	"maps"
	"slices"
)

// tools2 are the names in OpenCode 2 of tools that were renamed, and of the fields of their input.
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

// forGeneration is the call in the names of the OpenCode that offers the tools.
func (c ToolCall) forGeneration(offered []string) ToolCall {
	renamed, known := tools2[c.Name]
	if !known || !slices.Contains(offered, "shell") && !slices.Contains(offered, "subagent") {
		return c
	}
	c.Name = renamed.name
	if args, ok := c.Args.(map[string]any); ok { // others are broken on purpose
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
