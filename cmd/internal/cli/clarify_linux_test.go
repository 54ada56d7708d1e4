package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/cmd/internal/view"
)

// asking starts a question on a terminal and waits for its prompt.
func asking(ctx context.Context, t *testing.T, p *pty) (answer func() (string, error)) {
	t.Helper()
	p.drain() // or the prompt of the previous question would match
	before := len(p.text())
	var text string
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		text, err = view.ReadAnswer(ctx, p.slave, p.slave, "B1> ")
	}()
	await(t, func() bool { return strings.Contains(p.text()[before:], "B1>") })
	if p.sane() {
		t.Error("the terminal is not in raw mode while it is asked")
	}
	return func() (string, error) {
		<-done
		return text, err
	}
}

// On a terminal a paste is one answer, and a line that ends with a backslash continues in the next. The terminal is
// restored, whatever ends the question.
func TestAnswerPrompt(t *testing.T) {
	t.Parallel()
	p := openPTY(t)
	for _, test := range []struct {
		types []string // each is shown before the next: two at once would be a paste
		want  string
		err   error
	}{
		{[]string{"one\\\r", "two\r"}, "one\ntwo", nil},
		{[]string{"use bcrypt\r"}, "use bcrypt", nil},
		{[]string{"\r"}, "", nil},
		{[]string{"use \x1b[200~one\ntwo\n\x1b[201~\r"}, "use one\ntwo", nil},
		{[]string{"\x1b[200~one\r\n\r\ntwo\x03\x15\x1b[201~\r"}, "one\n\ntwo", nil},
		{[]string{"wrong\x15right\r"}, "right", nil},
		{[]string{"ab漢d\x1b[D\x1b[D\x7fx\r"}, "ax漢d", nil},
		{[]string{"one two three\x17\x01\x1bf\x0b, four\r"}, "one, four", nil},
		{[]string{"\x1b[200~a\rbd\x1b[201~\x1b[H\x1b[3~c\x06e\x1b[1;5D!\r"}, "a\n!cde", nil},
		{[]string{"\x04"}, "", io.EOF},
		{[]string{"half an answer\x03"}, "", view.ErrInterrupted},
	} {
		answer := asking(t.Context(), t, p)
		for i, line := range test.types {
			if _, err := p.master.WriteString(line); err != nil {
				t.Fatal(err)
			}
			if i+1 < len(test.types) {
				p.shows(line[:len(line)-2])
			}
		}
		if text, err := answer(); text != test.want || !errors.Is(err, test.err) {
			t.Errorf("%q: got %q, %v, want %q, %v", test.types, text, err, test.want, test.err)
		}
		if !p.sane() {
			t.Errorf("after %q the terminal is not as it was", test.types)
		}
	}
}

// A signal ends the question without a key press and restores the terminal. A closed terminal ends it as well.
func TestAnswerPromptEnds(t *testing.T) {
	t.Parallel()
	p := openPTY(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := asking(ctx, t, p)
	cancel(errInterrupted)
	if text, err := answer(); text != "" || !errors.Is(err, errInterrupted) {
		t.Errorf("got %q, %v", text, err)
	}
	if !p.sane() {
		t.Error("the terminal is not as it was")
	}
	answer = asking(t.Context(), t, p)
	p.close()
	if text, err := answer(); text != "" || !errors.Is(err, io.EOF) {
		t.Errorf("got %q, %v", text, err)
	}
}

// Ctrl-D leaves, Ctrl-C interrupts. Answers that were given are kept.
func TestClarifyLeave(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		key, says string
		code      int
	}{
		{"\x04", "1 hard blocker waits for an answer", exitOK},
		{"half\x03", "manager: interrupted", exitInterrupted},
	} {
		project := blockedSample(t)
		p := openPTY(t)
		done := make(chan int)
		go func() {
			done <- Main(Env{
				Args: []string{"blockers", "clarify", "-C", project}, Stdin: p.slave, Stdout: io.Discard, Stderr: p.slave,
				Environ: []string{"TERM=xterm", "HOME=" + t.TempDir()},
			})
		}()
		p.shows("B1>")
		p.master.WriteString("the release key\r")
		p.shows("W1>")
		p.master.WriteString(test.key)
		if code := <-done; code != test.code {
			t.Errorf("%q: exit code %d, want %d", test.key, code, test.code)
		}
		p.shows(test.says)
		if got := statusOf(t, project)["B1"]; got != "answered: the release key" || !p.sane() {
			t.Errorf("%q: B1 is %q, the terminal as it was: %t", test.key, got, p.sane())
		}
	}
}
