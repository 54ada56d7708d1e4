package executor

import (
	"context"
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

// reportedErrors are the errors that language servers told of with an editing call, by file.
func reportedErrors(call *opencode.ToolCall) (byFile map[string][]boulder.Diagnostic, known bool) {
	var metadata struct {
		Diagnostics map[string][]struct {
			Severity int    `json:"severity"`
			Message  string `json:"message"`
			Range    struct {
				Start struct {
					Line int `json:"line"` // from 0
				} `json:"start"`
			} `json:"range"`
		} `json:"diagnostics"`
	}
	if json.Unmarshal(call.Metadata, &metadata) != nil || metadata.Diagnostics == nil {
		return nil, false
	}
	byFile = map[string][]boulder.Diagnostic{}
	for file, findings := range metadata.Diagnostics {
		for _, f := range findings {
			if f.Severity == severityError {
				byFile[file] = append(byFile[file], boulder.Diagnostic{
					Line: f.Range.Start.Line + 1, Severity: "error", Message: clip(f.Message, diagnosticText),
				})
			}
		}
	}
	return byFile, true
}

// diagnostics are the errors in the files that the session changed. Each editing call brings what the language servers
// know by then of all files, so the newest call has the last word.
func (t *turn) diagnostics(a account) []boulder.Diagnostic {
	var list []boulder.Diagnostic
	for file, found := range a.failing {
		if !a.edited[file] && !a.edited[t.relative(file)] {
			continue
		}
		for _, d := range found {
			d.File = t.relative(file)
			list = append(list, d)
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

// unanalysed reports whether diagnostics count, and no language server is there to find any.
func (t *turn) unanalysed(ctx context.Context) (bool, error) {
	if !t.job.SubTask.DoneNeeds(boulder.DoneDiagnostics) {
		return false, nil
	}
	servers, err := t.dir.LanguageServers(ctx)
	if err != nil {
		return false, fault(err)
	}
	works := func(s opencode.LanguageServer) bool { return s.Status == opencode.ServerConnected }
	return !slices.ContainsFunc(servers, works), nil
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
