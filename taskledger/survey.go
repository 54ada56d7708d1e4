package taskledger

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/internal/detect"
	"github.com/bouldermgr/manager/internal/secret"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/providers/ledger"
	"github.com/bouldermgr/manager/workspace"
)

// Survey is what can be known of a project without a model.
type Survey struct {
	Files    int      // how many there are
	Rules    string   // the file whose rules for agents it has, if any
	Commands int      // that are known to exist
	Related  []string // files that the task's words point at, best first; at most 30
	sections []section
}

type section struct {
	heading string
	lines   []string
	most    int // characters
}

const (
	maxSurvey     = 12_000
	maxWalked     = 50_000 // files that are found outside of git
	maxRead       = 64 << 10
	maxPast       = 1_000 // commits
	maxDirs       = 60    // lines of the tree
	recentCommits = 10
)

// SurveyTime is what the planner gives a survey for git and for reading; ranking follows.
const SurveyTime = 1500 * time.Millisecond

// NewSurvey looks at a project for a task. When ctx ends, it has what it found until then ([SurveyTime] is for an answer
// within two seconds). It asks no model and no network, and changes and runs nothing but git. It sees the files that git tracks or would track, or outside of git all but those of hidden directories
// and installed packages; it follows no link and opens regular files only. What it cannot find out is left out.
func NewSurvey(ctx context.Context, dir, task string, log *slog.Logger) *Survey {
	s := &Survey{}
	var files, uncommitted []string
	var past []workspace.PastCommit
	work, err := workspace.Open(ctx, dir)
	if err == nil {
		files, err = work.Files(ctx)
	}
	more := ""
	if err != nil || work.Reason() != "" {
		files, more = walk(ctx, dir)
	} else if past, err = work.History(ctx, maxPast); err == nil {
		uncommitted, err = work.Uncommitted(ctx)
	}
	if err != nil {
		log.InfoContext(ctx, "the survey of the project lacks what git did not say", "error", err)
	}
	files = reached(dir, files)
	s.Files = len(files)
	s.rules(dir, files)
	if root, err := os.OpenRoot(dir); err == nil { // no link leads out of it
		ci := having(files, func(name string) bool { ok, _ := path.Match(workflows, name); return ok || name == ".gitlab-ci.yml" })
		var lines []string
		for _, c := range commandsIn(root.FS(), dir, ci) {
			if c.Why == "CI" {
				lines = append(lines, "CI: "+c.Run)
			} else {
				lines = append(lines, c.Run+text.If(c.Why != "", " ("+c.Why+")"))
			}
		}
		s.Commands = len(lines)
		s.add("Commands that are known to exist", 1_500, lines...)
		root.Close()
	}
	s.add("Manifests", 700, shownNames(having(files, func(name string) bool { return slices.Contains(manifests, path.Base(name)) }))...)
	s.file("The beginning of", dir, 1_500, having(files, func(name string) bool {
		return strings.HasPrefix(strings.ToLower(name), "readme") && !strings.Contains(name, "/")
	}))
	s.add("Directories, and how many files are below each", 2_000, tree(files, more)...)
	s.add("Kinds of files, by number", 300, kinds(files))
	var unsearched int
	s.Related, unsearched = related(ctx, dir, task, files, past)
	found := shownNames(s.Related)
	if unsearched > 0 {
		found = append(found, fmt.Sprintf("… the contents of %d files were not searched: that would take too long", unsearched))
	}
	s.add("Files that the words of the task point at, likeliest first; there may be others", 2_200, found...)
	var subjects []string
	for _, commit := range past[:min(recentCommits, len(past))] {
		subjects = append(subjects, text.Short(commit.Subject, 100))
	}
	s.add("The last commits", 900, subjects...)
	s.add("Files that are not committed as they are", 600, shownNames(uncommitted)...)
	return s
}

// Headline says in one line what the survey has.
func (s *Survey) Headline() string {
	const most = 5
	line := text.JoinedBy(", ", text.Plural(s.Files, "file"), text.Prefixed("rules in ", text.Name(s.Rules)),
		text.If(s.Commands > 0, text.Plural(s.Commands, "command")))
	if n := len(s.Related); n > 0 {
		named := strings.Join(shownNames(s.Related[:min(n, most)]), ", ")
		line += "; the task points at " + named + text.If(n > most, fmt.Sprintf(" and %d more", n-most))
	}
	return line
}

func (s *Survey) add(heading string, most int, lines ...string) {
	if lines = nonEmpty(lines); len(lines) > 0 {
		s.sections = append(s.sections, section{heading, lines, most})
	}
}

// String returns the survey for a prompt: as data between marks, each line quoted, every cut visible, without secrets.
func (s *Survey) String() string {
	var b strings.Builder
	for _, part := range s.sections {
		body := (*secret.Redactor)(nil).Text(strings.Join(part.lines, "\n"))
		fmt.Fprintf(&b, "%s:\n%s\n\n", part.heading, text.Quote(text.Excerpt(body, part.most, text.Start)))
	}
	if b.Len() == 0 {
		return ""
	}
	return ledger.Marked("SURVEY", text.Excerpt(strings.TrimSpace(b.String()), maxSurvey, text.Start))
}

// file adds the beginning of the first of some files that has text, and returns its name.
func (s *Survey) file(heading, dir string, most int, names []string) string {
	for _, name := range names {
		if head := readHead(filepath.Join(dir, filepath.FromSlash(name))); !blank(head) {
			s.add(heading+" "+text.Name(name), most, head)
			return name
		}
	}
	return ""
}

// rules adds what the project asks of agents.
func (s *Survey) rules(dir string, files []string) {
	for _, pattern := range []string{"AGENTS.md", "CLAUDE.md", ".cursor/rules/*", ".cursorrules", "CONTRIBUTING.md"} {
		found := having(files, func(name string) bool { ok, _ := path.Match(pattern, name); return ok })
		if s.Rules = s.file("Rules of the project, from", dir, 2_400, found); s.Rules != "" {
			return
		}
	}
}

func shownNames(files []string) (names []string) {
	for _, name := range files {
		names = append(names, text.Cut(text.Name(name), 200))
	}
	return names
}

// having returns the files that fit.
func having(files []string, fits func(name string) bool) (found []string) {
	for _, name := range files {
		if fits(name) {
			found = append(found, name)
		}
	}
	return found
}

// readHead returns the beginning of a text file.
func readHead(name string) string {
	return string(readText(name, maxRead))
}

// walk lists the files of a directory, and says if there are more. It looks at directories before those below them, and at the
// first one even if the time has ended: what describes a project is at its top.
func walk(ctx context.Context, dir string) (files []string, more string) {
	skipped := []string{"node_modules", "venv", "__pycache__", "target", "vendor"}
	below := os.DirFS(dir)
	dirs := []string{"."}
	for i := 0; i < len(dirs); i++ {
		entries, _ := fs.ReadDir(below, dirs[i]) // those that could be read
		for _, e := range entries {
			name := path.Join(dirs[i], e.Name())
			switch {
			case len(files) == maxWalked, i > 0 && ctx.Err() != nil:
				return files, fmt.Sprintf("… there are more: only the first %d files were looked at", len(files))
			case e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(skipped, e.Name()):
				dirs = append(dirs, name)
			case e.Type().IsRegular():
				files = append(files, name)
			}
		}
	}
	return files, ""
}

// reached returns the files to which no link to a directory leads: git lists what it tracks below a directory also where a link
// has taken its place.
func reached(dir string, files []string) []string {
	behindLink := map[string]bool{".": false}
	var behind func(folder string) bool
	behind = func(folder string) bool {
		is, known := behindLink[folder]
		if !known {
			info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(folder)))
			is = behind(path.Dir(folder)) || err == nil && info.Mode()&fs.ModeSymlink != 0
			behindLink[folder] = is
		}
		return is
	}
	return having(files, func(name string) bool { return !behind(path.Dir(name)) })
}

var manifests = []string{
	"go.mod", "go.work", "package.json", "pnpm-workspace.yaml", "lerna.json", "nx.json", "turbo.json", "tsconfig.json", "deno.json",
	"Cargo.toml", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile", "tox.ini", "pom.xml", "build.gradle", "build.gradle.kts",
	"settings.gradle", "Gemfile", "composer.json", "mix.exs", "CMakeLists.txt", "meson.build", "Makefile", "justfile", "Dockerfile",
	"docker-compose.yml", "compose.yaml", "flake.nix", "WORKSPACE", "MODULE.bazel", "Package.swift", "pubspec.yaml",
}

// tree lists the directories of two levels with the number of files below each, and the files of the top.
func tree(files []string, more string) (lines []string) {
	below := map[string]int{}
	var top []string
	for _, name := range files {
		parts := strings.Split(name, "/")
		if len(parts) == 1 {
			top = append(top, text.Name(name))
		}
		for depth := 1; depth < min(3, len(parts)); depth++ {
			below[strings.Join(parts[:depth], "/")]++
		}
	}
	dirs := make([]string, 0, len(below))
	for dir := range below {
		dirs = append(dirs, dir)
	}
	// Large directories are worth most, and are shown in the order of their names.
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Or(cmp.Compare(below[b], below[a]), cmp.Compare(a, b)) })
	left := len(dirs) - maxDirs
	dirs = dirs[:min(maxDirs, len(dirs))]
	slices.Sort(dirs)
	for _, dir := range dirs {
		lines = append(lines, fmt.Sprintf("%s/ %d", text.Name(dir), below[dir]))
	}
	if left > 0 {
		lines = append(lines, fmt.Sprintf("… and %d smaller ones", left))
	}
	const shown = 40
	if over := len(top) - shown; over > 0 {
		top = append(top[:shown], fmt.Sprintf("… and %d more", over))
	}
	if len(top) > 0 {
		lines = append(lines, "at the top: "+strings.Join(top, ", "))
	}
	return append(lines, more)
}

// kinds names the endings of the most files.
func kinds(files []string) string {
	number := map[string]int{}
	for _, name := range files {
		if ending := path.Ext(name); ending != "" && len(ending) < 12 {
			number[ending]++
		}
	}
	var all []string
	for ending := range number {
		all = append(all, ending)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(number[b], number[a]), cmp.Compare(a, b)) })
	for i, ending := range all {
		all[i] = fmt.Sprintf("%s %d", text.Name(ending), number[ending])
	}
	const shown = 10
	return strings.Join(all[:min(shown, len(all))], ", ")
}

// commandsIn lists what the project's own files say how it is built and tested, with the reason if it is not plain. ci are
// the files of its CI.
func commandsIn(project fs.FS, dir string, ci []string) (found []detect.Command) {
	found = slices.Concat(detect.Tests(project), detect.Lint(project))
	for _, line := range detect.Scripts(project) {
		found = append(found, detect.Command{Run: line})
	}
	for _, name := range ci {
		for _, m := range ciRun().FindAllStringSubmatch(readHead(filepath.Join(dir, filepath.FromSlash(name))), -1) {
			addTo(&found, detect.Command{Run: text.Short(m[1], 120), Why: "CI"})
		}
	}
	return found
}

const workflows = ".github/workflows/*.y*ml"

// KnownCommands returns the commands that a project's own files say how it is built and tested: those exist. Whether they
// pass is another matter.
func KnownCommands(dir string) (commands []string) {
	root, err := os.OpenRoot(dir) // no link leads out of it
	if err != nil {
		return nil
	}
	defer root.Close()
	ci, _ := fs.Glob(root.FS(), workflows) // the pattern is valid
	for _, c := range commandsIn(root.FS(), dir, append(ci, ".gitlab-ci.yml")) {
		addTo(&commands, c.Run)
	}
	return commands
}

// ciRun matches a command of one line in a workflow.
var ciRun = text.Regexp(`(?m)^\s*(?:- )?run:[ \t]*([^|>\s].*)$`)
