package project

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/bouldermgr/manager/opencode"
	ocprovider "github.com/bouldermgr/manager/providers/opencode"
)

// ConnectOpenCode prepares the way to an OpenCode server: one that runs, or one of our own.
func (p *Project) ConnectOpenCode(ctx context.Context) error {
	if p.opts.Attach == "" {
		p.host = opencode.NewHost(p.startServer)
		p.host.Memory = p.cfg.OpenCodeMemory
		p.host.Logger = p.log
		return nil
	}
	client, err := p.attach(ctx, p.opts.Attach, 0)
	if err != nil {
		return err
	}
	p.attached, p.host = client, opencode.AttachedHost(client)
	return nil
}

// DefaultServer is where an OpenCode 1 listens if it is not told a port and nothing else does.
const DefaultServer = "http://127.0.0.1:4096"

// attach connects to an OpenCode server that runs. timeout bounds each call; 0 is the client's default.
func (p *Project) attach(ctx context.Context, address string, timeout time.Duration) (*opencode.Client, error) {
	client, err := opencode.Attach(ctx, address, opencode.AttachConfig{
		Username: p.getenv("OPENCODE_SERVER_USERNAME"), Logger: p.log, CallTimeout: timeout,
		Password: cmp.Or(p.getenv("OPENCODE_SERVER_PASSWORD"), p.getenv("OPENCODE_PASSWORD")), // OpenCode 2 has both
	})
	if p.near && (errors.Is(err, opencode.ErrUnavailable) || errors.Is(err, opencode.ErrUnauthorized)) {
		if service, found := p.service(ctx, timeout); found != nil || service != nil {
			client, err = service, found
		}
	}
	_, otherVersion := errors.AsType[*opencode.VersionError](err)
	switch {
	case errors.Is(err, opencode.ErrBadAddress):
		return nil, usagef("attach: %w", err)
	case otherVersion:
		return nil, fmt.Errorf("attach: %w", err)
	case errors.Is(err, opencode.ErrUnauthorized):
		hint := "set OPENCODE_SERVER_PASSWORD to the server's password"
		if p.near {
			hint += ", or say with --attach which server is meant"
		}
		return nil, fmt.Errorf("attach: %w: %s", err, hint)
	case err != nil:
		return nil, fmt.Errorf("attach: %w: is `opencode serve` running there?", err)
	}
	return client, nil
}

// service connects to the background service of OpenCode 2, of which its terminal interfaces are clients. It registers itself
// in a file that only its user can read. Nil, without an error: none runs.
func (p *Project) service(ctx context.Context, timeout time.Duration) (*opencode.Client, error) {
	state := p.getenv("XDG_STATE_HOME")
	if state == "" {
		state = filepath.Join(p.getenv("HOME"), ".local", "state")
	}
	var registered struct{ URL, Password string }
	data, err := os.ReadFile(filepath.Join(state, "opencode", "service.json"))
	if err != nil || json.Unmarshal(data, &registered) != nil {
		return nil, nil //nolint:nilerr // none, or none that can be found
	}
	client, err := opencode.Attach(ctx, registered.URL, opencode.AttachConfig{
		Password: registered.Password, Logger: p.log, CallTimeout: timeout,
	})
	if errors.Is(err, opencode.ErrUnavailable) || errors.Is(err, opencode.ErrBadAddress) {
		return nil, nil // what it left
	}
	return client, err
}

// Binary is the OpenCode to start.
func (p *Project) Binary() string {
	return cmp.Or(p.opts.OpenCode, p.getenv("MANAGER_OPENCODE"), p.cfg.OpenCode, "opencode")
}

func (p *Project) startServer(ctx context.Context) (*opencode.Server, error) {
	env, err := p.environ()
	if err != nil {
		return nil, err
	}
	return opencode.Start(ctx, opencode.ServerConfig{
		Binary: p.Binary(), Dir: p.dir, Env: env, Logger: p.log,
		ConfigContent: withOwnConfig(Getenv(env, "OPENCODE_CONFIG_CONTENT")),
	})
}

// withOwnConfig adds the ledgers' agent, and that a refused permission does not end a turn, to the configuration that
// the user gave in the environment. One that cannot be read is left to OpenCode to complain about.
func withOwnConfig(content string) string {
	merged := map[string]any{}
	if content != "" && json.Unmarshal([]byte(content), &merged) != nil {
		return content
	}
	section := func(name string) map[string]any {
		found, ok := merged[name].(map[string]any)
		if !ok {
			found = map[string]any{}
			merged[name] = found
		}
		return found
	}
	maps.Copy(section("agent"), ocprovider.AgentConfig())
	if experimental := section("experimental"); experimental["continue_loop_on_deny"] == nil {
		experimental["continue_loop_on_deny"] = true // else one of several refusals ends the turn (seen)
	}
	out, err := json.Marshal(merged)
	if err != nil {
		return content
	}
	return string(out)
}
