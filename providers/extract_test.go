package providers_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/providers"
)

// answers returns the corpus: answers in forms that were seen from models, each with the expected result.
func answers(t testing.TB) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob("testdata/answers/*.txtar")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d files in the corpus, %v", len(files), err)
	}
	corpus := make(map[string]*txtar.Archive)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		archive := txtar.Parse(data)
		if len(archive.Files) != 2 {
			t.Fatalf("%s: want the parts answer and want, or answer and error", file)
		}
		corpus[strings.TrimSuffix(filepath.Base(file), ".txtar")] = archive
	}
	return corpus
}

// extract returns the object in an answer, as written.
func extract(text string) (json.RawMessage, error) {
	return providers.Decode[json.RawMessage](text, nil)
}

func TestExtractCorpus(t *testing.T) {
	t.Parallel()
	for name, archive := range answers(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := extract(string(archive.Files[0].Data))
			expected := archive.Files[1]
			if expected.Name == "error" {
				if says := strings.TrimSpace(string(expected.Data)); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("got %s and error %v, want an error that says %q", got, err, says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decoded(t, expected.Data), decoded(t, got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func decoded(t testing.TB, raw []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return value
}

// jsonValue generates any JSON value, with strings that contain what the parser looks for.
func jsonValue(depth int) *rapid.Generator[any] {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching("[{}\\[\\]\"'\\\\,/*\n\tTrue<>:`]{0,12}"),
		rapid.SampledFrom([]string{"</think>", "<think>", "```json", "//", "/*", ",}", `\"`, "None", "True"}))
	leaf := rapid.OneOf(text.AsAny(), rapid.Bool().AsAny(), rapid.Float64Range(-1e6, 1e6).AsAny(), rapid.Just[any](nil))
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf, rapid.SliceOfN(jsonValue(depth-1), 0, 3).AsAny(),
		rapid.MapOfN(text, jsonValue(depth-1), 0, 3).AsAny())
}

// Any valid object of a model is found, whatever its strings contain and whatever surrounds it.
func TestExtractFindsEveryValidObject(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOfN(rapid.String(), jsonValue(2), 0, 4).Draw(t, "object")
		encoded, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		around := rapid.SampledFrom([][2]string{
			{"", ""}, {"```json\n", "\n```"}, {"<think>It's {\"a</think>\n", ""}, {"I think it's: ", " — or {so}."},
			{"{\"draft\": 1}\n", ""}, {"[", "]"},
		}).Draw(t, "around")
		got, err := extract(around[0] + string(encoded) + around[1])
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(got, &value); err != nil {
			t.Fatal(err)
		}
		want := any(nil)
		if err := json.Unmarshal(encoded, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, value); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestExtractNeverCompletes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		object := rapid.MapOfN(rapid.String(), jsonValue(2), 1, 4).Draw(t, "object")
		encoded, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		cut := rapid.IntRange(0, len(encoded)-1).Draw(t, "cut")
		if got, err := extract(string(encoded[:cut])); err == nil {
			t.Fatalf("%s became %s", encoded[:cut], got)
		}
	})
}

// Hostile answers take bounded time: no unbounded recursion or rescanning.
func TestExtractHostile(t *testing.T) {
	t.Parallel()
	for _, part := range []string{
		"{", "{\"", "[", "[{", "[{\"", "{}", "[{}]", "{\"a\":", "'", "<think>", "</think>", "<think></think>", "/*", "{/*",
		"\\", "{'a'}", "#", "{#", "{#\n", "{\u00a0",
		"\u200b", "：", "{a:", "{“", "{\"a\":1}", "{\"a\":1,", "[THINK]", "```{\n",
		"{\"a\":[", "<html>", "\xff", "\x00",
	} {
		_, _ = extract(strings.Repeat(part, (1<<18)/len(part)))
	}
	if _, err := extract(strings.Repeat(" ", 2<<20)); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}

// Megabytes of garbage, and nesting that would overflow the stack, are refused.
func TestExtractRefusesGarbage(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 5<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 3)
	}
	for name, text := range map[string]string{
		"5 MB":               string(noise),
		"1 MB":               string(noise[:1<<20]),
		"5 MB with an end":   string(noise) + `{"completed": true}`,
		"deep objects":       strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000),
		"deep lists":         `{"a":` + strings.Repeat("[", 40_000) + strings.Repeat("]", 40_000) + "}",
		"deep, not closed":   strings.Repeat(`{"a":[`, 20_000),
		"deep, other quotes": strings.Repeat(`{'a':`, 20_000) + "None" + strings.Repeat("}", 20_000),
	} {
		got, err := extract(text)
		if err == nil || len(err.Error()) > 500 || !utf8.ValidString(err.Error()) {
			t.Errorf("%s: got %.100s and error %.600v", name, got, err)
		}
	}
}

func FuzzExtract(f *testing.F) {
	for _, archive := range answers(f) {
		f.Add(string(archive.Files[0].Data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := extract(text)
		if err != nil {
			if got != nil || err.Error() == "" || !utf8.ValidString(err.Error()) {
				t.Fatalf("got %q with error %q", got, err)
			}
			return
		}
		var object map[string]any
		if err := json.Unmarshal(got, &object); err != nil || object == nil {
			t.Fatalf("%q is not an object: %v", got, err)
		}
		again, err := extract(string(got))
		if err != nil {
			t.Fatalf("%q is not found again: %v", got, err)
		}
		if diff := cmp.Diff(decoded(t, got), decoded(t, again)); diff != "" {
			t.Fatalf("reading it twice changes it:\n%s", diff)
		}
	})
}
