package executor

import (
	"context"

	"github.com/bouldermgr/manager/boulder"
)

// Diverter stands in for the person who is not there: it takes what only a person can answer down, and says how the
// agent goes on without. Its methods may be called from any goroutine, and those with a context return soon after
// that ends.
//
// Scopes carry the session of the attempt, also for what its sub-agents ask and call: what holds for a session holds
// for its whole tree.
type Diverter interface {
	// On reports whether a session is diverted at this moment. Where it is not, [Config.Asks] says what agents are told.
	On(scope boulder.BlockerScope) bool
	// Tool says where OpenCode finds the tool with which agents report blockers, once for every server and directory. The
	// tool of the same name is then offered to the agents as name_blocker.
	Tool(ctx context.Context) (BlockerTool, error)
	// Called says which session makes a call of that tool. The call itself does not say it.
	Called(call boulder.BlockerCall)
	// Divert takes down an ask, which has neither id nor status yet, and rules on it. Asked again about the same
	// request it gives the same ruling, and records nothing. An error means that nothing is recorded. The ask holds
	// whatever the agent wrote, secrets included.
	Divert(ctx context.Context, ask boulder.Blocker) (boulder.Ruling, error)
	// Instruction is what an agent is told about an ask that could not be taken down.
	Instruction(ask boulder.Blocker) string
	// Ruling says what has become of a ruling to wait: a person answered, or the time is over.
	Ruling(ctx context.Context, blockerID string) (boulder.Ruling, error)
	// Gone takes down that the answer to an ask did not reach its session, which does not wait for it any longer. Of a
	// blocker that a person has settled it changes nothing.
	Gone(ctx context.Context, blockerID string) error
	// Raised lists what was recorded for an attempt, oldest first.
	Raised(ctx context.Context, ref boulder.AttemptRef, boulderID string) ([]boulder.Blocker, error)
}

// BlockerTool is an MCP server (streamable HTTP) that has the tool "blocker".
type BlockerTool struct {
	Name    string // of the server, within OpenCode
	URL     string
	Headers map[string]string
}

// ToolName is the name under which OpenCode offers the tool to agents.
func (b BlockerTool) ToolName() string { return b.Name + "_blocker" }
