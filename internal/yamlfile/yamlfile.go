// Package yamlfile reads plans and configurations: YAML that people wrote, or that came with a repository.
//
// It is guarded: only regular files of a bounded size are read, and what would make the YAML library use much time or
// memory (aliases, deep nesting) is refused before the library sees it. It is strict: unknown and repeated keys and
// values of a wrong kind are problems, each told with its place, all of them at once. It is lenient where there is only
// one reading: a single text where a list of texts is wanted is a list of one, any scalar where a text is wanted is that text
// as it is written, a key without a value counts as absent.
package yamlfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// MaxSize bounds a file, in bytes. A plan with 10,000 sub-tasks of a few lines fits well.
const MaxSize = 4 << 20

// Read reads a file. One that is no regular file, or is too large, is an [*Error]; what the file system says is wrapped.
func Read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would wait for its writer
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
		file.add(spot{}, "this is a directory", "name the file in it")
	case !info.Mode().IsRegular():
		file.add(spot{}, "this is not a regular file", "name another one")
	default:
		data, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		file.checkSize(data)
		return data, file.Err()
	}
	return nil, file.Err()
}

func (f *File) checkSize(data []byte) {
	if len(data) > MaxSize {
		f.add(spot{}, fmt.Sprintf("it is larger than %d MiB", MaxSize>>20),
			"check that this is the right file; long material belongs into files of the project that it names")
	}
}

// Decode reads the one document in data into a pointer to a struct, whose keys are the names in its yaml or json tags.
// What is not in the file stays as it is. readable is false if it is no YAML at all. name stands for the file in
// messages; [File.Err] says what is wrong.
func Decode(name string, data []byte, to any) (f *File, readable bool) {
	f = &File{name: name, spots: map[string]spot{}, unread: map[spot]bool{}}
	f.checkSize(data)
	if len(f.problems) > 0 {
		return f, false
	}
	root := f.parse(data)
	if len(f.problems) > 0 {
		return f, false
	}
	if root != nil {
		newDecoder(f, to).decode(root)
	}
	for _, p := range f.problems {
		f.unread[spot{p.Line, p.Column}] = true
	}
	return f, true
}

// Empty reports whether the file holds nothing but comments.
func (f *File) Empty() bool { return len(f.spots) == 0 }

// parse gives the root value of the one document in data; nil if there is none.
func (f *File) parse(data []byte) ast.Node {
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // editors of some systems put it there; the library takes it for text
	if at, what := badCharacter(data); what != "" {
		f.add(at, what, "save the file as plain UTF-8 text")
		return nil
	}
	if isJSON(data) {
		// Valid JSON has tabs only between its tokens, where the library takes some of them amiss.
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	tokens := f.tokenize(string(data))
	if len(f.problems) > 0 {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // the decoder finds those, all of them
	if err != nil {
		f.addSyntax(err, data)
		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			f.add(spotOf(doc.Body), "a second YAML document begins here", "keep to one in a file")
			return nil
		}
		root = doc.Body
	}
	return root
}

func isJSON(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) && json.Valid(data)
}

// badCharacter finds what no text file holds.
func badCharacter(data []byte) (at spot, what string) {
	for offset := 0; offset < len(data); {
		r, size := utf8.DecodeRune(data[offset:])
		switch {
		case r == 0:
			what = "there is a NUL character"
		case r == utf8.RuneError && size == 1:
			what = "this is not valid UTF-8"
		default:
			offset += size
			continue
		}
		before := data[:offset]
		line := before[bytes.LastIndexByte(before, '\n')+1:]
		return spot{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(line)}, what
	}
	return spot{}, ""
}

func (f *File) addSyntax(err error, data []byte) {
	do := "correct the YAML there; texts with special characters go between quotes"
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) || syntax.Token == nil {
		f.add(spot{}, "this is not YAML", do) // its text may quote the whole file
		return
	}
	message, _, _ := strings.Cut(syntax.Message, "\n")
	at := spot{syntax.Token.Position.Line, syntax.Token.Position.Column}
	if lines := bytes.SplitAfterN(data, []byte("\n"), at.line+1); bytes.HasPrefix(lines[min(at.line, len(lines))-1], []byte("\t")) {
		do = "indent with spaces, YAML does not take tabs there"
	}
	f.add(at, "this is not YAML: "+message, do)
}

func spotOf(n ast.Node) spot {
	position := n.GetToken().Position
	// The token of a mapping in block style is its first colon.
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		position = m.Values[0].Key.GetToken().Position
	}
	return spot{position.Line, position.Column}
}
