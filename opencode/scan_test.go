package opencode

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// value reads anything the way encoding/json puts it into an any.
func (s *scanner) value() any {
	switch s.peek() {
	case '{':
		m := map[string]any{}
		for key := range s.object() {
			m[key] = s.value()
		}
		return m
	case '[':
		list := []any{}
		for range s.array() {
			list = append(list, s.value())
		}
		return list
	case '"':
		text, _ := s.text(maxBody)
		return text
	case 't', 'f':
		return s.isTrue()
	case 'n':
		s.skip()
		return nil
	}
	return s.number()
}

// drips are ways in which the same bytes arrive.
var drips = map[string]func([]byte) *scanner{
	"at once":  scanBytes,
	"streamed": func(b []byte) *scanner { return newScanner(bytes.NewReader(b)) },
	"dripping": func(b []byte) *scanner { return newScanner(iotest.OneByteReader(bytes.NewReader(b))) },
	"halving": func(b []byte) *scanner {
		return newScanner(iotest.DataErrReader(iotest.HalfReader(bytes.NewReader(b))))
	},
}

// The scanner reads what encoding/json reads, and refuses what it refuses, however the
// bytes come in. It is more lenient about control characters in strings only.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e3,true,false,null,"x\n\u00e4\ud83d\ude00\ud83d\u0041"],"b":{"":{}}}`, `[]`, `5`, ` "x" `, `{"a":1,}`,
		`{"a" 1}`, `[1 2]`, `"\x"`, `"\ud83d"`, "\"\xff\xc3\x28\"",
		`01`, `tru`, `{"a":1}{`, `"\u12`, "\"a\x00\"", `1e999`, `[[[[`,
		`{"` + strings.Repeat("k", 300) + `":"` + strings.Repeat(`v\"`, 300) + `"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want any
		wantErr := json.Unmarshal(data, &want)
		for how, scan := range drips {
			checkScan(t, how, scan, data, want, wantErr)
		}
	})
}

func checkScan(t *testing.T, how string, scan func([]byte) *scanner, data []byte, want any, wantErr error) {
	t.Helper()
	s := scan(data)
	got := s.value()
	err := s.finish()
	outOfRange, _ := errors.AsType[*json.UnmarshalTypeError](wantErr) // a number too large for a float64 reads as zero
	lenient := outOfRange != nil || bytes.ContainsFunc(data, func(r rune) bool { return r < ' ' })
	switch {
	case err != nil && !errors.Is(err, errNotJSON):
		t.Fatalf("%s: %v", how, err)
	case wantErr == nil && err != nil && !tooMuch(data):
		t.Fatalf("%s: %q: refused: %v", how, data, err)
	case wantErr != nil && err == nil && !lenient:
		t.Fatalf("%s: %q: taken, although %v", how, data, wantErr)
	case wantErr == nil && err == nil && !tooMuch(data) && !reflect.DeepEqual(got, want):
		t.Fatalf("%s: %q: %#v, want %#v", how, data, got, want)
	}
	raw, cut := scan(data).raw(whole, nil)
	if wantErr != nil || tooMuch(data) {
		if raw != nil && !json.Valid(raw) {
			t.Fatalf("%s: %q was kept as %q", how, data, raw)
		}
		return
	}
	var again any
	if err := json.Unmarshal(raw, &again); err != nil || cut || !reflect.DeepEqual(again, want) {
		t.Fatalf("%s: %q was kept as %q: %v", how, data, raw, err)
	}
}

// tooMuch is JSON beyond a limit of the scanner.
func tooMuch(data []byte) bool {
	return bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxNesting || len(data) > maxKey
}

func TestScannerFuzzSeedsAtLength(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 3000, -1).Draw(t, "text")
		data, err := json.Marshal(map[string]any{"long": text, "list": []string{text, ""}, "n": 1.5})
		if err != nil {
			t.Fatal(err)
		}
		for how, scan := range drips {
			s := scan(data)
			for key := range s.object() {
				if key == "long" {
					if got, cut := s.text(maxBody); got != text || cut {
						t.Fatalf("%s: %q became %q", how, text, got)
					}
				}
			}
			if err := s.finish(); err != nil {
				t.Fatal(how, err)
			}
		}
	})
}

// A cut text is the beginning of the text, ends with a whole character and is within the
// bound; a cut value is still JSON.
func TestScannerCuts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 200, -1).Draw(t, "text")
		limit := rapid.IntRange(0, 300).Draw(t, "limit")
		data, err := json.Marshal([]any{text, map[string]any{"k": text}})
		if err != nil {
			t.Fatal(err)
		}
		for how, scan := range drips {
			s := scan(data)
			for i := range s.array() {
				if i > 0 {
					raw, _ := s.raw(bounds{text: limit, value: maxBody}, nil)
					var kept struct{ K string }
					if err := json.Unmarshal(raw, &kept); err != nil || !strings.HasPrefix(text, kept.K) {
						t.Fatalf("%s: %q was kept as %s: %v", how, text, raw, err)
					}
					continue
				}
				got, cut := s.text(limit)
				if !strings.HasPrefix(text, got) || !utf8.ValidString(got) || len(got) > limit || cut != (got != text) ||
					cut && len(got) < limit-utf8.UTFMax+1 {
					t.Fatalf("%s: %q in %d bytes became %q, %t", how, text, limit, got, cut)
				}
			}
			if err := s.finish(); err != nil {
				t.Fatal(how, err)
			}
		}
	})
}

func TestScannerDropsWhatIsTooLong(t *testing.T) {
	t.Parallel()
	data := []byte(`{"big":[` + strings.Repeat(`"x",`, 1000) + `"x"],"after":7}`)
	s := scanBytes(data)
	for key := range s.object() {
		switch key {
		case "big":
			if raw, cut := s.raw(bounds{text: 10, value: 100}, nil); raw != nil || !cut {
				t.Errorf("kept %d bytes, cut %t", len(raw), cut)
			}
		case "after":
			if got := s.number(); got != 7 {
				t.Errorf("after it comes %v", got)
			}
		}
	}
	if err := s.finish(); err != nil {
		t.Error(err)
	}
	deep := strings.Repeat("[", maxNesting+1) + strings.Repeat("]", maxNesting+1)
	if s := scanBytes([]byte(deep)); s.value() == nil || !errors.Is(s.finish(), errNotJSON) {
		t.Error("a nesting without end was followed")
	}
	broken := errors.New("broken")
	s = newScanner(io.MultiReader(strings.NewReader(`{"a":"b`), iotest.ErrReader(broken)))
	s.skip()
	if err := s.finish(); !errors.Is(err, broken) || errors.Is(err, errNotJSON) {
		t.Errorf("a broken source is %v", err)
	}
}
