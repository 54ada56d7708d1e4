package taskledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// parseSyntax gives the root value of the one document in data. Without problems it is not nil.
func parseSyntax(data []byte, found *problems) ast.Node {
	data = bytes.TrimPrefix(data, []byte("\uFEFF")) // editors of some systems put it there; the library takes it for text
	if at, what := badCharacter(data); what != "" {
		found.add(at, what, "save the file as plain UTF-8 text")
		return nil
	}
	if isJSON(data) {
		// Valid JSON has tabs only between its tokens, where the library takes some of them amiss.
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	tokens := tokenize(string(data), found)
	if len(found.all) > 0 {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // the decoder finds those, all of them
	if err != nil {
		reportSyntax(err, data, found)
		return nil
	}
	return onlyDocument(file, found)
}

func isJSON(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) && json.Valid(data)
}

// badCharacter finds what no text file holds.
func badCharacter(data []byte) (at spot, what string) {
	offset := bytes.IndexByte(data, 0)
	what = "there is a NUL character"
	if !utf8.Valid(data) {
		if bad := firstInvalid(data); offset < 0 || bad < offset {
			offset, what = bad, "this is not valid UTF-8"
		}
	}
	if offset < 0 {
		return spot{}, ""
	}
	before := data[:offset]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return spot{1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(line)}, what
}

func firstInvalid(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

func reportSyntax(err error, data []byte, found *problems) {
	do := "correct the YAML there; texts with special characters go between quotes"
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) || syntax.Token == nil {
		found.add(spot{}, "this is not YAML", do) // its text may quote the whole file
		return
	}
	message, _, _ := strings.Cut(syntax.Message, "\n")
	at := spot{syntax.Token.Position.Line, syntax.Token.Position.Column}
	if bytes.HasPrefix(lineOf(data, at.line), []byte("\t")) {
		do = "indent with spaces, YAML does not take tabs there"
	}
	found.add(at, "this is not YAML: "+message, do)
}

// lineOf gives a line, or nothing if there is no such line.
func lineOf(data []byte, number int) []byte {
	at := 0
	for line := range bytes.Lines(data) {
		if at++; at == number {
			return line
		}
	}
	return nil
}

// onlyDocument refuses a second document and finds out whether there is a first one.
func onlyDocument(file *ast.File, found *problems) ast.Node {
	var root ast.Node
	for _, doc := range file.Docs {
		switch body := doc.Body; {
		case body == nil:
		case root != nil:
			found.add(spotOf(body), "a second YAML document begins here", "keep one plan per file")
			return nil
		default:
			root = body
		}
	}
	if root == nil {
		found.add(spot{}, "the file is empty", "write a plan, or make one with `manager plan \"TASK\"`")
	}
	return root
}

func spotOf(n ast.Node) spot {
	position := n.GetToken().Position
	// The token of a mapping in block style is its first colon.
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		position = m.Values[0].Key.GetToken().Position
	}
	return spot{position.Line, position.Column}
}

// kindOf names a value in a person's terms.
func kindOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	default:
		return fmt.Sprintf("%q", n.GetToken().Value)
	}
}
