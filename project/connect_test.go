package project

import (
	"encoding/json"
	"testing"
)

// The server's configuration has the ledgers' agent beside the user's. OpenCode 2 would take a section "experimental" of
// it in place of the user's.
func TestOwnConfiguration(t *testing.T) {
	t.Parallel()
	const users = `{"agent":{"mine":{}},"experimental":{"subagent_depth":2}}`
	for _, test := range []struct {
		generation   int
		content      string
		experimental string
	}{
		{1, "", `{"continue_loop_on_deny":true}`},
		{1, users, `{"continue_loop_on_deny":true,"subagent_depth":2}`},
		{1, `{"experimental":{"continue_loop_on_deny":false}}`, `{"continue_loop_on_deny":false}`},
		{0, "", `{"continue_loop_on_deny":true}`},
		{2, "", "null"},
		{2, users, `{"subagent_depth":2}`},
	} {
		var got struct {
			Agent        map[string]any
			Experimental any
		}
		if err := json.Unmarshal([]byte(withOwnConfig(test.generation, test.content)), &got); err != nil {
			t.Fatal(err)
		}
		experimental, _ := json.Marshal(got.Experimental) // it was JSON
		if _, kept := got.Agent["mine"]; string(experimental) != test.experimental || kept != (test.content == users) || len(got.Agent) == 0 {
			t.Errorf("OpenCode %d, %s: %+v", test.generation, test.content, got)
		}
	}
	if got := withOwnConfig(2, "{broken"); got != "{broken" {
		t.Errorf("a broken one becomes %s", got)
	}
}
