package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bouldermgr/manager/opencode"
)

// Offers remembers which directories of which servers have the blocker tool. It is safe for concurrent use.
type Offers struct {
	mu   sync.Mutex
	made map[place]string // the tool's server by its name in OpenCode
}

// place is a directory as one server sees it. A server that was started anew has a client of its own.
type place struct {
	client *opencode.Client
	path   string
}

// offerTimeout bounds an offer, on which an agent's prompt waits.
const offerTimeout = 5 * time.Second

// Offer sees to it that the agents of a directory have the tool.
func (o *Offers) Offer(ctx context.Context, d Diverter, dir *opencode.Directory) error {
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	o.mu.Lock()
	defer o.mu.Unlock()
	at := place{dir.Client(), dir.Path()}
	tool, err := d.Tool(ctx)
	if err != nil {
		return fmt.Errorf("the blocker tool is not served: %w", err)
	}
	if o.made[at] != "" { // the server may have forgotten it, but to add it again would cut off the calls under way
		known, err := dir.MCPServers(ctx)
		if err != nil || known[tool.Name].Status == opencode.MCPConnected {
			return err
		}
	}
	if err := dir.AddMCP(ctx, tool); err != nil {
		return err
	}
	if o.made == nil {
		o.made = map[place]string{}
	}
	o.made[at] = tool.Name
	return nil
}

// Withdraw takes the tool back from the servers it was offered to, which may be somebody else's and outlive this program.
func (o *Offers) Withdraw(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var failed []error
	for at, name := range o.made {
		err := at.client.In(at.path).DisconnectMCP(ctx, name)
		if err != nil && !errors.Is(err, opencode.ErrUnavailable) { // a server that is gone has forgotten it
			failed = append(failed, fmt.Errorf("take the blocker tool back from %s: %w", at.path, err))
		}
	}
	o.made = nil
	return errors.Join(failed...)
}
