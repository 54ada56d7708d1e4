// Package yamlfile reads plans and configurations: YAML written by users, or from a repository.
//
// It is safe on untrusted input: it only reads regular files of bounded size and depth, without tags and aliases. It is
// strict: it reports all unknown or repeated keys and wrong types at once, with their places. It is lenient where the
// meaning is clear: a text stands for a list of one, any scalar for a text as written, and a key without value counts as
// absent.
package yamlfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/bouldermgr/manager/internal/text"
)

const (
	// MaxSize bounds a file, in bytes. A plan with 10,000 sub-tasks of a few lines fits well.
	MaxSize     = 4 << 20
	maxDepth    = 32 // four are needed
	maxProblems = 20 // reported per file
)

// Problem is one thing that is wrong in a file.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`   // from 1; 0 if the problem is the file as a whole
	Column int    `json:"column"` // from 1, in characters; 0 with Line
	What   string `json:"what"`
	Do     string `json:"do,omitempty"` // empty if What says it
}

// String returns the problem as users read it: `plan.yaml:12:5: what is wrong: what to do`.
func (p Problem) String() string {
	at := p.File
	if p.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
	}
	if p.Do == "" {
		return at + ": " + p.What
	}
	return at + ": " + p.What + ": " + p.Do
}

// Error lists what is wrong in a file, in the order of the file.
type Error struct {
	Problems []Problem // at least one, at most 20
	More     int       // further problems
}

// Error returns one problem per line.
func (e *Error) Error() string {
	var lines []string
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(lines, "\n")
}

// spot is a place in a file; zero means the whole file.
type spot struct{ line, column int }

func spotOf(n *yaml.Node) spot { return spot{n.Line, n.Column} }

// File is a decoded file: its problems, and the places of its values.
type File struct {
	name     string
	problems []Problem
	spots    map[string]spot // by path, as sub_tasks[0].gates[1]; "" is the root
	unread   map[spot]bool   // problems there are consequences of a failed read
	refused  map[*yaml.Node]bool
	lines    []string
	altered  map[string]Problem // by path: texts that YAML read otherwise than they stand in the file
	joined   map[string]string  // by path: texts as they stand in the file, on several lines that YAML joins
	warnings []Problem
}

func (f *File) add(at spot, what, do string) {
	f.problems = append(f.problems, Problem{File: f.name, Line: at.line, Column: at.column, What: what, Do: do})
}

// Report adds a problem of the value at a path, such as limits.models[0].limit, or of the nearest enclosing value that
// the file has. A value that could not be read is not reported again.
func (f *File) Report(path, what, do string) {
	if at := f.nearest(path); !f.unread[at] {
		f.add(at, what, do)
	}
}

func (f *File) nearest(path string) spot {
	for {
		if at, known := f.spots[path]; known || path == "" {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// Place returns where the value at a path stands, such as `plan.yaml:12`.
func (f *File) Place(path string) string { return fmt.Sprintf("%s:%d", f.name, f.nearest(path).line) }

// Has reports whether the file has a value at the path.
func (f *File) Has(path string) bool {
	_, has := f.spots[path]
	return has
}

// Just returns the error for this problem alone.
func (f *File) Just(path, what, do string) error {
	one := &File{name: f.name, spots: f.spots}
	one.Report(path, what, do)
	return one.Err()
}

// Err returns an [*Error], or nil if nothing is wrong.
func (f *File) Err() error {
	slices.SortStableFunc(f.problems, byPlace)
	return ErrorOf(f.problems)
}

// ErrorOf returns an [*Error], or nil if there are no problems.
func ErrorOf(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	shown := min(len(problems), maxProblems)
	return &Error{Problems: problems[:shown:shown], More: len(problems) - shown}
}

// Read reads a regular file, else it returns an [*Error]. Above [MaxSize] it reads enough for [Decode] to refuse.
func Read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	file := &File{name: path}
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, file.Just("", "this is a directory", "name the file in it")
	case !info.Mode().IsRegular():
		return nil, file.Just("", "this is not a regular file", "name another one")
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data, nil
}

// Decode reads data into a pointer to a struct with yaml or json tags. Absent values stay unchanged. It fails if
// data is larger than [MaxSize], not YAML, or two documents; [File.Err] has other problems. name is used in messages.
func Decode(name string, data []byte, to any) (*File, error) {
	f := &File{
		name: name, spots: map[string]spot{}, unread: map[spot]bool{}, refused: map[*yaml.Node]bool{},
		altered: map[string]Problem{}, joined: map[string]string{},
	}
	root, err := f.parse(data)
	if err != nil {
		return nil, err
	}
	if root != nil {
		d := &decoder{file: f, known: map[string][]string{}}
		d.learn("", reflect.TypeOf(to))
		d.read("", root, reflect.ValueOf(to).Elem(), "")
	}
	for _, p := range f.problems {
		f.unread[spot{p.Line, p.Column}] = true
	}
	return f, nil
}

// Empty reports whether the file holds nothing but comments.
func (f *File) Empty() bool { return len(f.spots) == 0 }

// parse returns the root value of the only document in data; nil if there is none.
func (f *File) parse(data []byte) (root *yaml.Node, err error) {
	if len(data) > MaxSize {
		return nil, f.Just("", fmt.Sprintf("it is larger than %d MiB", MaxSize>>20),
			"check that this is the right file; long material belongs into files of the project that it names")
	}
	if err := f.checkCharacters(string(data)); err != nil {
		return nil, err
	}
	if json.Valid(data) { // YAML has no surrogate pairs
		data = surrogates().ReplaceAllFunc(data, func(pair []byte) []byte {
			var character string
			_ = json.Unmarshal(slices.Concat([]byte(`"`), pair, []byte(`"`)), &character) // always valid
			return []byte(character)
		})
	}
	f.lines = strings.Split(string(data), "\n")
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	for err == nil {
		var document yaml.Node
		if err = loader.Load(&document); err != nil {
			break
		}
		f.refuse(&document, data)
		switch value := document.Content[0]; {
		case isNull(value):
		case root != nil:
			f.add(spotOf(value), "a second YAML document begins here", "keep to one in a file")
			return nil, f.Err()
		default:
			root = value
		}
	}
	if errors.Is(err, io.EOF) {
		return root, nil
	}
	do := "correct the YAML there; texts with special characters go between quotes"
	syntax, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return nil, f.Just("", "this is not YAML", do) // its text may quote the whole file
	}
	what, at := "this is not YAML: "+syntax.Message, spot{syntax.Mark.Line, syntax.Mark.Column}
	if syntax.ContextMsg != "" {
		what += " " + syntax.ContextMsg
	}
	if from := syntax.ContextMark; syntax.Stage == yaml.ScannerStage && from.Line > 0 { // such as an unterminated string
		at = spot{from.Line, from.Column}
	}
	lines := bytes.SplitAfterN(data, []byte("\n"), at.line+1)
	if bytes.HasPrefix(lines[max(0, min(at.line, len(lines))-1)], []byte("\t")) {
		do = "indent with spaces, YAML does not take tabs there"
	}
	f.add(at, what, do)
	return nil, f.Err()
}

var surrogates = text.Regexp(`(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`)

// checkCharacters finds characters that no text file has; the library does not say where they are.
func (f *File) checkCharacters(s string) error {
	for at, r := range s {
		what := ""
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[at:], "\uFFFD"):
			what = "this is not valid UTF-8"
		case unicode.IsControl(r) && !strings.ContainsRune("\t\n\r\u0085", r):
			what = fmt.Sprintf("there is a control character, %U", r)
		default:
			continue
		}
		before := s[:at]
		line := before[strings.LastIndexByte(before, '\n')+1:]
		f.add(spot{1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(line)}, what, "save the file as plain UTF-8 text")
		return f.Err()
	}
	return nil
}
