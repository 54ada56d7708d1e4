// Command night lets eight hours of an unattended run go by in about six minutes: the real manager and the real OpenCode, with
// two scripted providers that run out, lie, refuse a key and come back, a question, and a crash. See docs/simulation.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

func main() {
	manager := flag.String("manager", "bin/manager", "`path` of the manager")
	opencode := flag.String("opencode", "tools/node_modules/.bin/opencode", "`path` of OpenCode")
	keep := flag.Bool("keep", false, "keep the project, to look at it with manager")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *manager, *opencode, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "night:", err)
		os.Exit(1)
	}
}

// world is the project of the night, and the environment of all that works in it.
type world struct {
	night           *night
	binary, project string // manager, and where it works
	env             []string
	startAt         time.Time     // when the night is to begin
	ended           time.Duration // how long it was
	codes           []string      // exit codes that are not as documented
	failed          int           // checks
}

func run(ctx context.Context, manager, opencode string, keep bool) error {
	for _, path := range []*string{&manager, &opencode} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		if _, err := os.Stat(abs); err != nil {
			return fmt.Errorf("%w: run make tools build first", err)
		}
		*path = abs
	}
	root, err := os.MkdirTemp("", "manager-night-")
	if err != nil {
		return err
	}
	if root, err = filepath.EvalSymlinks(root); err != nil {
		return err
	}
	if keep {
		fmt.Printf("Kept: %s\n", root)
	} else {
		defer func() { _ = os.RemoveAll(root) }() // what remains is in the system's temporary directory
	}
	n := newNight(func(at time.Duration, what string) { fmt.Printf("%s  %s\n", clock(at), what) })
	model, err := scriptmodel.Start(n.reply)
	if err != nil {
		return err
	}
	defer model.Close()
	w := &world{night: n, binary: manager, project: filepath.Join(root, "shop")}
	if err := w.prepare(root, opencode, model.URL()); err != nil {
		return err
	}
	defer w.manager(context.WithoutCancel(ctx), 0, "serve", "--stop") // if it was broken off
	if err := w.pass(ctx); err != nil {
		return err
	}
	return w.morning(ctx)
}

// clock formats a time of the night.
func clock(at time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(at.Hours()), int(at.Minutes())%60)
}

func (w *world) prepare(root, opencode, url string) error {
	config := scriptmodel.Config(url)
	models := map[string]any{}
	for _, name := range []string{"large", "small", "judge"} {
		models[name] = map[string]any{
			"name": name, "tool_call": true, "cost": map[string]any{"input": 1, "output": 2},
			"limit": map[string]any{"context": 200_000, "output": 8_000},
		}
	}
	providers := map[string]any{}
	for _, name := range []string{"north", "south"} {
		providers[name] = map[string]any{
			"name": name, "npm": "@ai-sdk/openai-compatible", "models": models,
			"options": map[string]any{"baseURL": url, "apiKey": name},
		}
	}
	config["provider"], config["enabled_providers"] = providers, []string{"north", "south"}
	config["model"], config["small_model"] = "north/large", "north/small"
	said, err := json.Marshal(config)
	if err != nil {
		return err
	}
	w.env = append(scriptmodel.OpenCodeEnv(os.Environ(), filepath.Join(root, "home"), url),
		"OPENCODE_CONFIG_CONTENT="+string(said), "MANAGER_OPENCODE="+opencode, "NORTH_KEY=north", "NO_COLOR=1",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Night", "GIT_AUTHOR_EMAIL=night@example.com",
		"GIT_COMMITTER_NAME=Night", "GIT_COMMITTER_EMAIL=night@example.com",
	)
	for name, content := range map[string]string{
		"README.md": "# Shop\n", "plan.yaml": planFile(), ".manager/config.yaml": w.config(url),
	} {
		path := filepath.Join(w.project, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			return err
		}
	}
	git := exec.Command("sh", "-c", "git init -q && git add README.md plan.yaml && git commit -q -m Start")
	git.Dir, git.Env = w.project, w.env
	if out, err := git.CombinedOutput(); err != nil {
		return fmt.Errorf("make the project: %w: %s", err, out)
	}
	return nil
}

// config is the night's configuration. The ledgers' first model is asked directly, the second one through OpenCode.
func (w *world) config(url string) string {
	fmt.Printf("An hour of the night takes %s. The configuration's times are as much shorter, and what providers name; limits of\n"+
		"manager that are not configured, such as the minute for which it waits in a call of a ledger, are not.\n", short(time.Hour))
	var b strings.Builder
	fmt.Fprintf(&b, `ledger_model: [north/judge, south/judge]
endpoints: [{name: north, base_url: "%s", key_env: NORTH_KEY}]
notify: {command: 'echo "$MANAGER_EVENT: $MANAGER_TITLE" >> .manager/told'}
prices: [{model: north/judge, input: 1, output: 2}]
limits:
`, url)
	for _, l := range []struct {
		key   string
		usual time.Duration
	}{
		{"cool_base", 5 * time.Second}, {"cool_max", 5 * time.Minute}, {"wait_for_model", 10 * time.Minute}, {"reset_max", 24 * time.Hour},
	} {
		fmt.Fprintf(&b, "  %s: %s\n", l.key, short(l.usual))
		fmt.Printf("limits.%s: %s for %s\n", l.key, short(l.usual), l.usual)
	}
	fmt.Fprintf(&b, "  models:\n")
	for _, model := range models() {
		fmt.Fprintf(&b, "    - {pattern: %s, limit: %d}\n", model, limits[model])
	}
	fmt.Fprintf(&b, "rules: {provider_wait: %s}\n", short(time.Minute))
	fmt.Printf("rules.provider_wait: %s for %s\n", short(time.Minute), time.Minute)
	return b.String()
}

// manager runs a command, and returns what it printed; the exit code has to be this one.
func (w *world) manager(ctx context.Context, code int, args ...string) string {
	said, _ := w.both(ctx, code, args...)
	return said
}

// show prints a command of manager and what it says.
func (w *world) show(ctx context.Context, args ...string) string {
	said, noted := w.both(ctx, 0, args...)
	fmt.Printf("\n$ manager %s\n%s%s", strings.Join(args, " "), noted, said)
	return said
}

func (w *world) both(ctx context.Context, code int, args ...string) (said, noted string) {
	cmd := exec.CommandContext(ctx, w.binary, args...)
	cmd.Dir, cmd.Env = w.project, w.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != code {
		w.codes = append(w.codes, fmt.Sprintf("manager %s: %v, not %d: %s", args[0], err, code, stderr.String()))
	}
	return stdout.String(), stderr.String()
}
