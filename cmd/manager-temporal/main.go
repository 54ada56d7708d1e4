// Command manager-temporal is manager with three commands for boulders on Temporal: worker, gateway and limits.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/cli"
	"github.com/bouldermgr/manager/executor"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/temporal/flow"
	"github.com/bouldermgr/manager/temporal/gateway"
	"github.com/bouldermgr/manager/temporal/gitremote"
	"github.com/bouldermgr/manager/temporal/limiter"
	"github.com/bouldermgr/manager/temporal/worker"
)

func main() {
	program, _ := os.Executable() // needed only to start background processes, which then fail with a message
	os.Exit(cli.Main(cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Environ(), Signals: cli.Signals(), Executable: program, Extend: commands,
	}))
}

type connect = func(context.Context) (*project.Project, error)

func commands(open connect) []*cobra.Command {
	return []*cobra.Command{workerCmd(open), gatewayCmd(open), limitsCmd()}
}

// server holds the flags for reaching the Temporal server.
type server struct{ address, namespace, queue, remote string }

func (s *server) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.address, "temporal-address", "", "`HOST:PORT` of the Temporal server (else $TEMPORAL_ADDRESS, localhost:7233)")
	f.StringVar(&s.namespace, "temporal-namespace", "", "`NAMESPACE` there (else $TEMPORAL_NAMESPACE, default)")
}

func (s *server) projectFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.queue, "temporal-queue", "", "task `QUEUE` of the project (else manager: and its directory, or the git remote's URL)")
	f.StringVar(&s.remote, "git-remote", "", "workers have clones of their own, and share results by this git `REMOTE`: origin, or a URL")
}

// check refuses an explicitly empty remote: probably a shell variable is unset.
func (s *server) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("git-remote") && s.remote == "" {
		return &project.UsageError{Err: errors.New("--git-remote is empty: name a remote, or leave it out")}
	}
	return nil
}

// connection is a project with a client of the server. remote is nil if all workers share one directory.
type connection struct {
	project *project.Project
	client  client.Client
	remote  *gitremote.Remote
	parts   orchestrator.Config
}

// connect opens the project and connects to the server. The caller closes the client.
func (s *server) connect(ctx context.Context, open connect) (c connection, err error) {
	if c.project, err = open(ctx); err != nil {
		return c, err
	}
	queue := c.project.Dir()
	slots := executor.Slots(c.project.Slots())
	if s.remote != "" {
		if queue, err = sharedName(ctx, c.project.Dir(), s.remote); err != nil {
			return c, err
		}
		c.remote = &gitremote.Remote{URL: s.remote, Clone: c.project.Slots().Slots}
		if _, err := c.remote.Boulders(ctx); err != nil {
			return c, fmt.Errorf("--git-remote %s: %w", s.remote, err)
		}
		slots = &gitremote.Slots{Slots: slots, Remote: c.remote}
	}
	s.queue = cmp.Or(s.queue, "manager:"+queue)
	if c.parts, err = c.project.Parts(slots); err == nil {
		c.client, err = s.dial(ctx, c.project.Logger())
	}
	return c, err
}

// sharedName names the project alike in all clones: by the remote's URL without a user, and the directory within.
func sharedName(ctx context.Context, dir, remote string) (name string, err error) {
	for _, args := range [][]string{{"ls-remote", "--get-url", "--", remote}, {"rev-parse", "--show-prefix"}} {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
		if err != nil {
			said := ""
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				said = text.Prefixed(": ", strings.TrimSpace(string(exit.Stderr)))
			}
			return "", fmt.Errorf("--git-remote: git %s in %s: %w%s", args[0], dir, err, said)
		}
		name = text.JoinedBy(" ", name, strings.TrimSpace(string(out)))
		if u, err := url.Parse(name); err == nil && u.User != nil {
			u.User = nil
			name = u.String()
		}
	}
	return name, nil
}

// sweep removes the clone's slots and refs of others' finished boulders. It logs errors: the next sweep tries again.
func (c connection) sweep(ctx context.Context) {
	if c.remote == nil {
		return
	}
	own, err := c.project.Read(ctx)
	if err == nil {
		defer own.Close()
		err = c.remote.Sweep(ctx, func(id string) bool {
			_, err := own.Get(ctx, id)
			return !errors.Is(err, boulder.ErrNotFound)
		})
	}
	if err != nil {
		c.project.Logger().Warn("what is over was not removed", "error", err)
	}
}

// works returns nil if OpenCode answers, if need be after a restart. It retries for 5 s: a death is noticed late.
func (c connection) works(ctx context.Context) error {
	for begun := time.Now(); ; {
		oc, err := c.project.Client(ctx)
		if err == nil {
			if _, err = oc.In(c.project.Dir()).Agents(ctx); err != nil && ctx.Err() == nil && time.Since(begun) < 5*time.Second {
				<-time.After(time.Second)
				continue
			}
		}
		return err
	}
}

// dial connects to the server. TEMPORAL_API_KEY, TEMPORAL_TLS_* and config files work as for Temporal's own tools.
func (s *server) dial(ctx context.Context, l *slog.Logger) (client.Client, error) {
	o, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, err
	}
	o.HostPort, o.Namespace = cmp.Or(s.address, o.HostPort), cmp.Or(s.namespace, o.Namespace)
	if _, _, err := net.SplitHostPort(o.HostPort); o.HostPort != "" && !strings.Contains(o.HostPort, "://") && err != nil {
		return nil, &project.UsageError{Err: fmt.Errorf("the Temporal server's address has to be HOST:PORT: %w", err)}
	}
	o.Logger = log.NewStructuredLogger(l)
	o.ConnectionOptions.DialOptions = append(o.ConnectionOptions.DialOptions, worker.Reconnect)
	c, err := client.Dial(o)
	if err != nil {
		return nil, fmt.Errorf("no Temporal server at %s: start it, or name another with --temporal-address: %w",
			cmp.Or(o.HostPort, client.DefaultHostPort), err)
	}
	name := cmp.Or(o.Namespace, client.DefaultNamespace)
	if _, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name}); err != nil {
		c.Close()
		return nil, fmt.Errorf("namespace %q at the Temporal server: %w; name another with --temporal-namespace", name, err)
	}
	return c, nil
}

func workerCmd(open connect) *cobra.Command {
	var s server
	slots := 4
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Do the work of boulders that run on Temporal",
		Long: `Takes work of this project from a Temporal server: sessions, judging, planning, and the boulders themselves. Any number of
workers may run: in one directory, or with --git-remote in clones on several machines. Ctrl-C hands what is at work to another
worker.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if err := s.check(cmd); err != nil {
				return err
			}
			if slots < 1 {
				return &project.UsageError{Err: fmt.Errorf("--slots %d: it must be at least 1", slots)}
			}
			c, err := s.connect(ctx, open)
			if err != nil {
				return err
			}
			defer c.client.Close()
			if _, err := store.EnsureDir(c.project.Dir()); err != nil {
				return err
			}
			parts := worker.Parts{
				Planner: c.parts.Planner, Judge: c.parts.Judge, Runner: c.parts.Runner, Project: c.project.Dir(),
			}
			if c.remote != nil {
				host, _ := os.Hostname()
				parts.Host, parts.Publish = host+":"+c.project.Dir(), c.remote.Publish
				c.sweep(ctx)
			}
			if _, err := c.project.Client(ctx); err != nil { // a worker without OpenCode must not take work
				return err
			}
			working, end := context.WithCancelCause(ctx)
			defer end(nil)
			parts.Check = func(ctx context.Context) error {
				err := c.works(ctx)
				if err != nil && ctx.Err() == nil {
					end(fmt.Errorf("OpenCode stopped working here, so other workers get the work: %w", err))
				}
				return err
			}
			w := worker.New(c.client, s.queue, slots, parts)
			if err := w.Start(); err != nil {
				return err
			}
			cmd.PrintErrf("Working for %s (task queue %s).\n", c.project.Dir(), s.queue)
			for working.Err() == nil {
				select {
				case <-time.After(time.Hour):
					c.sweep(ctx)
				case <-working.Done():
				}
			}
			w.Stop()
			if ctx.Err() == nil {
				return context.Cause(working)
			}
			return fmt.Errorf("%w: what was at work goes to another worker", context.Cause(ctx))
		},
	}
	s.flags(cmd)
	s.projectFlags(cmd)
	cmd.Flags().IntVar(&slots, "slots", slots, "at most `N` pieces of work at the same time")
	return cmd
}

func gatewayCmd(open connect) *cobra.Command {
	var s server
	heartbeat := 30 * time.Second
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Hand the boulders of this project to Temporal",
		Long: `Holds the project's state as 'manager serve' does, runs what is handed over ('manager run --detach') on a Temporal server, and
copies the logs from there. All commands that look or steer work as with a server of this machine.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			if err := s.check(cmd); err != nil {
				return err
			}
			if heartbeat < 3*time.Second {
				return &project.UsageError{Err: fmt.Errorf("--heartbeat %s: it must be at least 3s", heartbeat)}
			}
			c, err := s.connect(ctx, open)
			if err != nil {
				return err
			}
			defer c.client.Close()
			st, err := c.project.Hold(ctx, true)
			if err != nil {
				return err
			}
			defer st.Release()
			cmd.PrintErrf("Handing boulders of %s to Temporal (task queue %s).\n", c.project.Dir(), s.queue)
			return st.ServeElsewhere(ctx, &gateway.Gateway{
				Client: c.client, Queue: s.queue, DB: st.DB, Complete: c.project.Complete, Remote: c.remote,
				Input: flow.Input{
					Checks:  true,
					Project: c.project.Dir(), Limits: *c.parts.Limits, Heartbeat: heartbeat, Diverted: c.project.Config().Blockers.Enabled,
					Diversion: c.parts.Diversion(boulder.Boulder{Settings: boulder.Settings{Diverted: true}}),
				},
			})
		},
	}
	s.flags(cmd)
	s.projectFlags(cmd)
	cmd.Flags().DurationVar(&heartbeat, "heartbeat", heartbeat, "give work to another worker after `TIME` without a sign of life")
	return cmd
}

func limitsCmd() *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "limits [MODEL=[N] …]",
		Short: "Show and set the limits of models over all boulders",
		Long: `Shows which models are in use, by how many sessions and calls of the ledgers at once, and who waits. MODEL=N sets a limit at
once, for all projects of the namespace; what is in use beyond it continues, and with 0 nothing starts. Until then, and again after
MODEL= without a number, that of the configuration holds, as the latest boulder that asked has it. default is the model that
OpenCode uses by itself, and is counted apart from what names it. It needs a running worker.`,
		Example: `  manager-temporal limits anthropic/claude-sonnet-4-5=5
  manager-temporal limits anthropic/claude-sonnet-4-5=`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			set := map[string]int{}
			for _, arg := range args {
				model, limit, assigned := strings.Cut(arg, "=")
				n, err := strconv.Atoi(limit)
				if limit == "" {
					n, err = limiter.Unset, nil
				}
				if err != nil || limit != "" && n < 0 || model == "" || !assigned {
					return &project.UsageError{Err: fmt.Errorf("%q is not MODEL=N, with N from 0, or MODEL=", arg)}
				}
				set[model] = n
			}
			c, err := s.dial(cmd.Context(), slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), gateway.AnswerTime)
			defer cancel()
			for model, n := range set {
				if _, err := limiter.SetCap(ctx, c, model, n); err != nil {
					return gateway.Explain(ctx, c, err)
				}
			}
			all, err := limiter.List(ctx, c)
			if err != nil {
				return gateway.Explain(ctx, c, err)
			}
			inJSON, _ := cmd.Flags().GetBool("json")
			return printLimits(cmd.OutOrStdout(), all, inJSON)
		},
	}
	s.flags(cmd)
	return cmd
}

func printLimits(w io.Writer, all []limiter.Status, inJSON bool) error {
	if inJSON {
		lines := json.NewEncoder(w)
		for _, s := range all {
			line := struct {
				Type string `json:"type"` // limit
				limiter.Status
			}{"limit", s}
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "No model was used or limited yet.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tLIMIT\tSET BY\tIN USE BY\tWAITING")
	for _, s := range all {
		limit, by := strconv.Itoa(s.Cap), "configuration"
		switch {
		case s.Set:
			by = "limits"
		case s.Asked == 0: // no boulder has asked
			limit = "–"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", s.Model, limit, by, named(s.Held), named(s.Waiting))
		switch {
		case s.Rebuilding:
			fmt.Fprintln(t, "\t\t\tis asking the boulders what they use")
		case len(s.Unasked) > 0:
			fmt.Fprintf(t, "\t\t\tnot counted, as they do not answer: %s\n", strings.Join(s.Unasked, ", "))
		}
	}
	return t.Flush()
}

// named returns the number of permits and the names of the first three.
func named(all []limiter.Permit) string {
	names := []string{strconv.Itoa(len(all))}
	for _, p := range all[:min(len(all), 3)] {
		what, _, _ := strings.Cut(p.ID, "#")
		names = append(names, p.Boulder+" "+what)
	}
	return text.JoinedBy(", ", append(names, text.If(len(all) > 3, "…"))...)
}
