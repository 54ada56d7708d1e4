package anthropic

import (
	"github.com/bouldermgr/manager/providers"
	"github.com/bouldermgr/manager/providers/internal/refusals"
)

// feature is a part of a request that not every model or endpoint takes, and that a request can do without.
type feature string

const (
	// structured: the answer is constrained to the schema by output_config. Newer than many imitations of the API.
	structured feature = "output_config.format"
	// forcedTool: the answer is the argument of a tool that must be called. Excludes thinking.
	forcedTool feature = "tool_choice"
	// effort: models before Opus 4.5, and the small ones, have none.
	effort feature = "output_config.effort"
	// temperature: models since Opus 4.7 refuse every value.
	temperature feature = "temperature"
	// roomy: an output limit of [defaultMaxTokens]. The oldest models allow less.
	roomy feature = "max_tokens"
)

// features are the ones that a request uses.
type features = refusals.Features[feature]

// plan gives the features that req wants, without those that its model is known to refuse.
func plan(req *providers.Request, refused func(feature) bool) features {
	var out features
	add := func(wanted bool, one feature) bool {
		if wanted = wanted && !refused(one); wanted {
			out = append(out, one)
		}
		return wanted
	}
	if !add(req.Schema != nil, structured) {
		add(req.Schema != nil, forcedTool)
	}
	add(req.Effort != "", effort)
	add(req.Temperature != nil, temperature)
	add(req.MaxOutputTokens == 0, roomy)
	return out
}

// cues are the words by which refusals name a feature, the narrowest feature first: a word of one must not stand for
// another that was asked for as well.
var cues = []refusals.Cue[feature]{
	{Feature: temperature, Words: []string{"temperature"}},
	{Feature: roomy, Words: []string{"max_tokens"}},
	{Feature: structured, Words: []string{
		"output_config.format", "output_format", "output format", "json_schema", "structured output", "output_config: ",
	}},
	{Feature: effort, Words: []string{"effort", "output_config"}},
	{Feature: structured, Words: []string{"output_config"}},
	{Feature: forcedTool, Words: []string{"tool", "strict"}},
}
