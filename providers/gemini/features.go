package gemini

import (
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/refusals"
)

// feature is a part of a request that not every model takes, and that a request can do without.
type feature string

const (
	// structured: the answer is constrained to the schema.
	structured feature = "responseJsonSchema"
	// jsonMode: the answer is some JSON object. Gemma has not even that.
	jsonMode feature = "responseMimeType"
	// thinking: how much to reason. Gemini 3 takes words, 2.5 a number of tokens, older ones neither.
	thinking feature = "thinkingConfig"
)

// features are the ones that a request uses.
type features = refusals.Features[feature]

// plan gives the features that req wants, without those that its model is known to refuse.
func plan(req *providers.Request, refused func(feature) bool) features {
	var out features
	if req.Schema != nil && !refused(jsonMode) {
		out = append(out, jsonMode)
		if !refused(structured) {
			out = append(out, structured)
		}
	}
	if req.Effort != "" && !refused(thinking) {
		out = append(out, thinking)
	}
	return out
}

// cues are the words by which refusals name a feature.
var cues = []refusals.Cue[feature]{
	{Feature: thinking, Words: []string{"thinking"}},
	{Feature: jsonMode, Words: []string{"json mode", "responsemimetype", "response_mime_type", "response mime type"}},
	{Feature: structured, Words: []string{"schema"}},
}
