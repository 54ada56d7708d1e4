package cli

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// gitMoments is the number of moments to choose from.
const gitMoments = 50

var killGit = flag.Int("kill-git", 2, fmt.Sprintf("how many kills TestKillAtGit makes, at most %d", gitMoments))

// tellingGit reports each git command that leaves something behind to the test, before it runs and after, and waits for
// the test's answer.
const tellingGit = `#!/bin/bash
tell() {
	local what="$1 $PPID $2"
	what=${what//[^A-Za-z0-9\/._ -]/}
	exec 3<>/dev/tcp/ADDRESS
	printf 'GET /git/%s HTTP/1.0\r\n\r\n' "${what// /+}" >&3
	read -r go <&3
	exec 3>&-
}
while [ "$1" = -c ]; do settings+=("$1" "$2"); shift 2; done
case $1 in
cat-file|check-*|diff*|for-each-ref|log|ls-*|merge-base|rev-*|show|status|*version) exec GIT "${settings[@]}" "$@" ;;
esac
tell before "$*"
GIT "${settings[@]}" "$@"
code=$?
tell after "$*"
exit $code
`

// gitKills are the kills of one boulder: before and after each kind of git command that the manager itself runs. An
// isolated boulder changes a repository only by such commands, see docs/isolation.md.
type gitKills struct {
	w    *killWorld
	mu   sync.Mutex
	seen map[string]bool
}

// ofOneRun matches hashes, ids of boulders, numbers of slots, and directories.
var ofOneRun = regexp.MustCompile(`[0-9a-f]{40}|[0-9a-zA-Z]{26}|[0-9]+|/\S*/`)

// runs is called before or after a git command.
func (g *gitKills) runs(_ http.ResponseWriter, r *http.Request) {
	when, rest, _ := strings.Cut(r.PathValue("what"), "+")
	parent, args, _ := strings.Cut(rest, "+")
	words := strings.Split(args, "+")
	key := when + " git " + ofOneRun.ReplaceAllString(strings.Join(words[:min(4, len(words))], " "), "…")
	g.mu.Lock()
	defer g.mu.Unlock()
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	if pid, err := strconv.Atoi(parent); err != nil || pid != g.w.pid || g.seen[key] {
		return // OpenCode's, or seen before
	}
	g.seen[key] = true
	if len(g.seen)%max(1, gitMoments / *killGit) != 0 {
		return
	}
	g.w.next = kill{victim: theManager}
	g.w.strike(key)
}

// kill -9 of the manager before and after each kind of git command of an isolated boulder, from the base commit of its
// slots to the removal of its last ref: every row of what a crash can leave, see docs/isolation.md. git itself
// continues, as after a real crash.
func TestKillAtGit(t *testing.T) {
	t.Parallel()
	w := newKillWorld(t, 9, 1) // isolated, on a server that outlives the manager; all other kills are at git commands
	g := &gitKills{w: w, seen: map[string]bool{}}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w.env = append(w.env, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	w.routes.HandleFunc("/git/{what...}", g.runs)
	script := strings.NewReplacer("ADDRESS", strings.ReplaceAll(w.server, ":", "/"), "GIT", git).Replace(tellingGit)
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	w.toTheEnd()
	w.gone("at the end", w.ours())
	w.checkSessions()
	w.land()
	w.check()
	t.Logf("%d of %d kinds of moments", w.struck, len(g.seen))
}
