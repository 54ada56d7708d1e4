package cli

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

//go:embed demo
var demoFiles embed.FS

const demoTask = "Add a greeting and a farewell to the greeter, each in a file of its own," +
	" and a command that uses both. Show in EXAMPLE.md what it prints."

func (a *app) newDemoCmd() *cobra.Command {
	var remove bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run a demo offline, with a scripted model",
		Long: `Makes a small git repository, plans a task of three sub-tasks in it, and runs them on the real OpenCode: real
sessions, real tools, real files, real gates. Each sub-task works in a copy of its own; results are integrated, tested
together, and then landed. What the request asks for and nobody did is added. Only the model is scripted, so no key and
no network is needed. The repository stays, to look around in; the end says where.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runDemo(cmd.Context(), remove) },
	}
	cmd.Flags().BoolVar(&remove, "rm", false, "remove the sample repository in the end")
	cmd.Flags().Bool("keep", true, "keep it, as without --rm")
	_ = cmd.Flags().MarkHidden("keep") // there is one
	return cmd
}

func (a *app) runDemo(ctx context.Context, remove bool) (err error) {
	data, _ := demoFiles.ReadFile("demo/script.yaml") // embedded
	script, err := scriptmodel.ParseScript(data)
	if err != nil {
		return err
	}
	model, err := scriptmodel.Start(script.Reply)
	if err != nil {
		return err
	}
	defer model.Close()
	root, err := os.MkdirTemp("", "manager-demo-")
	if err != nil {
		return err
	}
	d := &demo{app: a, project: filepath.Join(root, "greeter")}
	defer func() {
		if remove {
			err = errors.Join(err, os.RemoveAll(root))
			return
		}
		fmt.Fprintf(a.Stdout, "\nThe repository stays: cd %s\nLook around: manager show --why command, manager report, manager ui, git diff."+
			" Remove it: rm -r %s\n", d.project, root)
	}()
	home := filepath.Join(root, "home")
	files, _ := fs.Sub(demoFiles, "demo/project")
	if err := os.CopyFS(d.project, files); err != nil {
		return err
	}
	d.env = scriptmodel.OpenCodeEnv(a.Environ, home, model.URL())
	fmt.Fprintf(a.Stdout, `This demo runs the real OpenCode on a sample repository, %s.
The model is scripted: what it says is written down beforehand, and it costs nothing. All else is real:
the sessions, the files that the agent writes, the gates that manager runs.
`, d.project)
	commit := "git init --quiet && git add --all &&" +
		" git -c user.name=demo -c user.email=demo@example.com commit --quiet --no-gpg-sign --message Start"
	if err := d.shell(ctx, commit); err != nil {
		return fmt.Errorf("make the sample repository with git: %w", err)
	}
	for _, step := range []struct {
		ends int // exit code
		args []string
	}{
		{exitOK, []string{"plan", demoTask}},
		{exitWaiting, []string{"run", "--yes", "--isolate", "--blockers"}}, // one sub-task asks the user
		{exitOK, []string{"blockers", "list"}},
		{exitOK, []string{"blockers", "answer", "B1", "With Goodbye: it is a formal program."}},
		// Resolves a conflict, as both sub-tasks edit the same place of README.md; then the check of the request finds
		// that EXAMPLE.md is missing.
		{exitOK, []string{"resume"}},
		{exitOK, []string{"diff", "farewell"}},
		{exitOK, []string{"land", "--files"}}, // changes the repository for the first time
		{exitOK, []string{"report"}},
	} {
		if err := d.manager(ctx, step.ends, step.args...); err != nil {
			return err
		}
	}
	for _, command := range []string{"git status --short", "sh greeter.sh Ada"} {
		fmt.Fprintf(a.Stdout, "\n$ %s\n", command)
		if err := d.shell(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

type demo struct {
	app     *app
	project string
	env     []string
}

func (d *demo) manager(ctx context.Context, ends int, args ...string) error {
	line := "\n$ manager"
	for _, arg := range args {
		if strings.Contains(arg, " ") {
			arg = strconv.Quote(arg)
		}
		line += " " + arg
	}
	fmt.Fprintln(d.app.Stdout, line)
	args = append(args, "-C", d.project)
	if b := d.app.opts.OpenCode; b != "" {
		args = append(args, "--opencode", b)
	}
	if d.app.noColor {
		args = append(args, "--no-color")
	}
	cmd := d.command(ctx, d.app.Executable, args...)
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != ends {
		return fmt.Errorf("the demo's `manager %s` ended otherwise than it should: %w", args[0],
			cmp.Or(err, errors.New("exit status 0")))
	}
	return nil
}

func (d *demo) shell(ctx context.Context, command string) error {
	cmd := d.command(ctx, "sh", "-c", command)
	cmd.Dir = d.project
	return cmd.Run()
}

func (d *demo) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = d.env, unguarded(d.app.Stdout), unguarded(d.app.Stderr)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its own children
	return cmd
}
