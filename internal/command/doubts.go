package command

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/bouldermgr/manager/internal/text"
)

// Doubt is a reason why a gate may prove nothing, and what to write instead.
type Doubt struct{ What, Do string }

// Doubts returns why a gate cannot be red, or does not end. A command that the shell or the parser cannot read has none.
func Doubts(line string) (found []Doubt) {
	if continues().MatchString(line) {
		found = append(found, Doubt{"the gate `" + text.Short(line, 100) + "` ends with a \\, and nothing follows",
			"leave the \\ out, or begin with | in YAML and write all lines below"})
	}
	file, err := parse(line)
	if err != nil || len(file.Stmts) == 0 {
		return found
	}
	c := &script{written: written(file)}
	if green := c.list(file.Stmts); green != nil && green.Do != "" { // a lone `true` is no mistake
		found = append(found, Doubt{"the gate `" + text.Short(line, 100) + "` cannot be red: " + green.What, green.Do})
	}
	if watch := watcher(file.Stmts); watch != nil {
		found = append(found, *watch)
	}
	return found
}

// continues matches what ends with an odd number of backslashes.
var continues = text.Regexp(`(^|[^\\])(\\\\)*\\\s*$`)

// Same reports whether the shell reads two commands alike. Commands that it cannot read are no different.
func Same(a, b string) bool {
	var read [2]strings.Builder
	for i, line := range []string{a, b} {
		file, err := parse(line)
		if err != nil {
			return true
		}
		_ = syntax.NewPrinter(syntax.SingleLine(true)).Print(&read[i], file)
	}
	return read[0].String() == read[1].String()
}

func parse(line string) (*syntax.File, error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(line), "")
	if err != nil { // sh may be bash
		file, err = syntax.NewParser().Parse(strings.NewReader(line), "")
	}
	return file, err
}

// script finds out whether commands can fail. It knows the shell's own rules and the programs that report nothing of
// their input; any other program can fail. Its methods return nil for what can fail, else why it cannot.
type script struct {
	written           []string // files that it redirects output to
	errexit, pipefail bool     // set -e, set -o pipefail
	exits             bool     // an exit with a status other than 0 was seen, or a trap, which may have one
}

// list is about commands one after the other, of which the last counts.
func (c *script) list(stmts []*syntax.Stmt) (last *Doubt) {
	stops := false
	for _, s := range stmts {
		last = c.stmt(s)
		stops = stops || c.errexit && last == nil
	}
	if stops || c.exits {
		return nil
	}
	if last != nil && len(stmts) > 1 && last.Do == "" {
		at := sourceOf(stmts[len(stmts)-1])
		return &Doubt{"only the status of its last command counts, `" + at + "`", "leave that out, or join the commands with &&"}
	}
	return last
}

func (c *script) stmt(s *syntax.Stmt) *Doubt {
	switch {
	case s.Background:
		return &Doubt{"`" + sourceOf(s) + "` runs in the background, where its status is lost", "leave the & out"}
	case s.Negated || s.Coprocess:
		return nil
	}
	return c.command(s.Cmd)
}

func (c *script) command(cmd syntax.Command) *Doubt {
	switch cmd := cmd.(type) {
	case *syntax.CallExpr:
		return c.call(cmd)
	case *syntax.BinaryCmd:
		return c.binary(cmd)
	case *syntax.Block:
		return c.list(cmd.Stmts)
	case *syntax.Subshell:
		return c.list(cmd.Stmts)
	case *syntax.IfClause:
		return c.branches(cmd)
	case *syntax.TimeClause:
		if cmd.Stmt != nil {
			return c.stmt(cmd.Stmt)
		}
	case *syntax.FuncDecl:
		return &Doubt{What: "it only defines a function"}
	}
	return nil
}

func (c *script) binary(cmd *syntax.BinaryCmd) *Doubt {
	left, right := c.stmt(cmd.X), c.stmt(cmd.Y)
	switch cmd.Op {
	case syntax.OrStmt:
		if left == nil && right != nil {
			return &Doubt{"`|| " + sourceOf(cmd.Y) + "` turns every failure into a success",
				"leave it out; a command that may stay as red as before goes under no_worse"}
		}
		return right
	case syntax.Pipe, syntax.PipeAll:
		if name, ok := filter(cmd.Y); ok && (!c.pipefail || left != nil) {
			return &Doubt{"its status is that of `" + name + "`, the end of the pipe",
				"leave `| " + sourceOf(cmd.Y) + "` out (manager keeps the end of the output itself), or run it with bash -o pipefail -c '…'"}
		}
		if c.pipefail && left == nil {
			return nil
		}
		return right
	}
	if left == nil && !prepares(cmd.X) { // &&
		return nil
	}
	return right
}

// prepares reports whether a command only leads to the next one, which is then the check.
func prepares(s *syntax.Stmt) bool {
	call, is := s.Cmd.(*syntax.CallExpr)
	return is && len(call.Args) > 0 && slices.Contains([]string{"cd", "pushd", "mkdir", "export", "source", "."}, literal(call.Args[0]))
}

// branches is about an if, which is green too if no branch is taken.
func (c *script) branches(cmd *syntax.IfClause) *Doubt {
	for ; cmd != nil; cmd = cmd.Else {
		if c.list(cmd.Then) == nil {
			return nil
		}
	}
	return &Doubt{"no branch of the if can fail", "let one of them end with exit 1, or write the condition alone"}
}

// harmless are commands that do not fail.
var harmless = []string{"true", ":", "echo", "printf"}

func (c *script) call(cmd *syntax.CallExpr) *Doubt {
	words := wordsOf(cmd)
	if len(cmd.Args) == 0 { // X=1 cannot fail, X=$(make) can
		substitutes := false
		syntax.Walk(cmd, func(n syntax.Node) bool {
			_, is := n.(*syntax.CmdSubst)
			substitutes = substitutes || is
			return true
		})
		if substitutes {
			return nil
		}
		return &Doubt{What: "it only sets variables"}
	}
	never := &Doubt{What: "`" + sourceOf(cmd) + "` does not fail"}
	switch name := words[0]; {
	case slices.Contains(harmless, name), name == "wait" && len(words) == 1, name == "exit" && len(words) == 2 && words[1] == "0":
		return never
	case name == "exit" || name == "trap":
		c.exits = true
	case name == "set":
		c.set(words[1:])
		return never
	case slices.Contains([]string{"cat", "head", "tail"}, name) && slices.ContainsFunc(words[1:], c.wrote):
		return never
	case slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh"}, name):
		return c.shell(words[1:])
	}
	return nil
}

func (c *script) wrote(file string) bool { return file != "" && slices.Contains(c.written, file) }

// set follows the options -e and -o pipefail, also as in -euo pipefail.
func (c *script) set(words []string) {
	for i, word := range words {
		on := strings.HasPrefix(word, "-")
		if !on && !strings.HasPrefix(word, "+") {
			continue
		}
		if strings.Contains(word, "e") {
			c.errexit = on
		}
		if strings.HasSuffix(word, "o") && i+1 < len(words) {
			switch words[i+1] {
			case "pipefail":
				c.pipefail = on
			case "errexit":
				c.errexit = on
			}
		}
	}
}

// shell is about the script after -c.
func (c *script) shell(words []string) *Doubt {
	at := slices.IndexFunc(words, func(w string) bool {
		return strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && strings.HasSuffix(w, "c")
	})
	if at < 0 || at+1 >= len(words) || words[at+1] == "" {
		return nil
	}
	file, err := parse(words[at+1])
	if err != nil || len(file.Stmts) == 0 {
		return nil
	}
	inner := &script{written: written(file)}
	inner.set(words[:at+1])
	return inner.list(file.Stmts)
}

// filter reports whether a command at the end of a pipe is green whatever comes in.
func filter(s *syntax.Stmt) (name string, is bool) {
	call, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || s.Negated {
		return "", false
	}
	words := wordsOf(call)
	if len(words) == 0 {
		return "", false
	}
	switch name = words[0]; name {
	case "tail", "head", "tee", "cat", "sort", "uniq", "wc", "cut", "tr", "less", "more", "nl", "column", "fold", "tac", "ts", "rev", "strings":
		return name, true
	case "grep", "egrep", "fgrep", "rg":
		inverts := slices.ContainsFunc(words[1:], func(w string) bool {
			short := strings.HasPrefix(w, "-") && !strings.HasPrefix(w, "--") && !strings.ContainsAny(w, "ef")
			return w == "--invert-match" || short && strings.Contains(w, "v")
		})
		return name + " -v", inverts
	case "sed", "awk", "gawk": // they can choose their status
		return name, !slices.ContainsFunc(words[1:], func(w string) bool {
			return w == "" || strings.Contains(w, "exit") || name == "sed" && strings.ContainsAny(w, "qQ")
		})
	}
	return "", false
}

// wordsOf returns the words of a command; those that are not literal are empty.
func wordsOf(cmd *syntax.CallExpr) (words []string) {
	for _, w := range cmd.Args {
		words = append(words, literal(w))
	}
	return words
}

func literal(w *syntax.Word) string {
	var b strings.Builder
	var add func(parts []syntax.WordPart) bool
	add = func(parts []syntax.WordPart) bool {
		for _, part := range parts {
			switch part := part.(type) {
			case *syntax.Lit:
				b.WriteString(part.Value)
			case *syntax.SglQuoted:
				b.WriteString(part.Value)
			case *syntax.DblQuoted:
				if !add(part.Parts) {
					return false
				}
			default:
				return false
			}
		}
		return true
	}
	if w == nil || !add(w.Parts) {
		return ""
	}
	return b.String()
}

// written lists the files that output is redirected to.
func written(n syntax.Node) (files []string) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if r, is := n.(*syntax.Redirect); is && slices.Contains([]syntax.RedirOperator{
			syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll, syntax.RdrClob,
		}, r.Op) {
			files = append(files, literal(r.Word))
		}
		return true
	})
	return files
}

// sourceOf prints a command on one line, shortened.
func sourceOf(n syntax.Node) string {
	var b strings.Builder
	if s, is := n.(*syntax.Stmt); is && s.Background {
		plain := *s
		plain.Background = false
		n = &plain
	}
	_ = syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n)
	return text.Short(strings.TrimSpace(b.String()), 60)
}
