package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/opencode"
)

// offerTimeout bounds the making known of the tool: it is on the way of a turn's prompt.
const offerTimeout = 5 * time.Second

// offers remembers which directories of which servers have the tool with which agents report blockers.
type offers struct {
	mu   sync.Mutex
	tool BlockerTool
	made map[place]*offer
}

// place is a directory as one server sees it. A server that was started anew has a client of its own.
type place struct {
	client *opencode.Client
	path   string
}

type offer struct {
	mu  sync.Mutex // held by the one that makes it
	has bool
}

// name is what agents call the tool; empty: nobody was offered it.
func (o *offers) name() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tool.Name == "" {
		return ""
	}
	return o.tool.ToolName()
}

// isBlockerTool reports whether that is the name of the tool, or of the permission to call it.
func (e *Executor) isBlockerTool(name string) bool { return name != "" && name == e.tool.name() }

// offer sees to it that the agents of a directory have the tool. Those who come at the same time wait for the first.
// sure is for a server that may have forgotten it.
func (e *Executor) offer(ctx context.Context, dir *opencode.Directory, sure bool) error {
	ctx, cancel := context.WithTimeout(ctx, offerTimeout)
	defer cancel()
	o := e.tool.at(dir)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.has && !sure {
		return nil
	}
	tool, err := e.cfg.Diverter.Tool(ctx)
	if err != nil {
		return fmt.Errorf("the blocker tool is not served: %w", err)
	}
	e.tool.is(tool)
	if o.has { // to add it again would cut off the calls that are under way
		known, err := dir.MCPServers(ctx)
		if err != nil {
			return err
		}
		if known[tool.Name].Status == opencode.MCPConnected {
			return nil
		}
	}
	o.has = false
	if err := dir.AddMCP(ctx, opencode.MCPServer{Name: tool.Name, URL: tool.URL, Headers: tool.Headers}); err != nil {
		return err
	}
	o.has = true
	return nil
}

func (o *offers) at(dir *opencode.Directory) *offer {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := place{dir.Client(), dir.Path()}
	if o.made[p] == nil {
		if o.made == nil {
			o.made = map[place]*offer{}
		}
		o.made[p] = &offer{}
	}
	return o.made[p]
}

func (o *offers) is(tool BlockerTool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tool = tool
}

// Withdraw takes the blocker tool back from the servers it was offered to, which may be somebody else's and outlive
// this program. Call it when no turn runs any more.
func (e *Executor) Withdraw(ctx context.Context) error {
	e.tool.mu.Lock()
	name, made := e.tool.tool.Name, e.tool.made
	e.tool.made = nil
	e.tool.mu.Unlock()
	var failed []error
	for p, o := range made {
		o.mu.Lock()
		if o.has {
			err := p.client.In(p.path).DisconnectMCP(ctx, name)
			if err != nil && !errors.Is(err, opencode.ErrUnavailable) { // a server that is gone has forgotten it
				failed = append(failed, fmt.Errorf("take the blocker tool back from %s: %w", p.path, err))
			}
		}
		o.mu.Unlock()
	}
	return errors.Join(failed...)
}

// offerTool offers the tool in every directory that the tree of a diverted session is known to work in: once in a turn,
// and again where the server may have been started anew. Without it agents go on as well as they can: an error is for
// [turn.tellUnoffered].
func (t *turn) offerTool(ctx context.Context, again bool) {
	paths := map[string]bool{t.cfg.Project: true}
	if t.tree != nil {
		for _, id := range t.tree.Sessions() {
			paths[t.directoryOf(id).Path()] = true
		}
	}
	for path := range paths {
		if t.seen.offered[path] && !again {
			continue
		}
		setIn(&t.seen.offered, path)
		// Only of a server of our own is it known when it is another.
		if err := t.offer(ctx, t.conn.Client.In(path), t.conn.Down == nil); err != nil {
			t.seen.unoffered = err
		}
	}
}

// tellUnoffered says once in a turn that the agents have to do without the tool.
func (t *turn) tellUnoffered() error {
	err := t.seen.unoffered
	t.seen.unoffered = nil
	if err == nil {
		return nil
	}
	t.cfg.Logger.Warn("the blocker tool could not be offered", "error", err)
	return t.notice("agents have no tool to report blockers with, what they ask for is diverted all the same: " +
		text.Short(t.cfg.Redact.Text(err.Error()), 200))
}

// offerIn offers the tool in a directory in which a sub-agent begins to work.
func (t *turn) offerIn(ctx context.Context, path string) error {
	if path == "" || path == t.cfg.Project || t.seen.offered[path] || !t.seen.diverting || !t.diverted() {
		return nil
	}
	t.offerTool(ctx, false)
	return t.tellUnoffered()
}

// directoryOf is the server's view of the directory in which a session of the tree works.
func (t *turn) directoryOf(sessionID string) *opencode.Directory {
	if path := t.tree.Member(sessionID).Directory; path != "" && path != t.cfg.Project {
		return t.conn.Client.In(path)
	}
	return t.dir
}
