package project

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/opencode"
)

// The last rule that fits decides, so one that a later rule covers as a whole asks for nothing.
func TestAsksOf(t *testing.T) {
	t.Parallel()
	for rules, want := range map[string]string{
		"* * allow, external_directory * ask, external_directory /tmp/* allow": "external_directory *",
		"bash * allow, bash rm* ask, bash * allow":                             "",
		"bash rm* ask, bash rm* deny, edit * ask, read *.env ask, read * ask":  "edit *, read *",
		"edit * ask, * * allow": "",
		"* * ask, bash * allow": "* *",
	} {
		var all []opencode.Rule
		for line := range strings.SplitSeq(rules, ", ") {
			f := strings.Fields(line)
			all = append(all, opencode.Rule{Permission: f[0], Pattern: f[1], Action: opencode.Action(f[2])})
		}
		var got []string
		for _, r := range asksOf(all) {
			got = append(got, fmt.Sprint(r.Permission, " ", r.Pattern))
		}
		if said := strings.Join(got, ", "); said != want {
			t.Errorf("%s: asks for %q, want %q", rules, said, want)
		}
	}
}
