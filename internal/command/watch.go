package command

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// watcher finds a command that watches files, or serves, and so does not end by itself. What runs in the background or
// under timeout may.
func watcher(stmts []*syntax.Stmt) (found *Doubt) {
	for _, s := range stmts {
		syntax.Walk(s, func(n syntax.Node) bool {
			switch n := n.(type) {
			case *syntax.Stmt:
				return !n.Background
			case *syntax.CallExpr:
				if do := watches(wordsOf(n)); do != "" && found == nil {
					found = &Doubt{"`" + sourceOf(n) + "` may watch files and never end", do}
				}
			}
			return true
		})
	}
	return found
}

const (
	without = "run it once, without its watch mode"
	noWatch = "add --watch=false"
)

// watches returns what to do about a command that watches files; empty if it does not.
func watches(words []string) string {
	words = unwrapped(words)
	if len(words) == 0 {
		return ""
	}
	name, args := path.Base(words[0]), words[1:]
	has := func(flags ...string) bool {
		return slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(flags, arg) })
	}
	once := has("--watch=false", "--no-watch", "--watchAll=false", "--watch-all=false", "--run", "--single-run")
	first := slices.IndexFunc(args, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
	verb := ""
	if first >= 0 {
		verb = args[first]
	}
	switch name {
	case "timeout", "gh", "git", "echo", "grep", "test", "[": // they end, or only speak of it
		return ""
	case "sh", "bash", "dash", "zsh":
		if at := slices.IndexFunc(args, func(w string) bool { return strings.HasPrefix(w, "-") && strings.HasSuffix(w, "c") }); at >= 0 && at+1 < len(args) {
			if file, err := parse(args[at+1]); err == nil {
				if inner := watcher(file.Stmts); inner != nil {
					return inner.Do
				}
			}
		}
		return ""
	case "nodemon", "watchexec", "entr", "fswatch", "watch", "ptw", "pytest-watch", "gow", "guard":
		return without
	case "tail":
		if has("-f", "-F", "--follow") {
			return "leave -f out"
		}
	case "vitest":
		if !once && !slices.Contains([]string{"run", "list", "related"}, verb) {
			return "write vitest run"
		}
	case "ng":
		switch {
		case verb == "serve":
			return without
		case verb == "test" && !once:
			return noWatch
		}
	case "react-scripts":
		if verb == "test" && !once {
			return "add --watchAll=false"
		}
	case "karma":
		if verb == "start" && !once {
			return "add --single-run"
		}
	case "cargo", "dotnet":
		if verb == "watch" {
			return without
		}
	case "mix":
		if verb == "test.watch" {
			return without
		}
	case "npm", "pnpm", "yarn", "bun", "make":
		if has("run") { // npm run watch
			rest := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "run" || strings.HasPrefix(arg, "-") })
			verb = strings.Join(rest[:min(1, len(rest))], "")
		}
		if verb == "watch" || verb == "dev" || strings.HasSuffix(verb, ":watch") || strings.HasPrefix(verb, "watch:") {
			return without
		}
	case "tsc", "mocha", "rollup", "webpack", "babel", "ava", "tsup", "esbuild":
		if has("-w") {
			return "leave -w out"
		}
	}
	if !once && has("--watch", "--watchAll", "--watch-all", "--watch=true", "--watchAll=true", "--watch=forever") {
		return "leave --watch out"
	}
	return ""
}

// unwrapped removes what runs another program.
func unwrapped(words []string) []string {
	for len(words) > 1 {
		two := words[0] + " " + words[1]
		switch {
		case slices.Contains([]string{"npm exec", "pnpm exec", "pnpm dlx", "yarn exec", "yarn dlx", "bun x", "poetry run", "uv run", "pipenv run"}, two):
			words = words[2:]
		case slices.Contains([]string{"npx", "bunx", "env", "cross-env", "command", "exec", "nice", "time", "sudo", "nohup"}, words[0]):
			words = words[1:]
		case (words[0] == "yarn" || words[0] == "pnpm" || words[0] == "bun") && slices.Contains(runners, words[1]):
			words = words[1:]
		default:
			return words
		}
		for len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")) { // npx --yes, env CI=
			words = words[1:]
		}
	}
	return words
}

// runners are programs that are often called by the package manager's name and theirs, as in yarn vitest.
var runners = []string{"vitest", "jest", "ng", "tsc", "nodemon", "mocha", "karma", "react-scripts"}
