package command_test

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/internal/command"
)

// A gate that cannot be red, or does not end, is doubted; one that can be red is not, whatever it looks like.
func TestDoubts(t *testing.T) {
	t.Parallel()
	for line, says := range map[string]string{
		"npm test 2>&1 | tail -5": "end of the pipe", "npm test | head": "end of the pipe", "npm test |& tee log": "end of the pipe",
		"npm test | grep -v warning": "grep -v", "npm test | grep -iv x | cat": "`cat`", "make | sed 's/a/b/'": "`sed`",
		"npm test || true": "|| true", "npm test || :": "|| :", "npm test || echo failed": "|| echo failed",
		"npm test || exit 0": "|| exit 0", "a && b || true": "|| true", "(npm test || true)": "|| true", "{ npm test | cat; }": "`cat`",
		"npm test; true": "last command", "npm test; echo done": "last command", "npm test\necho $?": "last command",
		"npm test; exit 0": "last command", "npm test &": "background", "npm test & wait": "last command",
		"true": "", "echo ok": "", ":": "", "X=1": "", // on purpose
		"if npm test; then echo ok; else echo bad; fi": "branch", "if npm test; then echo ok; fi": "branch",
		"bash -c 'npm test | tail -5'": "end of the pipe", "bash -lc 'npm test || true'": "|| true",
		"set -e; npm test | tail -5": "end of the pipe", "set -o pipefail; npm test || true": "|| true",
		"set -o pipefail; set +o pipefail; npm test | cat": "end of the pipe", "npm test > log 2>&1; cat log": "last command",
		"npm test > log || tail -5 log": "|| tail -5 log", "time npm test | tail -1": "end of the pipe",
		"cd x && npm test | tail -1": "end of the pipe",

		`npm test \`: "nothing follows", "npm test \\\n": "nothing follows", `echo a \\`: "", "npm test \\\n  --all": "", `grep -q \\\`: "nothing follows",

		"npm test": "", "! grep -q TODO main.go": "", "npm test | grep -q ok": "", "grep -v x file": "", "! git status -s | grep -v x": "",
		"set -o pipefail; npm test | tail -5": "", "set -euo pipefail; npm test | tail -5; echo ok": "", "set -e; npm test; echo ok": "",
		"bash -o pipefail -c 'npm test | tail'": "", "bash -euo pipefail -c 'npm test | tail; true'": "", "npm test && echo ok": "",
		"echo a && npm test": "", "npm test || exit 1": "", "npm test || { echo bad; exit 1; }": "", "npm test || (echo bad; false)": "",
		"npm test | tail; exit ${PIPESTATUS[0]}": "", "server & npm test": "", "make & wait $!": "", "cat docs/a.md": "",
		"if npm test; then echo ok; else exit 1; fi": "", "test -z \"$(gofmt -l .)\"": "", "X=$(make)": "", "[ -f x ]": "",
		"awk '/x/ {exit 1}' f": "", "make | awk '/x/ {exit 1}'": "", "for f in *; do test -s $f; done": "", "make | xargs test": "",
		"trap 'exit 1' EXIT; true": "", "exit 1": "", "echo x | grep -q y": "", "npm test || true && make": "", "if true; then": "", "": "",
		"echo 'a | tail'": "", "jq -e .ok f": "", "diff <(a) <(b)": "", "[[ -f x ]]": "",

		"vitest": "never end", "npx vitest --coverage": "never end", "npx --yes vitest": "never end", "jest --watch": "never end",
		"jest --watchAll": "never end", "ng test": "never end", "npx ng test --browsers=X": "never end", "npm test -- --watch": "never end",
		"cargo watch -x test": "never end", "tsc -w": "never end", "npx tsc --noEmit --watch": "never end", "nodemon": "never end",
		"npx nodemon x.js": "never end", "npm run test:watch": "never end", "yarn vitest": "never end", "CI= vitest": "never end",
		"cd web && vitest": "never end", "node --watch --test": "never end", "tail -f log": "never end", "sh -c 'vitest'": "never end",
		"./node_modules/.bin/vitest": "never end", "env A=b npx vitest": "never end",
		"vitest run": "", "npx vitest --run": "", "vitest --watch=false": "", "jest": "", "jest --watchAll=false": "", "ng test --watch=false": "",
		"ng build": "", "tsc": "", "cargo test": "", "gh run watch": "", "timeout 60 npx vitest": "", "npm run dev & curl localhost": "",
		"grep -q -- --watch package.json": "", "npm run build": "", "npm test -- --watch=false": "", "karma start --single-run": "",
	} {
		var said strings.Builder
		for _, d := range command.Doubts(line) {
			said.WriteString(d.What + ": " + d.Do + "\n")
			if d.Do == "" {
				t.Errorf("%q: there is nothing to do about: %s", line, d.What)
			}
		}
		if got := said.String(); says == "" && got != "" || !strings.Contains(got, says) {
			t.Errorf("%q, want %q:\n%s", line, says, got)
		}
	}
}
