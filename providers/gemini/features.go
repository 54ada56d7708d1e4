package gemini

import (
	"net/http"
	"slices"
	"strings"

	"github.com/bouldermgr/manager/providers"
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
type features []feature

func (f features) has(one feature) bool { return slices.Contains(f, one) }

// plan gives the features that req wants, without those that its model is known to refuse.
func (c *Client) plan(req *providers.Request) features {
	var out features
	if req.Schema != nil && !c.refused.Has(req.Model, jsonMode) {
		out = append(out, jsonMode)
		if !c.refused.Has(req.Model, structured) {
			out = append(out, structured)
		}
	}
	if req.Effort != "" && !c.refused.Has(req.Model, thinking) {
		out = append(out, thinking)
	}
	return out
}

// cues are the words by which refusals name a feature. There are no codes for it.
var cues = []struct {
	feature feature
	words   []string
}{
	{thinking, []string{"thinking"}},
	{jsonMode, []string{"json mode", "responsemimetype", "response_mime_type", "response mime type"}},
	{structured, []string{"schema"}},
}

// refusedBy tells which of the used features the model did not take.
func (f features) refusedBy(failure *providers.Error) (feature, bool) {
	if failure.Kind != providers.KindBadRequest || failure.Status != http.StatusBadRequest {
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
