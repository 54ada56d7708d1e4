package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/internal/view"
)

// asking starts to ask on a terminal and waits for the prompt to be there.
func asking(ctx context.Context, t *testing.T, p *pty) (answer func() (string, error)) {
	t.Helper()
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	p.drain() // or the prompt of the question before would pass for this one's
	before := len(p.text())
	go func() {
		text, err := view.ReadAnswer(ctx, p.slave, p.slave, "B1> ")
		done <- result{text, err}
	}()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(p.text()[before:], "B1>") {
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

// On a terminal a paste is one answer, and the terminal is as it was after each, whatever ended it.
func TestAnswerPrompt(t *testing.T) {
	t.Parallel()
	p := openPTY(t)
	for _, test := range []struct {
		types string
		want  string
		err   error
	}{
		{"use bcrypt\r", "use bcrypt", nil},
		{"\r", "", nil},
		{"use \x1b[200~one\ntwo\n\x1b[201~\r", "use one\ntwo", nil},
		{"\x1b[200~one\r\n\r\ntwo\x03\x15\x1b[201~\r", "one\n\ntwo", nil},
		{"wrong\x15right\r", "right", nil},
		{"half an answer\x03", "", view.ErrInterrupted},
	} {
		answer := asking(t.Context(), t, p)
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
	answer := asking(t.Context(), t, p)
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
		answer := asking(t.Context(), t, p)
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
	answer := asking(ctx, t, p)
	cancel(errInterrupted)
	if text, err := answer(); text != "" || !errors.Is(err, errInterrupted) {
		t.Errorf("got %q, %v", text, err)
	}
	if !p.sane() {
		t.Error("the terminal is not as it was")
	}
}
