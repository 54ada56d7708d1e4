package anthropic

import (
	"net/http"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/providers"
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
type features []feature

func (f features) has(one feature) bool { return slices.Contains(f, one) }

// plan gives the features that req wants, without those that its model is known to refuse.
func (c *Client) plan(req *providers.Request) features {
	var out features
	add := func(wanted bool, one feature) bool {
		if wanted = wanted && !c.refused.Has(req.Model, one); wanted {
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
// another that was asked for as well. There are no codes for it.
var cues = []struct {
	feature feature
	words   []string
}{
	{temperature, []string{"temperature"}},
	{roomy, []string{"max_tokens"}},
	{structured, []string{
		"output_config.format", "output_format", "output format", "json_schema", "structured output", "output_config: ",
	}},
	{effort, []string{"effort", "output_config"}},
	{structured, []string{"output_config"}},
	{forcedTool, []string{"tool", "strict"}},
}

// refusedBy tells which of the used features the endpoint did not take.
func (f features) refusedBy(failure *providers.Error) (feature, bool) {
	if failure.Kind != providers.KindBadRequest ||
		failure.Status != http.StatusBadRequest && failure.Status != http.StatusUnprocessableEntity {
		return "", false
	}
	text := strings.ToLower(failure.Message)
	for _, cue := range cues {
		named := slices.ContainsFunc(cue.words, func(word string) bool { return strings.Contains(text, word) })
		if named && f.has(cue.feature) {
			return cue.feature, true
		}
	}
	return "", false
}
