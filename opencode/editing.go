package opencode

import "encoding/json"

// EditedFiles lists the files that a finished call of an editing tool wrote: absolute paths, or as the model wrote
// them, relative to the session's directory. What a shell command changes is not known.
func (c *ToolCall) EditedFiles() []string {
	if c.State != ToolCompleted {
		return nil
	}
	var input struct {
		FilePath string `json:"filePath"`
	}
	var metadata struct {
		Files []struct {
			FilePath string `json:"filePath"`
		} `json:"files"`
	}
	switch c.Tool {
	case "edit", "write":
		if json.Unmarshal(c.Input, &input) == nil && input.FilePath != "" {
			return []string{input.FilePath}
		}
	case "patch", "apply_patch", "multiedit":
		_ = json.Unmarshal(c.Input, &input)
		_ = json.Unmarshal(c.Metadata, &metadata)
		var files []string
		for _, f := range metadata.Files {
			files = append(files, f.FilePath)
		}
		if len(files) == 0 && input.FilePath != "" {
			files = []string{input.FilePath}
		}
		return files
	}
	return nil
}

// LanguageError is an error that a language server found.
type LanguageError struct {
	Line    int // from 1
	Message string
}

// severityError is the language server protocol's number for an error; 2 to 4 are warnings, information and hints.
const severityError = 1

// LanguageErrors are the errors of which language servers told with an editing call, by absolute path: all that they
// know by then of all files, so that the newest call has the last word. known is false for a call that says nothing
// of them.
func (c *ToolCall) LanguageErrors() (byFile map[string][]LanguageError, known bool) {
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
	if json.Unmarshal(c.Metadata, &metadata) != nil || metadata.Diagnostics == nil {
		return nil, false
	}
	byFile = map[string][]LanguageError{}
	for file, found := range metadata.Diagnostics {
		for _, f := range found {
			if f.Severity == severityError {
				byFile[file] = append(byFile[file], LanguageError{Line: f.Range.Start.Line + 1, Message: f.Message})
			}
		}
	}
	return byFile, true
}
