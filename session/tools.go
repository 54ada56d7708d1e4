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

// Diverter takes down what only the user can answer, and says how the agent continues without. Its methods may be called
// from any goroutine, and those with a context return soon after that ends.
//
// Scopes carry the main session, also for what its sub-agents ask and call: what holds for a session holds for its whole
// tree.
type Diverter interface {
	// On reports whether a session is diverted at this moment.
	On(scope boulder.BlockerScope) bool
	// Tools is the MCP server (streamable HTTP) that has these tools: [boulder.BlockerTool], [opencode.TodoTool].
	Tools(ctx context.Context, names ...string) (opencode.MCPServer, error)
	// Diversion is what the agents of a session are told while it is diverted.
	Diversion() boulder.Diversion
	// Called says which session makes a call of the first. The call itself does not say it. It may be told again.
	Called(call boulder.BlockerCall)
	// Divert takes down an ask, which has neither id nor status yet, and rules on it. Asked again about the same
	// request it gives the same ruling, and records nothing. An error means that nothing is recorded. The ask holds
	// whatever the agent wrote, secrets included.
	Divert(ctx context.Context, ask boulder.Blocker) (boulder.Ruling, error)
	// Instruction is what an agent is told about an ask that could not be taken down.
	Instruction(ask boulder.Blocker) string
	// Ruling says what has become of a ruling to wait: the user answered, or the time is over.
	Ruling(ctx context.Context, blockerID string) (boulder.Ruling, error)
	// Gone takes down that the answer to an ask did not reach its session, which does not wait for it any longer. What
	// the user has answered stays answered.
	Gone(ctx context.Context, blockerID string) error
	// Raised lists what was recorded for an attempt, or, in a scope without one, for a session; oldest first.
	Raised(ctx context.Context, scope boulder.BlockerScope) ([]boulder.Blocker, error)
}

// Offers remembers which directories of which servers have which of manager's tools. It is safe for concurrent use.
type Offers struct {
	mu   sync.Mutex
	made map[place]offer
}

type offer struct {
	server string // its name in OpenCode
	tools  []string
}

// place is a directory as one server sees it. A server that was started again has a client of its own.
type place struct {
	client *opencode.Client
	path   string
}

// offerTimeout bounds an offer, on which an agent's prompt waits.
const offerTimeout = 5 * time.Second

// Wanted are the tools, as agents call them, that the agents of a session should have from a diverter, which may be nil: the
// blocker tool while it is diverted, and a todo list where OpenCode has none.
func Wanted(d Diverter, caps opencode.Caps, diverted bool) (tools []string) {
	if d != nil && diverted {
		tools = append(tools, boulder.BlockerTool)
	}
	if d != nil && !caps.Todos {
		tools = append(tools, opencode.TodoTool)
	}
	return tools
}

// Offer sees to it that the agents of a directory have these tools, and those that they were offered before.
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
	if slices.Equal(had, tools) { // OpenCode may have forgotten them, but to add them again would cut off the calls under way
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

// Withdraw takes the tools back from the servers it was offered to, which may be somebody else's and outlive this program.
func (o *Offers) Withdraw(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var failed []error
	for at, made := range o.made {
		err := at.client.In(at.path).DisconnectMCP(ctx, made.server)
		if err != nil && !errors.Is(err, opencode.ErrUnavailable) { // a server that is gone has forgotten it
			failed = append(failed, fmt.Errorf("take manager's tools back from %s: %w", at.path, err))
		}
	}
	o.made = nil
	return errors.Join(failed...)
}

// ShowTool keeps the tool that reports blockers from a session that is not diverted, and gives it back when it is: OpenCode
// offers a tool to all sessions of a directory. It counts from the session's next turn on, and for the sub-agents that it
// has then; until then the tool itself says that it is off.
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

// ToolRule is the rule of a session by which its agent has the tool that reports blockers, or has not.
func ToolRule(show bool) opencode.Rule {
	r := opencode.Rule{Permission: boulder.BlockerTool, Pattern: "*", Action: opencode.Deny}
	if show {
		r.Action = opencode.Allow
	}
	return r
}

// Called tells the diverter which session makes a call of the tool that reports blockers; ended: such a call has.
func (s *StandIn) Called(ctx context.Context, p opencode.Part) (ended bool, err error) {
	if s.Diverter == nil || p.Tool == nil || p.Tool.Tool != boulder.BlockerTool || p.Tool.State == opencode.ToolPending {
		return false, nil
	}
	input := p.Tool.Input
	if p.Cut { // a call is recognised by its arguments, and events cut long texts
		m, err := s.Tree.In(s.Dir, p.SessionID).Message(ctx, p.SessionID, p.MessageID)
		if err != nil && !errors.Is(err, opencode.ErrNotFound) {
			return false, err
		}
		if c := callOf(m, p.Tool.CallID); c != nil {
			input = c.Input
		}
	}
	// The part's id, since providers number calls as they like: two sessions of the tree may have the same.
	s.Diverter.Called(boulder.BlockerCall{BlockerScope: s.Scope, CallID: p.ID, Input: input})
	return p.Tool.State.Ended(), nil
}
