package yamlfile

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"

	"github.com/bouldermgr/manager/internal/text"
)

// The YAML library recurses for every level of nesting and for every key of a mapping, and copies all tokens for every
// value that is missing. Plans and configurations need little of either, so files that need much are refused before it
// sees them.
const (
	maxTokens  = 250_000 // 10,000 sub-tasks with ten keys each
	maxNested  = 32
	maxKeys    = 256 // of one mapping
	maxMissing = 1_000
	maxDocs    = 16  // most of them empty: a second one with a value is refused
	maxBlank   = 100 // empty lines at the beginning of a block of text, which the library reads again for each of them
)

// blankLines matches a block of text that begins with too many empty lines.
var blankLines = text.Regexp(fmt.Sprintf(`[|>][-+0-9]*[ \t\r]*(?: #.*)?\n(?:[ \t\r]*\n){%d}`, maxBlank+1))

// tokenize splits the source and refuses what plans and configurations have no use for.
func (f *File) tokenize(source string) token.Tokens {
	if at := blankLines().FindStringIndex(source); at != nil {
		f.add(spot{1 + strings.Count(source[:at[0]], "\n"), 1}, fmt.Sprintf("a text begins with more than %d empty lines", maxBlank),
			"remove them")
		return nil
	}
	var s scanner.Scanner
	s.Init(source)
	var tokens token.Tokens
	for {
		some, err := s.Scan()
		if errors.Is(err, io.EOF) {
			break
		}
		if len(tokens)+len(some) > maxTokens {
			f.add(spot{}, fmt.Sprintf("the file has more than %d YAML elements", maxTokens), "split it")
			return nil
		}
		tokens.Add(some...)
	}
	var g guard
	for _, t := range tokens {
		if what, do := g.next(t); what != "" {
			f.add(spot{t.Position.Line, t.Position.Column}, what, do)
			return nil
		}
	}
	return tokens
}

// guard follows the nesting of the tokens.
type guard struct {
	flow    []flowLevel  // open brackets and braces
	block   []blockLevel // by growing column
	last    *token.Token // the token before, comments left out; of a colon, the key
	key     int          // column of the last key in block style
	line    int
	items   int // list items begun on this line
	missing int // values so far
	docs    int
}

type blockLevel struct{ column, keys int }

type flowLevel struct {
	mapping, colon bool // colon: the entry has one
	keys           int
}

func (g *guard) next(t *token.Token) (what, do string) {
	switch t.Type {
	case token.CommentType:
		return "", ""
	case token.AnchorType, token.AliasType, token.MergeKeyType:
		return unused("anchors and aliases", "write the value out", t)
	case token.TagType:
		return unused("tags", "remove the tag", t)
	case token.MappingKeyType:
		return unused("keys with a question mark", "write the key as a plain word", t)
	case token.DirectiveType:
		return unused("directives", "remove the line", t)
	case token.DocumentHeaderType, token.DocumentEndType:
		g.docs++
	}
	if g.last != nil && g.valueMissing(t) {
		g.missing++
	}
	before := g.last
	g.last = t
	switch t.Type {
	case token.MappingStartType, token.SequenceStartType:
		g.flow = append(g.flow, flowLevel{mapping: t.Type == token.MappingStartType})
	case token.MappingEndType, token.SequenceEndType:
		g.flow = g.flow[:max(0, len(g.flow)-1)]
	case token.CollectEntryType:
		if n := len(g.flow); n > 0 {
			g.flow[n-1].keys++
			g.flow[n-1].colon = false
		}
	case token.SequenceEntryType:
		g.item(t.Position)
	case token.MappingValueType:
		if n := len(g.flow); n > 0 {
			g.flow[n-1].colon = true
		} else if before != nil {
			g.mappingKey(before.Position.Column)
		}
	}
	return g.excess()
}

func (g *guard) excess() (what, do string) {
	const is = "check that this is the right file"
	keys := 0
	if n := len(g.block); n > 0 {
		keys = g.block[n-1].keys
	}
	if n := len(g.flow); n > 0 && g.flow[n-1].mapping {
		keys = max(keys, g.flow[n-1].keys)
	}
	switch {
	case len(g.flow)+len(g.block) > maxNested || g.items > maxNested:
		return fmt.Sprintf("this is nested more than %d levels deep", maxNested), "four are needed; " + is
	case keys > maxKeys:
		return fmt.Sprintf("a mapping has more than %d keys", maxKeys), "none has so many; " + is
	case g.docs > maxDocs:
		return "there are many YAML documents", "keep to one in a file"
	case g.missing > maxMissing:
		return fmt.Sprintf("more than %d values are missing", maxMissing), is
	}
	return "", ""
}

// valueMissing reports whether a token comes where a value should have come before it.
func (g *guard) valueMissing(t *token.Token) bool {
	if n := len(g.flow); n > 0 {
		ends := t.Type == token.CollectEntryType || t.Type == token.MappingEndType || t.Type == token.SequenceEndType
		if g.last.Type == token.MappingStartType || g.last.Type == token.CollectEntryType {
			return false
		}
		return ends && (g.last.Type == token.MappingValueType || g.flow[n-1].mapping && !g.flow[n-1].colon)
	}
	if t.Position.Line == g.last.Position.Line {
		return false
	}
	switch at := t.Position.Column; g.last.Type {
	case token.SequenceEntryType:
		return at <= g.last.Position.Column
	case token.MappingValueType:
		return at < g.key || at == g.key && t.Type != token.SequenceEntryType
	}
	return false
}

func unused(feature, instead string, t *token.Token) (what, do string) {
	mark, _ := utf8.DecodeRuneInString(t.Value)
	return "YAML " + feature + " are not used here",
		fmt.Sprintf("%s; a text that begins with %c goes between quotes", instead, mark)
}

// item begins a mapping of its own: what comes deeper than the dash has nothing to do with what came before.
func (g *guard) item(at *token.Position) {
	if at.Line != g.line {
		g.line, g.items = at.Line, 0
	}
	g.items++
	for len(g.block) > 0 && g.block[len(g.block)-1].column > at.Column {
		g.block = g.block[:len(g.block)-1]
	}
}

func (g *guard) mappingKey(column int) {
	g.key = column
	for len(g.block) > 0 && g.block[len(g.block)-1].column > column {
		g.block = g.block[:len(g.block)-1]
	}
	if len(g.block) == 0 || g.block[len(g.block)-1].column < column {
		g.block = append(g.block, blockLevel{column: column})
	}
	g.block[len(g.block)-1].keys++
}
