// Command survey measures what a survey knows of a task: how many of the files that a commit changed it names, with the
// commit's message as the task, at the commit's parent. It takes the last N ordinary commits of a clone, and prints the mean
// over them beside that of a plain ranking. The clone is only read.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/taskledger"
)

func main() {
	verbose := flag.Bool("v", false, "print each commit, and what the survey does not name")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: survey [-v] CLONE N") }
	flag.Parse()
	n, err := strconv.Atoi(flag.Arg(1))
	if flag.NArg() != 2 || err != nil || n < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = measure(ctx, os.Stdout, flag.Arg(0), n, *verbose)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "survey:", err)
		os.Exit(1)
	}
}

// task is an ordinary commit.
type task struct {
	id, parent, text string
	changed          []string // files of the parent that it changed or removed, lock files and changelogs aside
}

const maxChanged = 15 // files that an ordinary commit changes, new ones included

func measure(ctx context.Context, out io.Writer, clone string, n int, verbose bool) error {
	dir, err := os.MkdirTemp("", "manager-survey-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if clone, err = filepath.Abs(clone); err != nil {
		return err
	}
	tree := repo(filepath.Join(dir, "tree"))
	if _, err := repo(dir).git(ctx, "clone", "-q", "--shared", "--no-checkout", clone, string(tree)); err != nil {
		return err
	}
	tasks, err := tree.tasks(ctx, n)
	if err != nil {
		return err
	}
	if len(tasks) == 0 {
		return errors.New("there are no ordinary commits")
	}
	var named, plain float64
	var times []time.Duration
	at := ""
	for _, t := range tasks {
		if err := tree.checkOut(ctx, at, t.parent); err != nil {
			return err
		}
		at = t.parent
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, taskledger.SurveyTime)
		survey := taskledger.NewSurvey(limited, string(tree), t.text, slog.New(slog.DiscardHandler))
		cancel()
		times = append(times, time.Since(began))
		ranked, err := tree.plain(ctx, t.text)
		if err != nil {
			return err
		}
		now := share(t.changed, survey.Related)
		named, plain = named+now, plain+share(t.changed, ranked)
		if verbose {
			missed := slices.DeleteFunc(slices.Clone(t.changed), func(f string) bool { return slices.Contains(survey.Related, f) })
			fmt.Fprintf(out, "%.2f %s %s\n", now, t.id[:10], text.Clip(t.text, 80))
			for _, f := range missed {
				fmt.Fprintf(out, "     %s\n", f)
			}
		}
	}
	files, err := tree.git(ctx, "ls-files")
	if err != nil {
		return err
	}
	slices.Sort(times)
	count := float64(len(tasks))
	fmt.Fprintf(out, "%s at %s, %d files, %d commits: the survey names %.2f of the changed files, the plain ranking %.2f; median %s, longest %s\n",
		filepath.Base(clone), tasks[0].id[:10], strings.Count(files, "\n"), len(tasks), named/count, plain/count,
		times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
	return nil
}

func share(of, found []string) float64 {
	n := 0
	for _, name := range of {
		if slices.Contains(found, name) {
			n++
		}
	}
	return float64(n) / float64(len(of))
}

// repo is a clone of the clone.
type repo string

func (r repo) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = string(r)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("git %s: %w: %s", args[0], err, exit.Stderr)
	}
	return string(out), err
}

// checkOut makes files and HEAD those of a commit; from is what they were before, if anything. Objects that the clone lacks
// are left out.
func (r repo) checkOut(ctx context.Context, from, to string) error {
	changed := ""
	var err error
	if from != "" {
		changed, err = r.git(ctx, "diff-tree", "-r", "-z", "--no-renames", "--diff-filter=AMT", "--name-only", from, to)
	}
	for _, args := range [][]string{{"update-ref", "--no-deref", "HEAD", to}, {"read-tree", "--reset", to}, {"clean", "-fdq"}} {
		if err == nil {
			_, err = r.git(ctx, args...)
		}
	}
	if err != nil {
		return err
	}
	out := exec.CommandContext(ctx, "git", "checkout-index", "--force", "-u", "--quiet", "-z", "--stdin")
	if from == "" {
		out.Args = []string{"git", "checkout-index", "--force", "-u", "--quiet", "--all"}
	}
	out.Dir, out.Stdin = string(r), strings.NewReader(changed)
	_ = out.Run() // it fails if an object is missing
	return nil
}

var (
	extraordinary = text.Regexp(`(?i)^(release|version packages|bump|prepare .*release|v?\d+\.\d+)|\brelease v?\d|^(build|chore|fix)\((deps|deps-dev|release)\)` +
		`|\bversion packages\b|\b(update|upgrade|bump) (dependenc|[\w@/.-]+ (from|to) )|^revert\b`)
	aside = text.Regexp(`(?i)(^|/)(change-?log|changes|history|release-?notes)[^/]*$|\.(lock|lockb|sum)$|(^|/)(package-lock\.json|pnpm-lock\.yaml|\.changeset/.*)$`)
)

// tasks returns the last ordinary commits: no merges, releases, bumps of dependencies or reverts, and not more than
// [maxChanged] files.
func (r repo) tasks(ctx context.Context, n int) (tasks []task, err error) {
	out, err := r.git(ctx, "log", "--no-merges", "--format=%H%x00%P%x00%B%x01")
	if err != nil {
		return nil, err
	}
	for commit := range strings.SplitSeq(out, "\x01") {
		fields := strings.Split(strings.TrimSpace(commit), "\x00")
		if len(tasks) == n || len(fields) != 3 {
			break
		}
		t := task{id: fields[0], parent: fields[1], text: strings.TrimSpace(fields[2])}
		if t.parent == "" || extraordinary().MatchString(t.text) {
			continue
		}
		changes, err := r.git(ctx, "diff-tree", "-r", "-z", "--no-renames", "--name-status", t.parent, t.id)
		if err != nil {
			return nil, err
		}
		all := strings.Split(strings.TrimSuffix(changes, "\x00"), "\x00")
		for i := 0; i+1 < len(all); i += 2 {
			if all[i] != "A" && !aside().MatchString(all[i+1]) {
				t.changed = append(t.changed, all[i+1])
			}
		}
		if len(all)/2 <= maxChanged && len(t.changed) > 0 {
			tasks = append(tasks, t)
		}
	}
	return tasks, nil
}

// plain ranks files by the words of a text: how often `git grep -c` finds each, weighed by how rare it is, and whether the
// name of the file has it.
func (r repo) plain(ctx context.Context, task string) (best []string, err error) {
	const most, ofName = 30, 5
	list, err := r.git(ctx, "ls-files", "-z")
	if err != nil {
		return nil, err
	}
	files := strings.Split(strings.TrimSuffix(list, "\x00"), "\x00")
	scores := map[string]float64{}
	var seen []string
	for _, word := range plainWord().FindAllString(strings.ToLower(task), -1) {
		if slices.Contains(seen, word) || len(seen) == 60 {
			continue
		}
		seen = append(seen, word)
		out, _ := r.git(ctx, "grep", "-c", "-z", "-I", "-i", "-F", "-e", word) // exit status 1: none has it
		lines := strings.Split(strings.TrimSpace(out), "\n")
		rare := math.Log(float64(len(files)+1) / float64(len(lines)+1))
		for _, line := range lines {
			if name, count, ok := strings.Cut(line, "\x00"); ok {
				n, _ := strconv.Atoi(count)
				scores[name] += rare * (1 + math.Log(float64(n)))
			}
		}
		for _, name := range files {
			if strings.Contains(strings.ToLower(name), word) {
				scores[name] += rare * ofName
			}
		}
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(scores[b], scores[a]) })
	return files[:min(most, len(files))], nil
}

var plainWord = text.Regexp(`[a-z0-9_]{4,}`)
