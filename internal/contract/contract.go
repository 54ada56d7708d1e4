// Package contract is what the program needs of an OpenCode server, as cases that are tried on a real one: a model that
// plays a script answers on the loopback interface, everything else is real. The cases use the public API of package
// opencode alone, and know no version: what a server says that it cannot do is left out.
//
// `manager doctor --contract` tries them on the user's OpenCode, the tests on the one that is pinned.
package contract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
)

const (
	defaultPatience = time.Minute
	atOnce          = 4 // cases, on one server: they mostly wait
	tidyTimeout     = 15 * time.Second
)

// Case is something that the program relies on.
type Case struct {
	Name  string // what holds, in a sentence
	check func(*scene)
}

// Cases are all of them, in the order of the report.
var Cases = []Case{
	{"the server tells its version, and refuses a wrong password", handshake},
	{"models, agents and the default model are listed", catalogue},
	{"a notice is shown in the terminal interface", toast},
	{"a session keeps its title, metadata, agent and rules, until it is deleted", storedSession},
	{"sessions are listed by their last activity, and found by their title", listedSessions},
	{"an event stream that was cut comes back, and says that something may be missing", cutStream},
	{"a turn calls its tools, its events come in order, and what it did can be read back", turn},
	{"state alone says whether a turn runs, and that it is over", turnFromState},
	{"the agent's todo list is told and can be read", todos},
	{"a prompt that is sent twice under one id runs once", promptTwice},
	{"an abort ends the tool that runs, and the prompt runs again under its id", abort},
	{"prompts to a busy session are taken, and a session of more than 100 messages is read whole", longSession},
	{"a turn or a question with an unknown model or agent fails, and says so", unknown},
	{"a tool that needs a permission waits for it, and runs when it is given", allowed},
	{"an agent learns why a permission was refused, and continues", refused},
	{"of several permissions that are asked for at once, each can be given", severalAllowed},
	{"of several permissions, refusing one refuses what is left, and the agent continues", severalRefused},
	{"a question of the agent takes free text, and is then closed", questionAnswered},
	{"a question of the agent can be declined", questionDeclined},
	{"a sub-agent is followed, told apart in lists, and denied what its session is denied", subAgent},
	{"a sub-agent's sub-agent is seen to ask, and the answer reaches it", grandchild},
	{"a provider's rate limit is told with its end, and the turn continues after it", rateLimit},
	{"while a provider that fails is asked again, the turn can be aborted", failingProvider},
	{"a key that the provider refuses fails the turn at once, and says so", refusedKey},
	{"a question of a ledger is answered as JSON, without tools, and leaves no session", askJSON},
	{"a question whose turn fails says how, and what it cost", askFails},
	{"a question that is given up ends the model's call, and leaves no session", askGivenUp},
	{"tools of an MCP server come to a session, answer, fail, are kept from it by a rule, and go again", mcpTools},
	{"an MCP server that refuses the token, or hangs, is reported", badMCP},
	{"a killed server leaves its sessions, and its prompt runs again; a stopped one ends its turns and tools", ended},
}

// Config says what the cases are tried on.
type Config struct {
	Binary  string   // of OpenCode, to be started
	Environ []string // what it is started with; settings of OpenCode and keys in it are left out
	// Attached is a server that somebody else runs on this machine, in the place of Binary. Cases that end servers are
	// left out. The caller closes it.
	Attached *opencode.Client
	Patience time.Duration // bounds each case, and the start of a server. Defaults to a minute.
}

// Result is what became of a case.
type Result struct {
	Name    string
	Took    time.Duration
	Err     error  // how it does not hold; nil: it does, or was not tried
	Skipped string // why it was not tried, such as that ctx had ended
}

// Suite has a server on which cases can be tried.
type Suite struct {
	cfg    Config
	home   string // where everything is that is made
	git    bool   // the projects are git repositories
	cast   scriptmodel.Cast
	model  *scriptmodel.Server
	server *opencode.Server // nil: attached
	dir    *opencode.Directory
}

// Open starts what is needed, in a temporary directory. The caller closes the suite.
func Open(ctx context.Context, cfg Config) (*Suite, error) {
	cfg.Patience = cmp.Or(cfg.Patience, defaultPatience)
	s := &Suite{cfg: cfg}
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Suite) open(ctx context.Context) (err error) {
	if s.home, err = os.MkdirTemp("", "manager-contract-"); err != nil {
		return err
	}
	home, err := filepath.EvalSymlinks(s.home) // as OpenCode reports it
	if err != nil {
		return err
	}
	s.home = home
	if s.model, err = scriptmodel.Start(s.cast.Reply); err != nil {
		return err
	}
	project, err := s.project(ctx, "project", false)
	if err != nil {
		return err
	}
	_, err = os.Stat(filepath.Join(project, ".git"))
	s.git = err == nil
	client := s.cfg.Attached
	if client == nil {
		if s.server, err = s.start(ctx, project); err != nil {
			return err
		}
		client = s.server.Client()
	}
	s.dir = client.In(project)
	all, err := s.dir.Catalogue(ctx) // else the first case would have to wait for what boots
	if err == nil && s.server == nil && !all.Has(agentModel) {
		err = fmt.Errorf("the server does not take the model %s from %s, so that nothing can be tried on it without cost: "+
			"its environment (OPENCODE_CONFIG_CONTENT, enabled_providers) goes before a project's configuration", agentModel,
			filepath.Join(project, "opencode.json"))
	}
	return err
}

// project makes a directory to work in: a git repository, where there is git. A server that was not started here has its
// configuration from there alone.
func (s *Suite) project(ctx context.Context, name string, snapshots bool) (dir string, err error) {
	dir = filepath.Join(s.home, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "opencode.json"), configOf(s.model.URL(), snapshots), 0o600); err != nil {
		return "", err
	}
	git := exec.CommandContext(ctx, "sh", "-c", "git init --quiet && git add --all &&"+
		" git -c user.name=contract -c user.email=contract@example.com commit --quiet --no-gpg-sign --message Start")
	git.Dir, git.Env = dir, scriptmodel.OpenCodeEnv(s.cfg.Environ, s.home, s.model.URL())
	_ = git.Run() // not every machine has it
	return dir, ctx.Err()
}

// start starts a server with the data of the one before it, if there was one.
func (s *Suite) start(ctx context.Context, project string) (*opencode.Server, error) {
	return opencode.Start(ctx, opencode.ServerConfig{
		Binary: s.cfg.Binary, Dir: project, StartTimeout: s.cfg.Patience, CallTimeout: s.cfg.Patience,
		StopGrace: s.cfg.Patience / 4, Env: scriptmodel.OpenCodeEnv(s.cfg.Environ, filepath.Join(s.home, "data"), s.model.URL()),
	})
}

// Close ends the server and removes what was made, on an attached server the sessions.
func (s *Suite) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTimeout)
	defer cancel()
	switch {
	case s.server != nil:
		s.server.Stop(ctx)
	case s.dir != nil:
		left, _ := s.dir.Sessions(ctx, opencode.SessionFilter{}) // the user can still delete them
		for _, session := range left {
			_ = s.dir.DeleteSession(ctx, session.ID)
		}
	}
	if s.model != nil {
		s.model.Close()
	}
	_ = os.RemoveAll(s.home) // in the system's directory for such things
}

// Caps are what the server can do.
func (s *Suite) Caps() opencode.Caps { return s.dir.Client().Caps() }

// Dir is the directory that most cases work in.
func (s *Suite) Dir() string { return s.dir.Path() }

// Run tries cases, some at the same time, and gives what became of each in their order. The last is tried when the others are
// over: it may end the server.
func (s *Suite) Run(ctx context.Context, cases []Case) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		results := make([]chan Result, len(cases))
		for i := range results {
			results[i] = make(chan Result, 1)
		}
		running.Go(func() {
			var others errgroup.Group
			others.SetLimit(atOnce)
			for i, c := range cases {
				if i == len(cases)-1 {
					_ = others.Wait() // none gives an error
				}
				others.Go(func() error {
					results[i] <- s.try(ctx, c, fmt.Sprintf("contract-%d.", i))
					return nil
				})
			}
			_ = others.Wait()
		})
		for _, result := range results {
			if !yield(<-result) {
				return
			}
		}
	}
}

func (s *Suite) try(ctx context.Context, c Case, mark string) (r Result) {
	began := time.Now()
	late := fmt.Errorf("it did not happen within %v", s.cfg.Patience)
	limited, cancel := context.WithTimeoutCause(ctx, s.cfg.Patience, late)
	defer cancel()
	at := &scene{suite: s, ctx: limited, mark: mark, dir: s.dir}
	r.Name = c.Name
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case failure:
			r.Err = errors.New(string(reason))
		case omission:
			r.Skipped = string(reason)
		default:
			panic(reason)
		}
		for _, end := range at.ends {
			end()
		}
		r.Took = time.Since(began)
	}()
	at.can(ctx.Err() == nil, fmt.Sprint(context.Cause(ctx)))
	c.check(at)
	return r
}
