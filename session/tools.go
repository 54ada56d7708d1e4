package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
)

// Diverter records what only the user can answer, and says how the agent continues without an answer. Its methods may
// be called from any goroutine; those with a context return soon after it ends. A scope names the main session, also
// for asks and calls of its sub-agents: what holds for a session holds for its whole tree.
type Diverter interface {
	// On reports whether a session is diverted at this moment.
	On(scope boulder.BlockerScope) bool
	// Bind makes book take what an attempt records, until unbind is called. unbind waits for what is being recorded.
	Bind(scope boulder.BlockerScope, book boulder.BlockerBook) (unbind func())
	// Tools returns the MCP server (streamable HTTP) with these tools: [boulder.BlockerTool], [opencode.TodoTool].
	Tools(ctx context.Context, names ...string) (opencode.MCPServer, error)
	// Diversion returns what the agents of a session are told while it is diverted.
	Diversion() boulder.Diversion
	// Called says which session makes a call of the blocker tool, as the call itself does not. It may be called again.
	Called(call boulder.BlockerCall)
	// Divert records an ask, which has no id or status yet, and rules on it. For the same request it repeats the ruling
	// and records nothing. On an error nothing is recorded. The ask holds what the agent wrote, even secrets.
	Divert(ctx context.Context, ask boulder.Blocker) (boulder.Ruling, error)
	// Instruction returns what an agent is told about an ask that could not be recorded.
	Instruction(ask boulder.Blocker) string
	// Ruling returns what became of a ruling to wait: the user answered, or the time is over.
	Ruling(ctx context.Context, scope boulder.BlockerScope, blockerID string) (boulder.Ruling, error)
	// EndWait records that a session no longer waits for an answer. replied: it has it; else it gets it with a prompt.
	EndWait(ctx context.Context, scope boulder.BlockerScope, blockerID string, replied bool) error
	// Raised lists the blockers of an attempt or, if the scope has none, of a session, oldest first.
	Raised(ctx context.Context, scope boulder.BlockerScope) ([]boulder.Blocker, error)
}

// Offers remembers which directories of which servers have which of the manager's tools. It is safe for concurrent use.
type Offers struct {
	mu   sync.Mutex
	made map[place]offer
}

type offer struct {
	server string // its name in OpenCode
	tools  []string
}

// place is a directory as one server sees it. A restarted server has another client.
type place struct {
	client *opencode.Client
	path   string
}

// offerTimeout bounds an offer, for which an agent's prompt waits.
const offerTimeout = 5 * time.Second

// Wanted names the tools that a session's agents should get from d, which may be nil: the blocker tool while the
// session is diverted, and a todo list where OpenCode has none.
func Wanted(d Diverter, caps opencode.Caps, diverted bool) (tools []string) {
	if d != nil && diverted {
		tools = append(tools, boulder.BlockerTool)
	}
	if d != nil && !caps.Todos {
		tools = append(tools, opencode.TodoTool)
	}
	return tools
}

// Offer gives the agents of a directory these tools, besides those offered before.
func (o *Offers) Offer(ctx context.Context, d Diverter, dir *opencode.Directory, tools ...string) error {
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	at := place{dir.Client(), dir.Path()}
	had := o.made[at].tools
	tools = slices.Compact(slices.Sorted(slices.Values(slices.Concat(had, tools))))
	server, err := d.Tools(ctx, tools...)
	if err != nil {
		return fmt.Errorf("manager's tools are not served: %w", err)
	}
	if slices.Equal(had, tools) { // adding them again cuts off running calls: only if OpenCode forgot them
		known, err := dir.MCPServers(ctx)
		if err != nil || known[server.Name].Status == opencode.MCPConnected {
			return err
		}
	}
	if err := dir.AddMCP(ctx, server); err != nil {
		return err
	}
	if o.made == nil {
		o.made = map[place]offer{}
	}
	o.made[at] = offer{server.Name, tools}
	return nil
}

// Withdraw removes the tools from all servers, which may be the user's and outlive this program.
func (o *Offers) Withdraw(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var failed []error
	for at, made := range o.made {
		err := at.client.In(at.path).DisconnectMCP(ctx, made.server)
		if err != nil && !errors.Is(err, opencode.ErrUnavailable) { // a server that is gone has forgotten them
			failed = append(failed, fmt.Errorf("take manager's tools back from %s: %w", at.path, err))
		}
	}
	o.made = nil
	return errors.Join(failed...)
}

// ShowTool hides the blocker tool from a session that is not diverted, since OpenCode offers it to a whole directory.
// It takes effect at the session's next turn, also for sub-agents of that; until then the tool says that it is off.
func (s *StandIn) ShowTool(ctx context.Context) error {
	show := s.Diverted()
	if s.Shown != nil && *s.Shown == show {
		return nil
	}
	info, err := s.Dir.Session(ctx, s.Scope.SessionID)
	if err != nil {
		return err
	}
	shown := true
	for _, r := range info.Rules {
		if r.Permission == boulder.BlockerTool {
			shown = r.Action != opencode.Deny
		}
	}
	if shown != show {
		err = s.Dir.AddRules(ctx, s.Scope.SessionID, ToolRule(show))
	}
	if err == nil {
		s.Shown = &show
	}
	return err
}

// ToolRule returns the session rule that shows or hides the blocker tool.
func ToolRule(show bool) opencode.Rule {
	r := opencode.Rule{Permission: boulder.BlockerTool, Pattern: "*", Action: opencode.Deny}
	if show {
		r.Action = opencode.Allow
	}
	return r
}

// Called tells the diverter which session calls the blocker tool. ended reports whether such a call has ended.
func (s *StandIn) Called(ctx context.Context, p opencode.Part) (ended bool, err error) {
	if s.Diverter == nil || p.Tool == nil || p.Tool.Tool != boulder.BlockerTool || p.Tool.State == opencode.ToolPending {
		return false, nil
	}
	if p.Tool.State.Ended() { // OpenCode may show it again much later, and nothing waits for it
		return true, nil
	}
	input := p.Tool.Input
	if p.Cut { // a call is recognised by its arguments, but events cut long texts
		m, err := s.Tree.In(s.Dir, p.SessionID).Message(ctx, p.SessionID, p.MessageID)
		if err != nil && !errors.Is(err, opencode.ErrNotFound) {
			return false, err
		}
		if c := callOf(m, p.Tool.CallID); c != nil {
			input = c.Input
		}
	}
	// Not the call's id: providers choose those, so that two sessions of the tree may have the same.
	s.Diverter.Called(boulder.BlockerCall{BlockerScope: s.Scope, CallID: p.ID, Input: input})
	return false, nil
}
