package taskledger

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// The YAML library recurses for every level of nesting and for every key of a mapping, and copies all tokens for every
// empty value. A plan needs little of either, so files that need much are refused before it sees them.
const (
	maxTokens = 250_000 // 10,000 sub-tasks with ten keys each
	maxNested = 32
	maxKeys   = 256 // of one mapping
)

// tokenize splits the source and refuses what a plan has no use for.
func tokenize(source string, found *problems) token.Tokens {
	var s scanner.Scanner
	s.Init(source)
	var tokens token.Tokens
	for {
		some, err := s.Scan()
		if errors.Is(err, io.EOF) {
			break
		}
		if len(tokens)+len(some) > maxTokens {
			found.add(spot{}, fmt.Sprintf("the plan has more than %d YAML elements", maxTokens), "split it into several plans")
			return nil
		}
		tokens.Add(some...)
	}
	var g guard
	for _, t := range tokens {
		what, do := g.next(t)
		if what != "" {
			found.add(spot{t.Position.Line, t.Position.Column}, what, do)
			return nil
		}
	}
	return tokens
}

// guard follows the nesting of the tokens.
type guard struct {
	flow  int          // open brackets and braces
	block []blockLevel // by growing column
	last  *token.Token // the token before; of a colon, the key
	line  int
	items int // list items begun on this line
}

type blockLevel struct{ column, keys int }

func (g *guard) next(t *token.Token) (what, do string) {
	before := g.last
	g.last = t
	switch t.Type {
	case token.AnchorType, token.AliasType, token.MergeKeyType:
		return unused("anchors and aliases", "write the value out", t)
	case token.TagType:
		return unused("tags", "remove the tag", t)
	case token.MappingKeyType:
		return unused("keys with a question mark", "write the key as a plain word", t)
	case token.DirectiveType:
		return unused("directives", "remove the line", t)
	case token.MappingStartType, token.SequenceStartType:
		g.flow++
	case token.MappingEndType, token.SequenceEndType:
		g.flow--
	case token.SequenceEntryType:
		g.item(t.Position)
	case token.MappingValueType:
		if g.flow <= 0 && before != nil {
			g.mappingKey(before.Position.Column)
		}
	}
	const is = "check that this is the plan"
	switch {
	case g.flow+len(g.block) > maxNested || g.items > maxNested:
		return fmt.Sprintf("this is nested more than %d levels deep", maxNested), "a plan is nested four levels deep; " + is
	case len(g.block) > 0 && g.block[len(g.block)-1].keys > maxKeys:
		return fmt.Sprintf("a mapping has more than %d keys", maxKeys), "a sub-task has at most 16; " + is
	}
	return "", ""
}

func unused(feature, instead string, t *token.Token) (what, do string) {
	mark, _ := utf8.DecodeRuneInString(t.Value)
	return "YAML " + feature + " are not used in plans",
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
	for len(g.block) > 0 && g.block[len(g.block)-1].column > column {
		g.block = g.block[:len(g.block)-1]
	}
	if len(g.block) == 0 || g.block[len(g.block)-1].column < column {
		g.block = append(g.block, blockLevel{column: column})
	}
	g.block[len(g.block)-1].keys++
}
