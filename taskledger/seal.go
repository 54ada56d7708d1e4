package taskledger

import (
	"bytes"
	"errors"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/bouldermgr/manager/boulder"
)

// Seal gives a copy of a plan with a seal: base is the commit that it was made on (empty outside git), model the ledger
// model that made it (empty if none was asked), now the time. In the copy, what may be left out is filled in, so that
// it has the hash that [Parse] will find.
func Seal(plan *boulder.Plan, base string, origin boulder.Origin, model string, now time.Time) *boulder.Plan {
	p := clone(*plan)
	fill(p)
	p.Seal = &boulder.Seal{
		Base: base, Hash: p.Hash(), Origin: origin, Model: model, CreatedAt: now.UTC().Truncate(time.Second),
	}
	return p
}

// Reseal gives a plan file with another seal in the place of the one it has, or at its end. Everything else stays byte
// for byte. A file in JSON or in flow style cannot be resealed, nor one that is no plan ([*FileError]).
func Reseal(original []byte, seal boulder.Seal) ([]byte, error) {
	const file = "plan file"
	before, err := Parse(file, original)
	if err != nil {
		return nil, err
	}
	root, ok := parseSyntax(original, &problems{file: file}).(*ast.MappingNode)
	if !ok || root.IsFlowStyle {
		return nil, errors.New("reseal the plan file: it is written as JSON or in flow style: write it in YAML's block style")
	}
	head, tail := cutSeal(original, root)
	if len(head) > 0 && !bytes.HasSuffix(head, []byte("\n")) {
		head = append(head, '\n')
	}
	// The library's positions decide where to cut; that they were right is seen from the result.
	resealed := bytes.Join([][]byte{head, sealLines(seal, spotOf(root).column-1, before.Seal == nil), tail}, nil)
	after, err := Parse(file, resealed)
	if err != nil || after.Hash() != before.Hash() || after.Seal == nil || after.Seal.Hash != seal.Hash {
		return nil, errors.New("reseal the plan file: the seal is written in an unusual way: remove it and try again")
	}
	return resealed, nil
}

// sealLines writes a seal for a file whose keys are indented. A new one comes with its explanation.
func sealLines(seal boulder.Seal, indent int, isNew bool) []byte {
	w := &writer{}
	w.seal(seal)
	text := w.String()
	if isNew {
		text = "\n" + text
	} else {
		text = strings.TrimPrefix(text, sealHeader)
	}
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		if line != "\n" {
			line = strings.Repeat(" ", indent) + line
		}
		b.WriteString(line)
	}
	return b.Bytes()
}

// cutSeal gives what stands before the seal and what comes after it; without a seal, everything comes before.
func cutSeal(data []byte, root *ast.MappingNode) (head, tail []byte) {
	for _, entry := range root.Values {
		if entry.Key.GetToken().Value != "seal" {
			continue
		}
		at := spotOf(entry.Key)
		lines := bytes.SplitAfter(data, []byte("\n"))
		end := at.line // the lines that are indented deeper belong to it, and blank ones between them
		for i := end; i < len(lines) && (isBlank(lines[i]) || indentation(lines[i]) >= at.column); i++ {
			if !isBlank(lines[i]) {
				end = i + 1
			}
		}
		return bytes.Join(lines[:at.line-1], nil), bytes.Join(lines[end:], nil)
	}
	if end := bytes.LastIndex(data, []byte("\n...")); end >= 0 && isBlank(data[end+len("\n..."):]) {
		return data[:end:end], data[end:] // before the mark that ends the document
	}
	return data[:len(data):len(data)], nil
}

func isBlank(line []byte) bool { return len(bytes.TrimSpace(line)) == 0 }

// indentation is the number of spaces before a line's text.
func indentation(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }
