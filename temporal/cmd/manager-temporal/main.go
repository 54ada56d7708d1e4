// Command manager-temporal is manager with three more commands, by which boulders run on Temporal: worker, gateway and limits.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/cli"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/orchestrator"
	"github.com/bouldermgr/manager/project"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/temporal/flow"
	"github.com/bouldermgr/manager/temporal/gateway"
	"github.com/bouldermgr/manager/temporal/limiter"
	"github.com/bouldermgr/manager/temporal/worker"
)

func main() {
	program, _ := os.Executable() // without it nothing can be started in the background, and that says so
	os.Exit(cli.Main(cli.Env{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Environ: os.Environ(), Signals: cli.Signals(), Executable: program, Extend: commands,
	}))
}

type connect = func(context.Context) (*project.Project, error)

func commands(open connect) []*cobra.Command {
	return []*cobra.Command{workerCmd(open), gatewayCmd(open), limitsCmd()}
}

// server is how a command reaches the Temporal server.
type server struct{ address, namespace, queue string }

func (s *server) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.address, "temporal-address", "", "`HOST:PORT` of the Temporal server (else $TEMPORAL_ADDRESS, localhost:7233)")
	f.StringVar(&s.namespace, "temporal-namespace", "", "`NAMESPACE` there (else $TEMPORAL_NAMESPACE, default)")
}

func (s *server) queueFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.queue, "temporal-queue", "", "task `QUEUE` of the project (else manager: and its directory)")
}

// connect opens the project and reaches the server. The client is closed by the caller.
func (s *server) connect(ctx context.Context, open connect) (*project.Project, orchestrator.Config, client.Client, error) {
	p, err := open(ctx)
	if err != nil {
		return nil, orchestrator.Config{}, nil, err
	}
	c, err := s.dial(p.Logger())
	if err != nil {
		return nil, orchestrator.Config{}, nil, err
	}
	s.queue = cmp.Or(s.queue, gateway.Queue(p.Dir()))
	parts, err := p.Parts()
	if err != nil {
		c.Close()
	}
	return p, parts, c, err
}

// dial connects. TEMPORAL_API_KEY, TEMPORAL_TLS_* and the files of Temporal's own tools count as they do there.
func (s *server) dial(l *slog.Logger) (client.Client, error) {
	o, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, err
	}
	o.HostPort, o.Namespace = cmp.Or(s.address, o.HostPort), cmp.Or(s.namespace, o.Namespace)
	o.Logger = log.NewStructuredLogger(l)
	c, err := client.Dial(o)
	if err != nil {
		return nil, fmt.Errorf("no Temporal server at %s: start it, or name another with --temporal-address: %w",
			cmp.Or(o.HostPort, client.DefaultHostPort), err)
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
workers may run, in one directory: all see the same files. Ctrl-C hands what is at work to another worker.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			p, parts, c, err := s.connect(ctx, open)
			if err != nil {
				return err
			}
			defer c.Close()
			if _, err := store.EnsureDir(p.Dir()); err != nil {
				return err
			}
			w := worker.New(c, s.queue, slots, worker.Parts{
				Planner: parts.Planner, Judge: parts.Judge, Runner: parts.Runner, RaiseBlocker: parts.RaiseBlocker,
			})
			if err := w.Start(); err != nil {
				return err
			}
			cmd.PrintErrf("Working for %s (task queue %s).\n", p.Dir(), s.queue)
			<-ctx.Done()
			w.Stop()
			return context.Cause(ctx)
		},
	}
	s.flags(cmd)
	s.queueFlag(cmd)
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
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			p, parts, c, err := s.connect(ctx, open)
			if err != nil {
				return err
			}
			defer c.Close()
			st, err := p.Hold(ctx, true)
			if err != nil {
				return err
			}
			defer st.Release()
			cmd.PrintErrf("Handing boulders of %s to Temporal (task queue %s).\n", p.Dir(), s.queue)
			return st.ServeElsewhere(ctx, &gateway.Gateway{
				Client: c, Queue: s.queue, DB: st.DB, Complete: p.Complete,
				Input: flow.Input{
					Project: p.Dir(), Limits: *parts.Limits, Heartbeat: heartbeat, Diverted: p.Config().Blockers.Enabled,
					Diversion: parts.Diversion(boulder.Boulder{Settings: boulder.Settings{Diverted: true}}),
				},
			})
		},
	}
	s.flags(cmd)
	s.queueFlag(cmd)
	cmd.Flags().DurationVar(&heartbeat, "heartbeat", heartbeat, "give work to another worker after `TIME` without a sign of life")
	return cmd
}

func limitsCmd() *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "limits [MODEL=N …]",
		Short: "Show and set the limits of models over all boulders",
		Long: `Shows which models are in use, by how many sessions and calls of the ledgers at once, and who waits. MODEL=N sets a limit at
once, for all projects of the namespace; what is in use beyond it goes on. Until then that of the configuration holds, as the
latest boulder has it. It needs a running worker.`,
		Example: "  manager-temporal limits anthropic/claude-sonnet-4-5=5",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			set := map[string]int{}
			for _, arg := range args {
				model, limit, _ := strings.Cut(arg, "=")
				n, err := strconv.Atoi(limit)
				if err != nil || n < 0 || model == "" {
					return &project.UsageError{Err: fmt.Errorf("%q is not MODEL=N, with N from 0", arg)}
				}
				set[model] = n
			}
			c, err := s.dial(slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			defer c.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), gateway.AnswerTime)
			defer cancel()
			for model, n := range set {
				if _, err := limiter.SetCap(ctx, c, model, n); err != nil {
					return gateway.Explain(ctx, err)
				}
			}
			all, err := limiter.List(ctx, c)
			if err != nil {
				return gateway.Explain(ctx, err)
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
			if err := lines.Encode(s); err != nil {
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
	fmt.Fprintln(t, "MODEL\tLIMIT\tIN USE BY\tWAITING")
	for _, s := range all {
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", s.Model, s.Cap, named(s.Held), named(s.Waiting))
		switch {
		case s.Rebuilding:
			fmt.Fprintln(t, "\t\tis asking the boulders what they use")
		case len(s.Unasked) > 0:
			fmt.Fprintf(t, "\t\tnot counted, as they do not answer: %s\n", strings.Join(s.Unasked, ", "))
		}
	}
	return t.Flush()
}

// named is how many there are, and the first few.
func named(all []limiter.Permit) string {
	names := []string{strconv.Itoa(len(all))}
	for _, p := range all[:min(len(all), 3)] {
		what, _, _ := strings.Cut(p.ID, "#")
		names = append(names, p.Boulder+" "+what)
	}
	return text.JoinedBy(", ", append(names, text.If(len(all) > 3, "…"))...)
}
