//go:build chromium

package web_test

import (
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// terminalShown is the picture of the terminal that the README shows.
const terminalShown = "terminal-status-100x30.png"

// terminals takes pictures of what commands print in the project, in terminals of several sizes. Each runs in a tmux of its own.
func (g *gallery) terminals(dir, id string) {
	g.t.Helper()
	program := os.Getenv("MANAGER")
	if program == "" {
		g.t.Fatal("MANAGER names no program to take pictures of")
	}
	commands := [][2]string{
		{"status", "status " + id}, {"top", "top"}, {"list", "list"}, {"graph", "graph " + id}, {"why", "show " + id + " --why toggle"},
		{"receipt", "show --receipt " + id}, {"report", "report " + id}, {"blockers", "blockers list"}, {"help", "--help"},
	}
	for _, size := range []struct {
		name          string
		width, height int
		env           string
	}{{"80x24", 80, 24, ""}, {"100x30", 100, 30, ""}, {"120x40", 120, 40, ""}, {"80x24, no colour", 80, 24, "NO_COLOR=1"}} {
		for _, of := range commands {
			name, args := of[0], of[1]
			if size.name == "100x30" && name != "status" {
				continue
			}
			screen := g.screen(dir, size.width, size.height, fmt.Sprintf("env -u NO_COLOR TERM=xterm-256color %s %s %s", size.env, program, args))
			file := "terminal-" + name + "-" + strings.NewReplacer(", ", "-", " ", "-").Replace(size.name)
			g.print(file, screen, size.width)
			g.shots = append(g.shots, shot{"Terminal, " + size.name, "manager " + args, file + ".png"})
		}
	}
}

// screen returns what a command shows once it has ended, or once its screen stays the same.
func (g *gallery) screen(dir string, width, height int, command string) string {
	g.t.Helper()
	socket := filepath.Join(g.t.TempDir(), "tmux")
	tmux := func(args ...string) (string, error) {
		cmd := exec.CommandContext(g.t.Context(), "tmux", append([]string{"-f", "/dev/null", "-S", socket}, args...)...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		out, err := cmd.Output()
		return string(out), err
	}
	if _, err := tmux("new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), command+"; exec cat"); err != nil {
		g.t.Fatal(err)
	}
	defer func() { _, _ = tmux("kill-server") }()
	last, same := "", 0
	for tick := time.NewTicker(100 * time.Millisecond); same < 8; <-tick.C {
		now, err := tmux("capture-pane", "-e", "-p", "-S", "-200")
		if err != nil {
			g.t.Fatal(err)
		}
		if same++; now != last || strings.TrimSpace(now) == "" {
			last, same = now, 0
		}
	}
	return last
}

var style = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// print takes a picture of a screen that tmux captured.
func (g *gallery) print(name, screen string, width int) {
	g.t.Helper()
	var s strings.Builder
	s.WriteString(`<!doctype html><html lang=en><meta charset=utf-8><title>terminal</title><style>body{margin:0;background:#0d1117}
main{display:inline-block;padding:16px;background:#0d1117;color:#e6edf3;font:14px/1.35 "DejaVu Sans Mono",monospace;white-space:pre;min-width:` +
		fmt.Sprint(width) + `ch}.s1{font-weight:700}.s2{opacity:.65}.s4{text-decoration:underline}.s7{background:#e6edf3;color:#0d1117}
.s31,.s91{color:#ff7b72}.s32,.s92{color:#56d364}.s33,.s93{color:#e3b341}.s34,.s94{color:#6cb6ff}.s35,.s95{color:#d2a8ff}.s36,.s96{color:#76e3ea}.s90{color:#8b949e}
</style><main>`)
	var on []string
	screen = strings.TrimRight(screen, "\n ")
	for screen != "" {
		at := style.FindStringSubmatchIndex(screen)
		plain := screen
		if at != nil {
			plain = screen[:at[0]]
		}
		fmt.Fprintf(&s, `<span class="%s">%s</span>`, strings.Join(on, " "), html.EscapeString(plain))
		if at == nil {
			break
		}
		on = styled(on, screen[at[2]:at[3]])
		screen = screen[at[1]:]
	}
	s.WriteString("</main>")
	file := filepath.Join(g.out, name+".html")
	if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
		g.t.Fatal(err)
	}
	defer os.Remove(file)
	g.look(width*9+40, "dark")
	g.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": width*9 + 40, "height": 60, "deviceScaleFactor": 1, "mobile": false})
	g.load("file://" + file)
	g.picture(filepath.Join(g.out, name+".png"), 1600)
}

// styled returns the classes that are on after an escape sequence.
func styled(on []string, codes string) []string {
	of := strings.Split(codes, ";")
	for i := 0; i < len(of); i++ {
		n, _ := strconv.Atoi(of[i]) // empty: 0
		off := func(from, to int) {
			on = slices.DeleteFunc(slices.Clone(on), func(class string) bool {
				is, _ := strconv.Atoi(class[1:])
				return is >= from && is <= to
			})
		}
		switch {
		case n == 0:
			on = nil
		case n == 22:
			off(1, 2)
		case n == 24, n == 27:
			off(n-20, n-20)
		case n == 39:
			off(30, 99)
		case n == 38 && i+2 < len(of): // one of 256
			off(30, 99)
			c, _ := strconv.Atoi(of[i+2])
			if i += 2; c < 8 {
				on = append(on, fmt.Sprint("s", 30+c))
			} else if c < 16 {
				on = append(on, fmt.Sprint("s", 82+c))
			}
		case n >= 30 && n <= 37, n >= 90:
			off(30, 99)
			on = append(slices.Clone(on), fmt.Sprint("s", n))
		default:
			on = append(slices.Clone(on), fmt.Sprint("s", n))
		}
	}
	return on
}
