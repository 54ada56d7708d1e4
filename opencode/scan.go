package opencode

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
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

// object goes through the keys of an object. The caller reads the value of each; one that
// it leaves is passed over.
func (s *scanner) object() iter.Seq[string] {
	return func(yield func(string) bool) {
		if !s.open('{') {
			return
		}
		defer func() { s.nesting-- }()
		for first := true; !s.closes('}', first); first = false {
			if !s.take('"') {
				s.fail("a key is missing")
				return
			}
			var cut bool
			s.scratch, cut = s.appendString(s.scratch[:0], maxKey)
			key := string(s.scratch)
			if cut {
				key = ""
			}
			if !s.take(':') {
				s.fail("a colon is missing")
				return
			}
			s.peek()
			before := s.offset()
			if !yield(key) {
				return
			}
			if s.err == nil && s.offset() == before {
				s.skip()
			}
		}
	}
}

// array goes through the elements of an array in the same way.
func (s *scanner) array() iter.Seq[int] {
	return func(yield func(int) bool) {
		if !s.open('[') {
			return
		}
		defer func() { s.nesting-- }()
		for i := 0; !s.closes(']', i == 0); i++ {
			s.peek()
			before := s.offset()
			if !yield(i) {
				return
			}
			if s.err == nil && s.offset() == before {
				s.skip()
			}
		}
	}
}

// open enters an object or array. Another value is passed over.
func (s *scanner) open(bracket byte) bool {
	if !s.take(bracket) {
		if s.err == nil {
			s.skip()
		}
		return false
	}
	if s.nesting++; s.nesting > maxNesting {
		s.nesting--
		s.fail("it is nested more than %d deep", maxNesting)
		return false
	}
	return true
}

// closes reports whether an object or array ends here, or the scanner has.
func (s *scanner) closes(bracket byte, first bool) bool {
	switch c := s.peek(); {
	case s.err != nil:
		return true
	case c == bracket:
		s.pos++
		return true
	case first:
		return false
	case c == ',':
		s.pos++
		return false
	default:
		s.fail("%q stands where a comma or %q should", c, bracket)
		return true
	}
}

// skip passes over a value.
func (s *scanner) skip() {
	switch s.peek() {
	case '{':
		for range s.object() {
		}
	case '[':
		for range s.array() {
		}
	case '"':
		s.pos++
		s.skipString()
	default:
		s.literal()
	}
}

// literal reads a number, true, false or null. What it returns is valid until the next call.
func (s *scanner) literal() []byte {
	token := s.scratch[:0]
	for s.err == nil {
		i := s.pos
		for i < s.end && !delimiter(s.buf[i]) {
			i++
		}
		token = append(token, s.buf[s.pos:i]...)
		s.pos = i
		if len(token) > maxLiteral {
			s.fail("a number has more than %d digits", maxLiteral)
		}
		if i < s.end || s.source == nil || !s.fillOrEnd() {
			break
		}
	}
	s.scratch = token
	if s.err == nil && !json.Valid(token) {
		s.fail("%.20q is no value", token)
	}
	return token
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

func delimiter(c byte) bool {
	switch c {
	case ',', ']', '}', ':', ' ', '\t', '\r', '\n', '"', '[', '{':
		return true
	}
	return false
}

// number reads a number.
func (s *scanner) number() float64 {
	c := s.peek()
	if c != '-' && (c < '0' || c > '9') {
		s.skip()
		return 0
	}
	n, err := strconv.ParseFloat(string(s.literal()), 64)
	if err != nil {
		return 0 // out of range
	}
	return n
}

// isTrue reads a boolean.
func (s *scanner) isTrue() bool {
	if c := s.peek(); c != 't' && c != 'f' {
		s.skip()
		return false
	}
	return string(s.literal()) == "true"
}

// text reads a string of at most limit bytes, and says whether there was more.
func (s *scanner) text(limit int) (text string, cut bool) {
	if !s.take('"') {
		s.skip()
		return "", false
	}
	s.scratch, cut = s.appendString(s.scratch[:0], limit)
	s.kept += len(s.scratch)
	return string(s.scratch), cut
}

// id reads a string that has to be one.
func (s *scanner) id() string {
	if c := s.peek(); c != '"' && c != 'n' {
		s.fail("%q stands where an id should", c)
	}
	id, _ := s.text(maxKey)
	return id
}

// appendString appends at most limit bytes of what a string says, whose opening quote was taken.
func (s *scanner) appendString(dst []byte, limit int) (_ []byte, cut bool) {
	begin := len(dst)
	for s.err == nil {
		if limit-(len(dst)-begin) >= s.end-s.pos { // all that is here may be kept
			dst = s.appendPlain(dst)
		}
		chunk, c := s.chunk()
		if room := limit - (len(dst) - begin); len(chunk) <= room {
			dst = append(dst, chunk...)
		} else {
			return s.endCut(append(dst, chunk[:max(0, room)]...), begin, c), true
		}
		switch c {
		case '"':
			return validUTF8(dst, begin), false
		case '\\':
			r := s.escape()
			if len(dst)-begin+utf8.RuneLen(r) > limit {
				return s.endCut(dst, begin, 0), true
			}
			if r < utf8.RuneSelf {
				dst = append(dst, byte(r))
			} else {
				dst = utf8.AppendRune(dst, r)
			}
		}
	}
	return dst, false
}

// appendPlain is the fast way for what nearly all strings consist of. It stops in front
// of a quote or an escape that takes a closer look, or at the end of what is here.
func (s *scanner) appendPlain(dst []byte) []byte {
	here := s.buf[s.pos:s.end]
	for {
		i := stringEnd(here)
		if i < 0 {
			dst = append(dst, here...)
			here = nil
			break
		}
		dst = append(dst, here[:i]...)
		here = here[i:]
		if here[0] == '"' || len(here) == 1 {
			break
		}
		simple := simpleEscape(here[1])
		if simple == 0 {
			break
		}
		dst = append(dst, simple)
		here = here[2:]
	}
	s.pos = s.end - len(here)
	return dst
}

// endCut passes over the rest of a string that is kept in part. stopped is where chunk did.
func (s *scanner) endCut(dst []byte, begin int, stopped byte) []byte {
	switch stopped {
	case '"':
	case '\\':
		s.escape()
		fallthrough
	default:
		s.skipString()
	}
	return validUTF8(wholeCharacters(dst, begin), begin)
}

// skipString passes over a string, whose opening quote was taken. It does not look at what it says.
func (s *scanner) skipString() {
	escaped := false // the next byte is
	for s.err == nil {
		if escaped {
			s.next()
		}
		here := s.buf[s.pos:s.end]
		i := bytes.IndexByte(here, '"')
		if i < 0 {
			escaped = endsInEscape(here)
			s.pos = s.end
			s.fill()
			continue
		}
		escaped = endsInEscape(here[:i])
		s.pos += i
		if !escaped {
			s.pos++
			return
		}
	}
}

// endsInEscape reports whether the text ends with a backslash that escapes what follows.
func endsInEscape(text []byte) bool {
	n := len(text) - len(bytes.TrimRight(text, `\`))
	return n%2 == 1
}

// chunk consumes a string up to its next quote or backslash, that included, and says
// which it is; 0: the source has to be asked for more.
func (s *scanner) chunk() (text []byte, stop byte) {
	if s.pos == s.end && !s.fill() {
		return nil, 0
	}
	window := s.buf[s.pos:s.end]
	i := stringEnd(window)
	if i < 0 {
		s.pos = s.end
		return window, 0
	}
	s.pos += i + 1
	return window[:i], window[i]
}

// stringEnd finds the first quote or backslash, eight bytes at a time: looking for one of
// the two with bytes.IndexByte goes far past the other, again and again, since lines of
// code have one every few bytes.
func stringEnd(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		eight := binary.LittleEndian.Uint64(b[i:])
		quotes, slashes := eight^('"'*ones), eight^('\\'*ones)
		// A byte that is zero gets its high bit, and so may bytes above it: the lowest is right.
		if found := ((quotes-ones)&^quotes | (slashes-ones)&^slashes) & highs; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(b); i++ {
		if b[i] == '"' || b[i] == '\\' {
			return i
		}
	}
	return -1
}

// simpleEscape is what a letter after a backslash stands for; 0 for one that takes a closer look.
func simpleEscape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case '"', '\\', '/':
		return c
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	}
	return 0
}

// escape reads what follows a backslash.
func (s *scanner) escape() rune {
	if s.pos < s.end {
		if simple := simpleEscape(s.buf[s.pos]); simple != 0 {
			s.pos++
			return rune(simple)
		}
	}
	switch c := s.next(); {
	case c == 'u':
		return s.codePoint()
	case simpleEscape(c) != 0:
		return rune(simpleEscape(c))
	default:
		s.fail("\\%c is no escape", c)
		return utf8.RuneError
	}
}

// codePoint reads the digits after \u and, of a pair, the second one. Half a pair becomes U+FFFD.
func (s *scanner) codePoint() rune {
	r := hexRune(s.ahead(4))
	if r < 0 {
		s.fail("\\u has no four digits")
		return utf8.RuneError
	}
	s.pos += 4
	if !utf16.IsSurrogate(r) {
		return r
	}
	if follows := s.ahead(6); len(follows) == 6 && follows[0] == '\\' && follows[1] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(follows[2:])); pair != utf8.RuneError {
			s.pos += 6
			return pair
		}
	}
	return utf8.RuneError
}

// hexRune is negative for what are not four digits.
func hexRune(digits []byte) rune {
	if len(digits) != 4 {
		return -1
	}
	var r rune
	for _, c := range digits {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
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

// raw reads a value of any kind as it is, without its white space. Strings in it are cut,
// and it is nil if it is longer than b.value all the same; cut tells of either. Keys for
// which drop says so are left out.
func (s *scanner) raw(b bounds, drop func(key string) bool) (_ json.RawMessage, cut bool) {
	s.cut = false
	var ok bool
	s.held, ok = s.appendRaw(s.held[:0], b, drop)
	if !ok || s.err != nil {
		return nil, !ok
	}
	s.kept += len(s.held)
	return slices.Clone(s.held), s.cut
}

// anyObject decodes an object that somebody else put there.
func (s *scanner) anyObject(b bounds) (value map[string]any) {
	raw, _ := s.raw(b, nil)
	if json.Unmarshal(raw, &value) != nil {
		return nil
	}
	return value
}

// texts reads a list of strings.
func (s *scanner) texts(b bounds) []string {
	var list []string
	for range s.array() {
		text, _ := s.text(b.text)
		list = append(list, text)
	}
	return list
}

// appendRaw consumes the value in any case. It is not ok if the value is longer than b.value.
func (s *scanner) appendRaw(dst []byte, b bounds, drop func(key string) bool) (_ []byte, ok bool) {
	if len(dst) > b.value {
		s.skip()
		return dst, false
	}
	ok = true
	switch s.peek() {
	case '{':
		dst, ok = s.appendObject(dst, b, drop)
	case '[':
		dst = append(dst, '[')
		for i := range s.array() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if ok {
				dst, ok = s.appendRaw(dst, b, nil)
			}
		}
		dst = append(dst, ']')
	case '"':
		s.pos++
		dst = s.appendQuoted(dst, b.text)
	default:
		dst = append(dst, s.literal()...)
	}
	return dst, ok && len(dst) <= b.value
}

func (s *scanner) appendObject(dst []byte, b bounds, drop func(key string) bool) (_ []byte, ok bool) {
	ok = true
	dst = append(dst, '{')
	first := true
	for key := range s.object() {
		if !ok || drop != nil && drop(key) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, '"')
		for _, r := range key {
			dst = appendEscaped(dst, r)
		}
		dst = append(dst, '"', ':')
		dst, ok = s.appendRaw(dst, b, nil)
	}
	return append(dst, '}'), ok
}

// appendQuoted appends a string, whose opening quote was taken, as it is written, cut to
// limit bytes.
func (s *scanner) appendQuoted(dst []byte, limit int) []byte {
	dst = append(dst, '"')
	begin, cut := len(dst), false
	for s.err == nil {
		chunk, c := s.chunk()
		if room := limit - (len(dst) - begin); len(chunk) > room {
			dst, cut = append(dst, chunk[:max(0, room)]...), true
			limit = 0
		} else {
			dst = append(dst, chunk...)
		}
		switch c {
		case '"':
			if cut {
				s.cut = true
				dst = wholeCharacters(dst, begin)
			}
			return append(escapeControls(validUTF8(dst, begin), begin), '"')
		case '\\':
			r := s.escape()
			if len(dst)-begin >= limit {
				cut, limit = true, 0
				continue
			}
			dst = appendEscaped(dst, r)
		}
	}
	return dst
}

// appendEscaped appends a character as it stands between quotes.
func appendEscaped(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, '\\', 'n')
	case '\t':
		return append(dst, '\\', 't')
	}
	if r < ' ' {
		return fmt.Appendf(dst, `\u%04x`, r)
	}
	return utf8.AppendRune(dst, r)
}

// escapeControls mends what the scanner takes and other readers do not.
func escapeControls(dst []byte, begin int) []byte {
	if !slices.ContainsFunc(dst[begin:], func(c byte) bool { return c < ' ' }) {
		return dst
	}
	out := slices.Clone(dst[:begin])
	for _, c := range dst[begin:] {
		if c < ' ' {
			out = appendEscaped(out, rune(c))
		} else {
			out = append(out, c)
		}
	}
	return out
}

// wholeCharacters drops the beginning of a character at the end.
func wholeCharacters(dst []byte, begin int) []byte {
	for back := 1; back < utf8.UTFMax && len(dst)-back >= begin; back++ {
		if at := len(dst) - back; utf8.RuneStart(dst[at]) {
			if !utf8.FullRune(dst[at:]) {
				return dst[:at]
			}
			break
		}
	}
	return dst
}

// validUTF8 puts U+FFFD in the place of every byte that belongs to no character, as
// encoding/json does.
func validUTF8(dst []byte, begin int) []byte {
	if utf8.Valid(dst[begin:]) {
		return dst
	}
	text := string(dst[begin:])
	dst = dst[:begin]
	for _, r := range text {
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}
