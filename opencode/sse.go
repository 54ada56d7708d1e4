package opencode

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxEvent bounds one event, in bytes. It holds off a server that never ends one; a
// part of 10 MB is far below.
const maxEvent = 256 << 20

var errEventTooLong = errors.New("an event is longer than 256 MiB")

// eventStream cuts server-sent events out of a stream and gives the data of one at a
// time to whoever reads, without ever holding one: OpenCode sends a long text three
// times, and two of them are passed over. Names, ids and retry times are not read,
// since OpenCode sends none; lines end in LF or CR LF.
type eventStream struct {
	lines  *bufio.Reader
	open   bool // the current event has not ended
	inData bool // in one of its lines of data
	left   int  // bytes that it may still have
	err    error
}

func newEventStream(r io.Reader) *eventStream {
	return &eventStream{lines: bufio.NewReaderSize(r, scanWindow)}
}

// next passes over what is left of the current event and waits for the data of the
// next. It returns why there is none.
func (e *eventStream) next() error {
	for e.open && e.err == nil {
		if e.inData {
			e.skipLine()
		} else {
			e.beginLine()
		}
	}
	e.left = maxEvent
	for !e.open && e.err == nil {
		e.beginLine()
	}
	return e.err
}

// Read gives the data of the current event, and io.EOF at its end. The line feeds
// between several lines of data are part of it.
func (e *eventStream) Read(p []byte) (int, error) {
	for e.open && !e.inData && e.err == nil {
		e.beginLine()
	}
	if e.err != nil {
		return 0, e.err
	}
	if !e.open {
		return 0, io.EOF
	}
	n := copy(p, e.line())
	e.consume(n)
	return n, e.err
}

// beginLine looks at what a line is. A line of data is left to be read; an empty one
// ends the event; all others are passed over.
func (e *eventStream) beginLine() {
	switch {
	case e.startsWith("\n"), e.startsWith("\r\n"):
		e.skipLine()
		e.open = false
	case e.startsWith("data:"):
		_, _ = e.lines.Discard(len("data:")) // it was seen
		e.open, e.inData = true, true
	default:
		e.skipLine()
	}
}

// startsWith waits for no more of a line than it takes to tell.
func (e *eventStream) startsWith(prefix string) bool {
	for n := 1; n <= len(prefix) && e.err == nil; n++ {
		b, err := e.lines.Peek(n)
		if err != nil {
			e.fail(err)
			return false
		}
		if b[n-1] != prefix[n-1] {
			return false
		}
	}
	return e.err == nil
}

// line is what there is of the current line, its end included; empty after an error.
func (e *eventStream) line() []byte {
	if _, err := e.lines.Peek(1); err != nil {
		e.fail(err)
		return nil
	}
	b, _ := e.lines.Peek(e.lines.Buffered()) // that much is there
	if i := bytes.IndexByte(b, '\n'); i >= 0 {
		return b[:i+1]
	}
	return b
}

// consume takes n bytes of what line gave.
func (e *eventStream) consume(n int) {
	if n == 0 {
		return
	}
	b, _ := e.lines.Peek(n) // that much is there
	if b[n-1] == '\n' {
		e.inData = false
	}
	_, _ = e.lines.Discard(n)
	if e.left -= n; e.left < 0 {
		e.fail(errEventTooLong)
	}
}

func (e *eventStream) skipLine() {
	for e.err == nil {
		b := e.line()
		ended := bytes.HasSuffix(b, []byte("\n"))
		e.consume(len(b))
		if ended {
			return
		}
	}
}

func (e *eventStream) fail(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // a stream of events has no end
	}
	if e.err == nil {
		e.err = err
	}
}
