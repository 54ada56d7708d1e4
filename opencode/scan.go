package opencode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	scanWindow = 32 << 10 // bytes of the source that are held at a time
	maxNesting = 1000
	maxLiteral = 1 << 10 // bytes of a number; no real one has more than 30
	maxKey     = 1 << 10 // bytes of a key that are told apart; longer ones match nothing
)

// bounds says how much of what a model or a tool wrote is kept, in bytes.
type bounds struct {
	text  int // of each string; what is cut is cut at the end, between characters
	value int // of a whole JSON value that is kept as it is; a longer one is dropped
}

// whole keeps what a person would call everything.
var whole = bounds{text: maxBody, value: maxBody}

// scanner reads JSON as it comes in, once and without holding it: a part of 10 MB costs
// as much memory as is kept of it. encoding/json needs the whole text and goes through it
// two to six times, which for the messages of a long session is most of the manager's
// work.
//
// The reader asks for what it expects. A value of another type is passed over and reads
// as zero; a key that is not asked for is passed over too. So one odd field spoils itself
// only, whereas text that is no JSON stops the scanner for good: see err. Unlike
// encoding/json it takes strings with bare control characters, and matches keys exactly.
type scanner struct {
	source   io.Reader // nil: buf is all there is
	buf      []byte
	pos, end int   // buf[pos:end] is read and not consumed
	passed   int64 // bytes consumed before buf
	nesting  int
	kept     int    // bytes that were given away
	scratch  []byte // of the string that is being read
	held     []byte // of the value that is being kept, see raw
	cut      bool   // a string of that value was cut
	err      error
}

var errNotJSON = errors.New("not JSON")

// readError is a failure of the source, not of what it says.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

func newScanner(source io.Reader) *scanner {
	return &scanner{source: source, buf: make([]byte, scanWindow)}
}

// reset begins with another source.
func (s *scanner) reset(source io.Reader) {
	*s = scanner{source: source, buf: s.buf, scratch: s.scratch, held: s.held}
}

func scanBytes(data []byte) *scanner { return &scanner{buf: data, end: len(data)} }

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: at byte %d: %s", errNotJSON, s.offset(), fmt.Sprintf(format, args...))
	}
}

func (s *scanner) offset() int64 { return s.passed + int64(s.pos) }

// fill gets more to read once everything was consumed.
func (s *scanner) fill() bool {
	if s.err != nil {
		return false
	}
	if s.source == nil {
		s.fail("it ends too early")
		return false
	}
	s.passed += int64(s.end)
	s.pos, s.end = 0, 0
	const maxEmptyReads = 100
	for range maxEmptyReads {
		n, err := s.source.Read(s.buf)
		if n > 0 {
			s.end = n
			return true
		}
		if errors.Is(err, io.EOF) {
			s.fail("it ends too early")
			return false
		}
		if err != nil {
			s.err = readError{err}
			return false
		}
	}
	s.err = readError{io.ErrNoProgress}
	return false
}

// fillOrEnd is fill for a place where the text may end.
func (s *scanner) fillOrEnd() bool {
	if s.fill() {
		return true
	}
	if errors.Is(s.err, errNotJSON) {
		s.err = nil
	}
	return false
}

// peek is the first byte of what comes next; 0 at the end and after an error.
func (s *scanner) peek() byte {
	for s.err == nil {
		for ; s.pos < s.end; s.pos++ {
			switch c := s.buf[s.pos]; c {
			case ' ', '\t', '\r', '\n':
			default:
				return c
			}
		}
		if !s.fill() {
			break
		}
	}
	return 0
}

// take consumes the byte if it comes next.
func (s *scanner) take(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.pos++
	return true
}

// next consumes one byte, white space or not; 0 at the end.
func (s *scanner) next() byte {
	b := s.ahead(1)
	if len(b) == 0 {
		s.fill() // says why there is none
		return 0
	}
	s.pos++
	return b[0]
}

// ahead shows the next n bytes without consuming them; fewer at the end.
func (s *scanner) ahead(n int) []byte {
	for s.end-s.pos < n && s.source != nil && s.err == nil {
		s.passed += int64(s.pos)
		s.end = copy(s.buf, s.buf[s.pos:s.end])
		s.pos = 0
		more, err := s.source.Read(s.buf[s.end:])
		s.end += more
		if err != nil || more == 0 {
			break // whoever consumes what there is meets it again
		}
	}
	return s.buf[s.pos:min(s.end, s.pos+n)]
}

// finish reports whether everything was read and nothing follows.
func (s *scanner) finish() error {
	if s.err != nil {
		return s.err
	}
	if s.source == nil {
		if len(bytes.TrimLeft(s.buf[s.pos:s.end], " \t\r\n")) > 0 {
			s.fail("something follows its end")
		}
		return s.err
	}
	if s.peek() != 0 {
		s.fail("something follows its end")
		return s.err
	}
	if errors.Is(s.err, errNotJSON) {
		s.err = nil // the end, where it belongs
	}
	return s.err
}
