package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// asking starts to ask on a terminal and waits for the prompt to be there.
func asking(ctx context.Context, t *testing.T, p *pty, prompt *answerPrompt) (answer func() (string, error)) {
	t.Helper()
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	before := len(p.text())
	go func() {
		text, err := prompt.ask(ctx, "B1> ")
		done <- result{text, err}
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(p.text()[before:], "B1> ") {
		select {
		case <-tick.C:
		case r := <-done:
			t.Fatalf("it ended before it asked: %q, %v", r.text, r.err)
		}
	}
	return func() (string, error) {
		r := <-done
		return r.text, r.err
	}
}

// On a terminal an answer is one line, and the terminal is as it was after each, whatever ended it.
func TestAnswerPrompt(t *testing.T) {
	t.Parallel()
	p := openPTY(t)
	prompt := newAnswerPrompt(p.slave, p.slave)
	for _, test := range []struct {
		types string
		want  string
		err   error
	}{
		{"use bcrypt\r", "use bcrypt", nil},
		{"\r", "", nil},
		{"use \x1b[200~one\ntwo\n\x1b[201~\r", "use one\ntwo", nil},
		{"wrong\x15right\r", "right", nil},
		{"half an answer\x03", "", errInterrupted},
	} {
		answer := asking(t.Context(), t, p, prompt)
		if p.sane() {
			t.Error("the terminal is not in raw mode while it is asked")
		}
		if _, err := p.master.WriteString(test.types); err != nil {
			t.Fatal(err)
		}
		if text, err := answer(); text != test.want || !errors.Is(err, test.err) {
			t.Errorf("%q: got %q, %v, want %q, %v", test.types, text, err, test.want, test.err)
		}
		if !p.sane() {
			t.Errorf("after %q the terminal is not as it was", test.types)
		}
	}
}

// A line that ends with a backslash goes on in the next.
func TestAnswerOfSeveralLines(t *testing.T) {
	t.Parallel()
	p := openPTY(t)
	answer := asking(t.Context(), t, p, newAnswerPrompt(p.slave, p.slave))
	for _, line := range []string{"one\\\r", "two\r"} { // the second may come before the first is read: then it is a paste
		if _, err := p.master.WriteString(line); err != nil {
			t.Fatal(err)
		}
		tick := time.NewTicker(time.Millisecond)
		for !strings.Contains(p.text(), line[:3]) {
			<-tick.C
		}
		tick.Stop()
	}
	if text, err := answer(); text != "one\ntwo" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
}

// Ctrl-D leaves, and so does a terminal that is closed.
func TestAnswerPromptEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *pty){
		"Ctrl-D": func(p *pty) { _, _ = p.master.WriteString("\x04") },
		"closed": func(p *pty) { p.close() },
	} {
		p := openPTY(t)
		answer := asking(t.Context(), t, p, newAnswerPrompt(p.slave, p.slave))
		end(p)
		if text, err := answer(); text != "" || !errors.Is(err, io.EOF) {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
	}
}

// A signal ends the question although nobody types, and gives the terminal back.
func TestAnswerPromptIsCancelled(t *testing.T) {
	t.Parallel()
	p := openPTY(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	answer := asking(ctx, t, p, newAnswerPrompt(p.slave, p.slave))
	cancel(errInterrupted)
	if text, err := answer(); text != "" || !errors.Is(err, errInterrupted) {
		t.Errorf("got %q, %v", text, err)
	}
	if !p.sane() {
		t.Error("the terminal is not as it was")
	}
}
