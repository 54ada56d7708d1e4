// Package contract checks, on a real OpenCode server, what manager needs of it. Only the model is scripted. The cases
// use the public API of package opencode alone and do not depend on its version: what a server says that it cannot do
// is skipped.
//
// `manager doctor --contract` runs the cases on the user's OpenCode, the tests on the pinned one.
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

	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

const (
	defaultPatience = time.Minute
	atOnce          = 4 // concurrent cases on one server: they mostly wait
	tidyTimeout     = 15 * time.Second
)

// Case is a property of the server that manager relies on.
type Case struct {
	Name  string // the property in a sentence
	check func(*scene)
}

// Cases lists all cases in the order of the report, and the most valuable one first. It ends the server.
var Cases = []Case{
	{"a killed server leaves its sessions, and its prompt runs again; a stopped one ends its turns and tools", ended},
	{"the server tells its version, and refuses a wrong password", handshake},
	{"models, agents and the default model are listed", catalogue},
	{"a notice is shown in the terminal interface", toast},
	{"a session keeps its title, metadata, agent and rules, until it is deleted", storedSession},
	{"a session is archived and brought back", archivedSession},
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
}

// Config is the configuration of a [Suite].
type Config struct {
	Binary  string   // of OpenCode
	Environ []string // of Binary, without settings of OpenCode and keys, which are dropped
	// Attached is used instead of Binary: a server on this machine, which the suite neither ends nor closes.
	Attached *opencode.Client
	Patience time.Duration // timeout of each case, and of the start of a server. Defaults to a minute.
}

// Result is the outcome of a case.
type Result struct {
	Name    string
	Took    time.Duration
	Err     error  // how the case failed; nil if it passed or was skipped
	Skipped string // why the case was skipped, such as the end of ctx
}

// Suite runs cases on one server.
type Suite struct {
	cfg    Config
	home   string // temporary directory of all files
	git    bool   // projects are git repositories
	cast   scriptmodel.Cast
	model  *scriptmodel.Server
	server *opencode.Server // nil: attached
	dir    *opencode.Directory
}

// Open starts a suite in a temporary directory. The caller closes it.
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
	all, err := s.dir.Catalogue(ctx) // boots the directory before the first case
	if err == nil && s.server == nil && !all.Has(agentModel) {
		err = fmt.Errorf("the server does not take the model %s from %s, so that nothing can be tried on it without cost: "+
			"its environment (OPENCODE_CONFIG_CONTENT, enabled_providers) goes before a project's configuration", agentModel,
			filepath.Join(project, "opencode.json"))
	}
	return err
}

// project creates a project directory, as a git repository if git is installed. Its opencode.json is the only
// configuration that an attached server gets.
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
	_ = git.Run() // git may be missing
	return dir, ctx.Err()
}

// start starts a server with the data of the previous one, if any.
func (s *Suite) start(ctx context.Context, project string) (*opencode.Server, error) {
	env := scriptmodel.OpenCodeEnv(s.cfg.Environ, filepath.Join(s.home, "data"), s.model.URL())
	return opencode.Start(ctx, opencode.ServerConfig{
		Binary: s.cfg.Binary, Dir: project, StartTimeout: s.cfg.Patience, CallTimeout: s.cfg.Patience,
		StopGrace: s.cfg.Patience / 4, Env: append(env, "OPENCODE_CONFIG_CONTENT="+environmentConfig(s.model.URL())),
	})
}

// Close ends the server and removes all files; on an attached server it deletes the sessions.
func (s *Suite) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), tidyTimeout)
	defer cancel()
	switch {
	case s.server != nil:
		s.server.Stop(ctx)
	case s.dir != nil:
		left, _ := s.dir.Sessions(ctx, opencode.SessionFilter{}) // on an error they remain for the user to delete
		for _, session := range left {
			_ = s.dir.DeleteSession(ctx, session.ID)
		}
	}
	if s.model != nil {
		s.model.Close()
	}
	_ = os.RemoveAll(s.home) // the system cleans its temporary directory
}

// Caps returns the capabilities of the server.
func (s *Suite) Caps() opencode.Caps { return s.dir.Client().Caps() }

// Dir returns the directory that most cases work in.
func (s *Suite) Dir() string { return s.dir.Path() }

// Run runs cases concurrently and yields the results in order. The first case, which may end the server, runs alone
// before the others.
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
				others.Go(func() error {
					results[i] <- s.try(ctx, c, fmt.Sprintf("contract-%d.", i))
					return nil
				})
				if i == 0 {
					_ = others.Wait() // no case returns an error
				}
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
	at.skipUnless(ctx.Err() == nil, fmt.Sprint(context.Cause(ctx)))
	c.check(at)
	return r
}
