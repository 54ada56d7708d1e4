package executor

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

const (
	diagnosticsKept = 50
	diagnosticText  = 300 // characters
)

// severityError is the language server protocol's number for an error; 2 to 4 are warnings, information and hints.
const severityError = 1

// diagnostics are the errors in the files that the session changed. Each editing call brings what the language servers
// know by then of all files, so the newest call has the last word.
func (t *turn) diagnostics(messages []opencode.Message) []boulder.Diagnostic {
	changed := map[string]bool{}
	type finding struct {
		Severity int    `json:"severity"`
		Message  string `json:"message"`
		Range    struct {
			Start struct {
				Line int `json:"line"` // from 0
			} `json:"start"`
		} `json:"range"`
	}
	var newest map[string][]finding
	for _, m := range messages {
		for _, p := range m.Parts {
			if p.Tool == nil {
				continue
			}
			files := editedFiles(p.Tool)
			for _, f := range files {
				changed[f] = true
			}
			var metadata struct {
				Diagnostics map[string][]finding `json:"diagnostics"`
			}
			if len(files) > 0 && json.Unmarshal(p.Tool.Metadata, &metadata) == nil && metadata.Diagnostics != nil {
				newest = metadata.Diagnostics
			}
		}
	}
	var list []boulder.Diagnostic
	for file, findings := range newest {
		for _, f := range findings {
			if (changed[file] || changed[t.relative(file)]) && f.Severity == severityError {
				list = append(list, boulder.Diagnostic{
					File: t.relative(file), Line: f.Range.Start.Line + 1, Severity: "error", Message: clip(f.Message, diagnosticText),
				})
			}
		}
	}
	slices.SortFunc(list, func(a, b boulder.Diagnostic) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return list[:min(len(list), diagnosticsKept)]
}

// exitCode is how a shell command ended; 0 for every other tool.
func exitCode(call *opencode.ToolCall) int {
	var metadata struct {
		Exit int `json:"exit"`
	}
	if call.Tool != "bash" || json.Unmarshal(call.Metadata, &metadata) != nil {
		return 0
	}
	return metadata.Exit
}
