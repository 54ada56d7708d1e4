package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// answerPrompt reads a person's answers on a terminal, with the keys of a line editor. Enter ends an answer; a text that
// is pasted stays one answer however many lines it has, and a line that ends with a backslash goes on in the next one.
//
// The terminal is in raw mode only while an answer is being typed, and as it was whenever ask has returned.
type answerPrompt struct {
	in   *os.File
	out  io.Writer
	keys *keys
	line *term.Terminal
}

func newAnswerPrompt(in *os.File, out io.Writer) *answerPrompt {
	k := &keys{in: in}
	return &answerPrompt{in: in, out: out, keys: k, line: term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{k, out}, "")}
}

// lineBreak stands for the end of a line within an answer while that is being typed.
const lineBreak = "⏎"

// ask reads one answer. Ctrl-C is errInterrupted; Ctrl-D, or a terminal that is gone, is io.EOF. Reading a terminal
// cannot be cancelled: when ctx has ended, the prompt is not used again.
func (p *answerPrompt) ask(ctx context.Context, prompt string) (string, error) {
	before, err := term.MakeRaw(int(p.in.Fd()))
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	fmt.Fprint(p.out, ansi.SetModeBracketedPaste)
	defer func() {
		fmt.Fprint(p.out, ansi.ResetModeBracketedPaste)
		_ = term.Restore(int(p.in.Fd()), before) // a terminal that is gone needs no mode
	}()
	size := terminalSize(p.in)
	_ = p.line.SetSize(size.Width, size.Height)
	type typed struct {
		text string
		err  error
	}
	done := make(chan typed, 1)
	go func() {
		text, err := p.read(prompt)
		done <- typed{text, err}
	}()
	select {
	case t := <-done:
		return t.text, t.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// read reads lines until one does not go on in the next.
func (p *answerPrompt) read(prompt string) (string, error) {
	var text strings.Builder
	p.line.SetPrompt(prompt)
	for {
		line, err := p.line.ReadLine()
		if err != nil {
			fmt.Fprint(p.out, "\r\n")
			return "", err
		}
		more := strings.HasSuffix(line, `\`)
		text.WriteString(strings.ReplaceAll(strings.TrimSuffix(line, `\`), lineBreak, "\n"))
		if !more {
			return strings.TrimSpace(text.String()), nil
		}
		text.WriteByte('\n')
		p.line.SetPrompt(strings.Repeat(" ", ansi.StringWidthWc(prompt)))
	}
}

// keys is what is typed on a terminal in raw mode, made fit for a line editor: a paste comes as one line, and Ctrl-C is
// an error.
type keys struct {
	in      io.Reader
	held    []byte // the beginning of a mark, perhaps
	pasting bool
	cr      bool   // the last byte of the paste was a carriage return, whose line feed is nothing new
	ready   []byte // to be read
}

// What terminals put around a paste.
const (
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

const ctrlC = 3

func (k *keys) Read(p []byte) (int, error) {
	for len(k.ready) == 0 {
		buf := make([]byte, 4096)
		n, err := k.in.Read(buf)
		if err != nil {
			return 0, io.EOF // EIO, when the terminal is gone
		}
		if err := k.take(append(k.held, buf[:n]...)); err != nil {
			return 0, err
		}
	}
	n := copy(p, k.ready)
	k.ready = k.ready[n:]
	return n, nil
}

// take translates what came at once.
func (k *keys) take(b []byte) error {
	k.held = nil
	for len(b) > 0 {
		mark := pasteStart
		if k.pasting {
			mark = pasteEnd
		}
		switch {
		case bytes.HasPrefix(b, []byte(mark)):
			k.pasting, k.cr = !k.pasting, false
			b = b[len(mark):]
			continue
		case len(b) < len(mark) && strings.HasPrefix(mark, string(b)):
			k.held = bytes.Clone(b)
			return nil
		case k.pasting:
			k.pasted(b[0])
		case b[0] == ctrlC:
			return errInterrupted
		case (b[0] == '\r' || b[0] == '\n') && len(b) > 1:
			// Nobody types on so fast: it is a paste on a terminal that does not mark it, or was typed before the question came.
			k.ready = append(k.ready, lineBreak...)
		case b[0] == '\n':
			k.ready = append(k.ready, '\r')
		default:
			k.ready = append(k.ready, b[0])
		}
		b = b[1:]
	}
	return nil
}

// pasted takes a byte of a paste. Control characters, which would be commands to the editor, are left out.
func (k *keys) pasted(b byte) {
	switch {
	case b == '\n' && k.cr:
	case b == '\r' || b == '\n':
		k.ready = append(k.ready, lineBreak...)
	case b == '\t':
		k.ready = append(k.ready, ' ')
	case b >= ' ' && b != 0x7f:
		k.ready = append(k.ready, b)
	}
	k.cr = b == '\r'
}
