package session

import (
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

// TestCutOff: two tokens without a tool call are no answer, whatever the finish says, and neither is the output limit.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		finish, failed string
		tools          bool
		output         int64
		least          int
		cut            bool
	}{
		"two tokens":                {finish: opencode.FinishStop, output: 2, least: 3, cut: true},
		"a sentence":                {finish: opencode.FinishStop, output: 9, least: 3},
		"two tokens after tools":    {finish: opencode.FinishStop, tools: true, output: 2, least: 3},
		"two tokens, rule off":      {finish: opencode.FinishStop, output: 2, least: -1},
		"the output limit":          {finish: opencode.FinishLength, tools: true, output: 900, least: 3, cut: true},
		"the output limit, failed":  {failed: opencode.MessageOutputLength, output: 900, least: 3, cut: true},
		"for no known reason":       {finish: opencode.FinishUnknown, output: 900, least: 3, cut: true},
		"an error says what it was": {failed: opencode.APIError, output: 0, least: 3},
	} {
		if cut := CutOff(test.finish, test.failed, test.tools, test.output, test.least); (cut != "") != test.cut {
			t.Errorf("%s: %q", name, cut)
		}
	}
}
