package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// job is a sub-task: the command that its agent runs, the one that resolves a conflict, and its gate.
type job struct{ run, mend, gate string }

// Prefixes of the lines in a description that hold the commands.
const (
	runsLine  = "Run: "
	mendsLine = "If it does not fit: "
)

type agents struct {
	mu      sync.Mutex
	began   time.Time // time of the first prompt; reset to zero before a run
	mends   int       // turns about a conflict
	letters int       // bytes in the requests of these turns
}

func (w *world) reply(ctx context.Context, req scriptmodel.Request) scriptmodel.Reply {
	line := runsLine
	w.agents.mu.Lock()
	defer w.agents.mu.Unlock()
	if strings.Contains(req.LastUser(), "does not fit what others have done") {
		line = mendsLine
		w.agents.letters += len(req.Text())
	}
	_, command, found := strings.Cut(req.FirstUser(), line)
	if !found || req.Kind() != scriptmodel.KindAgent {
		return instantModel(ctx, req)
	}
	if w.agents.began.IsZero() {
		w.agents.began = time.Now()
	}
	if req.TurnsSinceUser() > 0 {
		return scriptmodel.Reply{Text: answer}
	}
	if line == mendsLine {
		w.agents.mends++
	}
	command, _, _ = strings.Cut(command, "\n")
	args := map[string]any{"command": command, "description": "Run it"}
	return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{Name: "bash", Args: args}}}
}

// jobs writes a plan file with independent sub-tasks.
func (w *world) jobs(name, head string, all ...job) (path string, err error) {
	var b strings.Builder
	fmt.Fprintf(&b, "task: Do all of it\nmodel: %s\n%ssub_tasks:\n", agentModel, head)
	for i, j := range all {
		fmt.Fprintf(&b, "  - id: j%d\n    subject: Do part %d\n    description: |\n      %s%s\n      %s%s\n", i, i, runsLine, j.run, mendsLine, j.mend)
		if j.gate != "" {
			fmt.Fprintf(&b, "    gates: [%q]\n", j.gate)
		}
	}
	path = filepath.Join(w.root, name+".yaml")
	return path, os.WriteFile(path, []byte(b.String()), 0o600)
}

// measureIsolation compares runs in slots with runs in place and in a `git worktree`, on one warm server.
func measureIsolation(ctx context.Context, w *world) (all []comparison, err error) {
	dir, err := w.project(ctx, "isolation", 40)
	if err != nil {
		return nil, err
	}
	warm, err := w.startServer(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer w.leave(warm)
	m := isolation{w, warm.URL}
	for _, measure := range []func(context.Context) ([]comparison, error){m.firstPrompts, m.fanOuts, m.planted} {
		lines, err := measure(ctx)
		if all = append(all, lines...); err != nil {
			return all, err
		}
	}
	return all, nil
}

type isolation struct {
	*world
	server string
}

func (m isolation) manage(ctx context.Context, dir, plan string, args ...string) error {
	return together([]*process{m.managerRun(ctx, dir, plan, append(args, "--attach", m.server)...)})
}

// drops returns a contender that runs a plan in slots and drops the results, which is not measured. It makes its slots anew, unless
// they are warm.
func (m isolation) drops(dir, plan string, warm bool, measured func(func() error) (float64, error)) (c contender, err error) {
	config := filepath.Join(m.root, fmt.Sprintf("warm-%t.yaml", warm))
	content := "slots: {pool: 0}\n"
	if warm {
		content = "slots: {pool: 4}\n"
	}
	return contender{"in a slot", func(ctx context.Context) (float64, error) {
		result, err := measured(func() error { return m.manage(ctx, dir, plan, "--isolate", "--config", config) })
		return result, errors.Join(err, m.run(ctx, dir, m.manager, "land", "--drop", "--config", config))
	}}, os.WriteFile(config, []byte(content), 0o600)
}

// firstPrompts measures the time from the start of a run to the first prompt, and the disk space of a project's copy.
func (m isolation) firstPrompts(ctx context.Context) (all []comparison, err error) {
	untilPrompt := func(do func() error) (float64, error) {
		m.agents.mu.Lock()
		m.agents.began = time.Time{}
		m.agents.mu.Unlock()
		began := time.Now()
		err := do()
		return m.agents.began.Sub(began).Seconds(), err
	}
	plan, err := m.jobs("one", "", job{run: "true"})
	for _, files := range []int{m.size(1_000, 20), 10_000} {
		if err != nil || m.once && files == 10_000 {
			return all, err
		}
		dir, err := m.project(ctx, fmt.Sprint("slots", files), files)
		if err != nil {
			return all, err
		}
		var slots, trees []float64
		tree := filepath.Join(m.root, fmt.Sprint("tree", files))
		cold, err := m.drops(dir, plan, false, func(do func() error) (float64, error) {
			result, err := untilPrompt(do)
			size, sizeErr := m.slotsOnDisk(dir)
			slots = append(slots, size)
			return result, errors.Join(err, sizeErr)
		})
		if err != nil {
			return all, err
		}
		results, err := m.race(ctx, 5, cold, contender{"in place", func(ctx context.Context) (float64, error) {
			return untilPrompt(func() error { return m.manage(ctx, dir, plan, "--in-place") })
		}}, contender{"in a worktree", func(ctx context.Context) (float64, error) {
			result, err := untilPrompt(func() error {
				err := m.run(ctx, dir, "git", "worktree", "add", "--quiet", "--detach", tree)
				return errors.Join(err, m.manage(ctx, tree, plan, "--in-place"))
			})
			size, sizeErr := onDiskSize(tree)
			trees = append(trees, size)
			return result, errors.Join(err, sizeErr, m.run(ctx, dir, "git", "worktree", "remove", "--force", tree))
		}})
		if err != nil {
			return all, err
		}
		again, err := m.warmPrompts(ctx, plan, files, untilPrompt)
		if err != nil {
			return all, err
		}
		name := fmt.Sprintf("first prompt, %d files", files)
		all = append(all,
			comparison{name, side{"run --isolate", results[0]}, side{"in place", results[1]}, seconds, 0},
			comparison{name, side{"run --isolate", results[0]}, side{"git worktree add, in place", results[2]}, seconds, 1},
			fixed(name+", warm", "run --isolate", again, 0.5, seconds),
			comparison{fmt.Sprintf("disk, %d files", files), side{"slot", slots}, side{"worktree", trees}, megabytes, 0})
	}
	return all, nil
}

// warmPrompts measures runs that begin in a slot of an earlier one, whose files have changed since.
func (m isolation) warmPrompts(ctx context.Context, plan string, files int, untilPrompt func(func() error) (float64, error)) ([]float64, error) {
	dir, err := m.project(ctx, fmt.Sprint("warm", files), files)
	if err != nil {
		return nil, err
	}
	edits := 0
	warm, err := m.drops(dir, plan, true, func(do func() error) (float64, error) {
		edits++
		err := os.WriteFile(filepath.Join(dir, "part0", "file0.txt"), fmt.Appendf(nil, "edit %d\n", edits), 0o600)
		result, promptErr := untilPrompt(do)
		return result, errors.Join(err, promptErr)
	})
	if err == nil {
		_, err = m.race(ctx, 1, warm) // it makes the slot
	}
	if err != nil {
		return nil, err
	}
	results, err := m.race(ctx, 5, warm)
	if err != nil {
		return nil, err
	}
	return results[0], nil
}

// slotsOnDisk returns the bytes on disk of a project's slots.
func (m isolation) slotsOnDisk(dir string) (float64, error) {
	found, err := filepath.Glob(filepath.Join(m.root, "home", "cache", "manager", filepath.Base(dir)+"-*"))
	if err != nil || len(found) != 1 {
		return 0, fmt.Errorf("slots of %s: %q, %w", dir, found, err)
	}
	return onDiskSize(found[0])
}

// onDiskSize returns the bytes on disk of the files in a directory, without manager's own state.
func onDiskSize(dir string) (bytes float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".manager" {
			return fs.SkipDir
		}
		info, err := d.Info()
		if s, ok := info.Sys().(*syscall.Stat_t); ok && err == nil {
			bytes += float64(s.Blocks) * 512
		}
		return err
	})
	return bytes, err
}

// fanOuts measures sub-tasks whose agents work for 4 s and whose gate takes as long as a test suite may: in slots at
// once, against in place, at once and one by one.
func (m isolation) fanOuts(ctx context.Context) (all []comparison, err error) {
	alone, err := m.wide(1)
	if err != nil {
		return nil, err
	}
	for _, gate := range []int{0, 2, 10} {
		if m.once && gate > 0 {
			break
		}
		n := m.size(4, 1)
		name := fmt.Sprintf("%d at once, gate of %d s", n, gate)
		dir, err := m.project(ctx, fmt.Sprint("fan", gate), 40)
		if err != nil {
			return all, err
		}
		var jobs []job
		for i := range n {
			jobs = append(jobs, job{run: fmt.Sprintf("sleep %d; echo %d > new%d.txt", m.size(4, 0), i, i), gate: fmt.Sprintf("sleep %d", gate)})
		}
		plan, err := m.jobs(fmt.Sprint("fan", gate), "", jobs...)
		if err != nil {
			return all, err
		}
		inPlace := func(args ...string) contender {
			return timing("in place", func(ctx context.Context) error {
				return m.manage(ctx, dir, plan, append(args, "--in-place")...)
			})
		}
		isolated, err := m.drops(dir, plan, false, timed)
		if err != nil {
			return all, err
		}
		results, err := m.race(ctx, 1, isolated, inPlace(), inPlace("--config", alone))
		if err != nil {
			return all, err
		}
		limits := map[int][2]float64{2: {1.4, 0}, 10: {2.2, 0.6}}[gate]
		all = append(all,
			comparison{name, side{"run --isolate", results[0]}, side{"in place, at once", results[1]}, seconds, limits[0]},
			comparison{name, side{"run --isolate", results[0]}, side{"in place, one by one", results[2]}, seconds, limits[1]})
	}
	return all, nil
}

// planting is a kind of repository in which the results of two jobs conflict.
type planting struct {
	name, head string
	files      map[string]string
	jobs       [2]job
}

func plantings() []planting {
	both := "sed -i '/^[<=>]\\{7\\}/d' list.txt"
	uses := "! test -f caller.txt || grep -q \"$(cat api.txt)\" caller.txt"
	adapts := "echo \"uses $(cat api.txt)\" > caller.txt"
	generated := func(name, file string) planting {
		command := "cat ./*.dep > " + filepath.Base(file)
		if dir := filepath.Dir(file); dir != "." {
			command = "cat ../*.dep > " + filepath.Base(file)
		}
		adds := func(dep string) job {
			return job{
				run:  fmt.Sprintf("echo %s > %s.dep; echo %s >> %s", dep, dep, dep, file),
				gate: fmt.Sprintf("grep -q %s %s && test $(wc -l < %s) = $(cat ./*.dep | wc -l)", dep, file, file),
			}
		}
		return planting{name, fmt.Sprintf("generated: {%s: %q}\n", file, command), map[string]string{file: ""}, [2]job{adds("one"), adds("two")}}
	}
	return []planting{
		{"text conflicts", "", map[string]string{"list.txt": ""}, [2]job{
			{"echo one >> list.txt", both, "grep -q one list.txt"}, {"echo two >> list.txt", both, "grep -q two list.txt"},
		}},
		{"a rename and a caller", "", map[string]string{"api.txt": "v1"}, [2]job{{"echo v2 > api.txt", adapts, uses}, {adapts, adapts, uses}}},
		generated("lock files", "deps.lock"),
		generated("generated files", "gen/deps.txt"),
	}
}

// planted runs two sub-tasks in slots whose results conflict, lands them, and runs all gates on the result. The
// reference is the same work in two worktrees, merged with git.
func (m isolation) planted(ctx context.Context) (all []comparison, err error) {
	n := m.size(8, 1)
	for kind, p := range plantings() {
		if m.once && kind%2 == 1 {
			continue
		}
		plan, err := m.jobs(fmt.Sprint("planted", kind), p.head, p.jobs[:]...)
		if err != nil {
			return all, err
		}
		m.agents.mends, m.agents.letters = 0, 0
		landed, merged := 0.0, 0.0
		for i := range n {
			dir, err := m.project(ctx, fmt.Sprintf("planted%d-%d", kind, i), 10+i)
			if err != nil {
				return all, err
			}
			for file, content := range p.files {
				path := filepath.Join(dir, file)
				err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600))
			}
			const commit = "git add --all && git commit --quiet --message "
			green := fmt.Sprintf("(%s) && (%s)", p.jobs[0].gate, p.jobs[1].gate)
			if err := errors.Join(err, m.run(ctx, dir, "sh", "-c", commit+"Plant")); err != nil {
				return all, err
			}
			for _, j := range p.jobs {
				err = errors.Join(err, m.run(ctx, dir, "sh", "-c",
					"git worktree add --quiet --detach tree && cd tree && { "+j.run+"; } && "+commit+"Work && cd .. && "+
						"git tag w$(git tag | wc -l) $(git -C tree rev-parse HEAD) && git worktree remove --force tree"))
			}
			if err != nil {
				return all, err
			}
			if m.run(ctx, dir, "sh", "-c", "git checkout --quiet -b merged && git merge --quiet w0 && "+
				"git merge --quiet --no-edit w1 && "+green) == nil {
				merged++
			}
			err = errors.Join(m.run(ctx, dir, "git", "checkout", "--quiet", "--force", "main"),
				m.manage(ctx, dir, plan, "--isolate"), m.run(ctx, dir, m.manager, "land", "--files"), m.run(ctx, dir, "sh", "-c", green))
			if err != nil {
				return all, fmt.Errorf("%s, repository %d: %w", p.name, i, err)
			}
			landed++
		}
		tokens := 0
		if m.agents.mends > 0 {
			tokens = m.agents.letters / 4 / m.agents.mends // as the scripted model counts
		}
		all = append(all, comparison{
			fmt.Sprintf("%d repositories: %s; %d conflicts asked the model, %d tokens each", n, p.name, m.agents.mends, tokens),
			side{"landed and green", []float64{landed}}, side{"worktrees, merged", []float64{merged}},
			func(f float64) string { return fmt.Sprint(f) }, 0,
		})
	}
	return all, nil
}
