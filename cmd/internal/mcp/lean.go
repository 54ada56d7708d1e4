package mcp

import (
	"encoding/json"
	"slices"
	"time"
)

// unneeded are the keys of --json with which an agent can do nothing: they cost it tokens with every answer.
var unneeded = []string{
	"limits", "pid", "project", "base", "hash", "seal", "origin", "edited", "version", "revision", "position", "priority",
	"active_form", "seq", "queue_seq", "created_at", "updated_at", "made_at", "settled_at", "since", "at_event", "session_id",
	"worked", "worked_ms", "elapsed_ms", "duration", "tally", "usage", "models", "ledger_model", "attempts", "replans", "gone",
	"replied", "chosen_reasoning",
}

// kept are the empty values that are told all the same: that there is no news is an answer.
var kept = []string{"events"}

// lean returns the --json output of a command as an agent gets it: without what it does not need, and what is empty; times to
// the second. Instead of the process that runs a boulder it says that one does, and of the usage the price.
func lean(object any) (any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return nil, err
	}
	if top, ok := plain.(map[string]any); ok {
		if by, told := top["run_by"]; told {
			top["running"] = by != nil
			delete(top, "run_by")
		}
		if usage, ok := top["usage"].(map[string]any); ok && usage["cost"] != nil {
			top["cost"] = usage["cost"]
		}
	}
	return trimmed(plain), nil
}

// trimmed removes from a JSON value what lean leaves out; nil if nothing is left.
func trimmed(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if left := trimmed(inner); slices.Contains(unneeded, key) || left == nil && !slices.Contains(kept, key) {
				delete(v, key)
			} else if left != nil {
				v[key] = left
			}
		}
		if len(v) == 0 {
			return nil
		}
	case []any:
		for i, inner := range v {
			v[i] = trimmed(inner)
		}
		if v = slices.DeleteFunc(v, func(e any) bool { return e == nil }); len(v) == 0 {
			return nil
		}
		return v
	case string:
		if v == "" {
			return nil
		}
		if t, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return t.Format(time.RFC3339)
		}
	}
	return value
}
