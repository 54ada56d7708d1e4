package tasklist

import (
	"strings"

	"github.com/bouldermgr/manager/internal/command"
	"github.com/bouldermgr/manager/internal/text"
)

// runner matches the beginning of commands that test, check or build.
var runner = text.Regexp(`^(?:\w+=\S+ +)*(?:` +
	`(?:npm|pnpm|yarn|bun|npx|pnpx|bunx|go|cargo|make|just|task|uv|poetry|hatch|tox|nox|pytest|python3?|ruff|mypy|pyright|` +
	`black|flake8|node|deno|tsc|eslint|biome|prettier|vitest|jest|mocha|playwright|mvn|gradle|dotnet|swift|xcodebuild|ctest|` +
	`cmake|bazel|meson|ninja|rspec|bundle|rake|rails|mix|composer|phpunit|php|golangci-lint|staticcheck|shellcheck|terraform|` +
	`sbt|lein|zig|stack|cabal|bash|sh|turbo|nx)` +
	`|\.{1,2}/[\w./-]+)(?: |$)`)

// certain matches commands that are recognized without backticks: no sentence reads like them.
var certain = text.Regexp(`^(?:\w+=\S+ +)*(?:npm (?:test|run [\w:-]+)|(?:pnpm|yarn|bun) (?:test|run [\w:-]+)|go (?:test|vet|build)|` +
	`cargo (?:test|check|clippy|build)|(?:uv run |poetry run |python3? -m )?pytest|make (?:test|check|lint|build)|tox|` +
	`(?:\./)?(?:gradlew|mvnw) [\w:]+|mvn (?:test|verify)|dotnet (?:test|build)|golangci-lint run|npx [\w@/.-]+|node --test|` +
	`bundle exec \w+|mix test|ruff check|cargo fmt|go fmt)(?: [^ ]*[-./:=*_"'$][^ ]*)*$`)

// quoteless matches commands of package managers that need no backticks before a word such as "passes".
var quoteless = text.Regexp(`^(?:npm|pnpm|yarn|bun|npx|cargo|uv run|poetry run|dotnet|mvn|gradle)(?: run)? [\w:./-]+$`)

// endless matches commands that serve or watch.
var endless = text.Regexp(`(?:^| |:)(?:dev|start|serve|server|watch|preview|storybook|--watch)(?: |$)`)

const succeeds = `(?: (?:all |still |must |should )*(?:pass(?:es)?|succeeds?|(?:is|are|stays?) (?:green|clean)|` +
	`exits? (?:with )?(?:code )?0|runs? clean(?:ly)?|(?:has|reports) no errors|works))`

var (
	passing  = text.Regexp(`(?i)` + succeeds + `[.!]?$`)
	asked    = text.Regexp(`(?i)^(?:run|running|execute|verify (?:with|by|that)|check (?:with|that)|tests? with|verification|(?:test )?command)?:? *$`)
	span     = text.Regexp("`([^`\n]+)`")
	demanded = text.Regexp(`(?i)^` + succeeds)
	before   = text.Regexp(`(?i)(?:^|\W)(?:runs?|running|execute|verify (?:by|that)|verify:|with|via|using|test:|verification:)[:*]* *$`)
	denied   = text.Regexp(`(?i)(?:not|never|no longer|instead of|without|n't|before)(?: (?:run|running|use|using))? *$`)
	fails    = text.Regexp(`(?i)^\W*(?:to )?(?:still )?(?:fails?|is (?:red|gone|removed)|errors?|breaks|no longer|exits? .{0,10}[1-9])`)
	prose    = text.Regexp(`^[A-Z][a-z]+(?:[ ,.]|$)`)
)

// commandsIn returns the commands that a text demands to succeed, as in "run `npm test`" or "go vet ./... passes".
func commandsIn(s string) (found []string) {
	for line := range strings.Lines(s) {
		line = strings.TrimSpace(strings.TrimLeft(strings.TrimSpace(line), "-*+ "))
		bare := passing().ReplaceAllString(line, "")
		if at := strings.IndexByte(bare, ' '); at > 0 && asked().MatchString(bare[:at]) {
			bare = strings.TrimSpace(bare[at:])
		}
		bare = strings.TrimRight(bare, ".")
		if (certain().MatchString(bare) || bare != line && quoteless().MatchString(bare)) && !endless().MatchString(bare) {
			found = append(found, bare)
			continue
		}
		for _, m := range span().FindAllStringSubmatchIndex(line, -1) {
			cmd, head, tail := strings.TrimSpace(line[m[2]:m[3]]), line[:m[0]], line[m[1]:]
			alone := asked().MatchString(strings.TrimSpace(strings.ReplaceAll(head, "*", ""))) && strings.Trim(tail, " .*") == ""
			wanted := alone || before().MatchString(head) || demanded().MatchString(tail)
			if wanted && isCheck(cmd) && !denied().MatchString(head) && !fails().MatchString(tail) {
				found = append(found, cmd)
			}
		}
	}
	return found
}

func isCheck(cmd string) bool { return runner().MatchString(cmd) && !endless().MatchString(cmd) }

// asCommand returns a text from a place that is for commands, without what Markdown puts around it, or "" if it is a sentence.
func asCommand(s string) string {
	s = strings.TrimSpace(s)
	if m := span().FindStringSubmatch(s); m != nil && strings.HasPrefix(s, "`") {
		s = m[1]
	}
	bare := passing().ReplaceAllString(s, "")
	if prose().MatchString(s) || strings.Contains(s, "\n") || bare != s && !runner().MatchString(bare) {
		return ""
	}
	return strings.TrimSpace(bare)
}

// gate adds a command that must pass, unless the shell cannot read it: then it is told, and stays what the text around it is.
func (r *reader) gate(to *[]string, line int, whose, cmd string) {
	wrong, known := r.parsed[cmd]
	if !known {
		wrong = command.Syntax(cmd)
		r.parsed[cmd] = wrong
	}
	if wrong != "" {
		r.note(line, whose, Unread, "the shell cannot read the command `%s`: it is no gate", text.Clip(cmd, 80))
		return
	}
	*to = appendNew(*to, cmd)
}
