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
