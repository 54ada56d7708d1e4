package opencode

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tmaxmax/go-sse"
)

// dataOf reads the data of all events, without the space that may lead each line.
func dataOf(r io.Reader) (events []string, err error) {
	stream := newEventStream(r)
	for {
		if err := stream.next(); err != nil {
			return events, err
		}
		data, err := io.ReadAll(stream)
		if err != nil {
			return events, err
		}
		events = append(events, trimLines(string(data)))
	}
}

func trimLines(data string) string {
	lines := strings.Split(data, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// The streams have the data that go-sse finds, a parser that knows the whole standard,
// however the bytes come in. Carriage returns on their own, which end a line by the
// standard, are not looked for.
func FuzzEventStream(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\n", "data:a\ndata: b\n\n", ": ping\n\nevent: x\ndata: 1\nid: 7\n\n", "data: a\r\n\r\ndata: b\r\n\r\n",
		"\n\n\n", "dat: a\n\n",
		"data: " + strings.Repeat("x", 100_000) + "\n\ndata: after\n\n", "retry: 5\n\ndata\n\ndata: unfinished",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(strings.ReplaceAll(text, "\r\n", ""), "\r") || strings.ContainsAny(text, "\x00\ufeff") {
			t.Skip()
		}
		text += "\n\n"
		var want []string
		for e, err := range sse.Read(strings.NewReader(text), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
			if err != nil {
				t.Skip(err)
			}
			if data := trimLines(e.Data); data != "" {
				want = append(want, data)
			}
		}
		for name, r := range map[string]io.Reader{
			"at once": strings.NewReader(text), "dripping": iotest.OneByteReader(strings.NewReader(text)),
		} {
			got, err := dataOf(r)
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("%s: the end is %v", name, err)
			}
			got = slices.DeleteFunc(got, func(data string) bool { return data == "" })
			if !slices.Equal(got, want) {
				t.Fatalf("%s: of %q came %q, want %q", name, text, got, want)
			}
		}
	})
}

// An event that is not read to its end costs nothing but itself, and one that the
// connection cuts off is none.
func TestEventStreamGoesOn(t *testing.T) {
	t.Parallel()
	stream := newEventStream(strings.NewReader("data: [1,\ndata: 2]\n\ndata: {\"a\":1}\n\ndata: {\"a\""))
	one := make([]byte, 2)
	if err := stream.next(); err != nil {
		t.Fatal(err)
	}
	if n, err := io.ReadFull(stream, one); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if err := stream.next(); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(stream); string(data) != " {\"a\":1}\n" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if err := stream.next(); err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(stream); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("an event that was cut off read as %q, %v", data, err)
	}
}

// endless is an event that never ends.
type endless struct{ begun bool }

func (e *endless) Read(p []byte) (int, error) {
	if !e.begun {
		e.begun = true
		return copy(p, `data: {"payload":{"type":"x","properties":{"a":"`), nil
	}
	return copy(p, bytes.Repeat([]byte("a"), len(p))), nil
}

func TestEventWithoutEndIsGivenUp(t *testing.T) {
	t.Parallel()
	stream := newEventStream(&endless{})
	if err := stream.next(); err != nil {
		t.Fatal(err)
	}
	in := newScanner(nil)
	in.reset(stream)
	_, err := readEvent(in)
	if _, ok := errors.AsType[readError](err); !ok || !errors.Is(err, errEventTooLong) {
		t.Errorf("the error is %v", err)
	}
	if err := stream.next(); !errors.Is(err, errEventTooLong) {
		t.Errorf("then it is %v", err)
	}
}
