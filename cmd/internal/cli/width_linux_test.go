package cli

import (
	"io"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// On a terminal of 80 columns no line of a command's help, or of another text, is broken within a word.
func TestTextsAreBrokenBetweenWords(t *testing.T) {
	t.Parallel()
	p := openPTY(t)
	if err := unix.IoctlSetWinsize(int(p.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	lines := [][]string{
		{"help", "words"}, {"init"}, {"trust"}, {"show", "nosuch"}, {"run", "--nosuch"}, {"doctor", "--opencode", "/bin/false"},
	}
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		lines = append(lines, append(strings.Fields(c.CommandPath())[1:], "--help"))
		for _, sub := range c.Commands() {
			if !sub.IsAdditionalHelpTopicCommand() {
				add(sub)
			}
		}
	}
	add(Command())
	for _, args := range lines {
		Main(Env{
			Args: append(args, "-C", dir), Stdin: strings.NewReader(""), Stdout: p.slave, Stderr: p.slave,
			Environ: []string{"TERM=xterm", "HOME=" + dir, "PATH=/usr/bin:/bin"},
		})
	}
	p.drain()
	said := strings.Split(p.text(), "\r\n")
	if len(said) < 500 {
		t.Fatalf("only %d lines:\n%s", len(said), p.text())
	}
	for _, line := range said {
		if ansi.StringWidthWc(line) > 80 && len(strings.Fields(line)) > 2 { // a long word alone stays whole
			t.Errorf("wider than the terminal: %s", line)
		}
	}
}

// What is no terminal gets the lines as they were written.
func TestTextsElsewhereAreNotBroken(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	Main(Env{Args: []string{"help", "words"}, Stdout: &out, Stderr: io.Discard, Environ: []string{"HOME=" + t.TempDir()}})
	if !strings.Contains(out.String(), words[0][1]+"\n") {
		t.Error(out.String())
	}
}
