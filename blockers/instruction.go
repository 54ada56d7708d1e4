package blockers

import (
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// Instruction is what an agent is told whose ask is diverted: that it is refused and recorded, and how to go on. It gives no
// tasks and no next steps: the agent knows them (seed 003, FR-008 and FR-010). toolName is what the agent knows the blocker
// tool as; empty: it has none.
func Instruction(toolName string, ask boulder.Blocker) string {
	var s strings.Builder
	hard := " If a part of your task cannot be done without it, leave that part out and say so in your final message."
	if ask.Ask != nil && ask.Ask.Kind == boulder.AskPermission {
		s.WriteString("Nobody is there to give this permission (" + wanted(ask.Ask) + "). It is refused, and recorded for a " +
			"person to see. Do not ask for it again, and do not do the same in another way.")
		if toolName != "" {
			hard = " If a part of your task cannot be done without it, call the tool " + toolName + " once, with category " +
				"permission and blocks_progress true."
		}
	} else {
		s.WriteString("Nobody is there to answer. The question is recorded for a person to see; do not ask it again.")
		hard = " Choose what can be changed later, go on with it, and say so in your final message."
		if toolName != "" {
			hard = " If you may choose yourself, find three options, choose one, go on with it, and report it with the tool " +
				toolName + " and blocks_progress false; if you must not, call " + toolName + " with blocks_progress true."
		}
	}
	s.WriteString(hard)
	s.WriteString(" Move on with the next non-blocking issues.")
	return s.String()
}
