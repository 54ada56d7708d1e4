package executor

import (
	"context"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const (
	diagnosticsKept = 50
	diagnosticText  = 300 // characters
)

// diagnostics are the errors in the files that the session changed. Each editing call brings what the language servers
// know by then of all files, so the newest call has the last word.
func (t *turn) diagnostics(a account) []boulder.Diagnostic {
	var list []boulder.Diagnostic
	for file, found := range a.failing {
		if !a.edited[file] && !a.edited[t.relative(file)] {
			continue
		}
		for _, e := range found {
			list = append(list, boulder.Diagnostic{
				File: t.relative(file), Line: e.Line, Severity: "error", Message: text.Short(e.Message, diagnosticText),
			})
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
	has, err := t.dir.HasLanguageServer(ctx)
	return err == nil && !has, fault(err)
}
