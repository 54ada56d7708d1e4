package prompts

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

// passage is a text that may be cut, and the file that holds all of it if it is.
type passage struct {
	text  string
	total int // characters
	path  string
	whole string // what the file gets
}

func newPassage(text, path string) passage {
	return passage{text, utf8.RuneCountInString(text), path, text}
}

// newData is a passage that a model or a tool wrote, as it stands in a brief.
func newData(text, path string) passage {
	p := newPassage(quoted(text), path)
	p.whole = text
	return p
}

// quoted marks every line as data. Unlike a pair of fences this still holds where the text is cut, and no line of it can
// open a heading of the brief.
func quoted(text string) string {
	if text == "" {
		return ""
	}
	return "> " + lineBreaks.Replace(text)
}

var lineBreaks = strings.NewReplacer("\r\n", "\n> ", "\n", "\n> ", "\r", "\n> ")

// fit gives the passage in at most room characters, or in those of the bare notice if these are more, and its file if
// something was cut.
func (p passage) fit(room int) (string, []boulder.File) {
	if p.cost(room) == p.total {
		return p.text, nil
	}
	said := ""
	kept := max(0, room-p.noticeLen()-1)
	if kept > 0 {
		said = text.Head(p.text, kept) + "\n"
	}
	return said + notice(p.total-kept, p.total, p.path), []boulder.File{{Path: p.path, Text: p.whole}}
}

// cost is an upper bound of the characters that fit gives, and exact if nothing is cut.
func (p passage) cost(room int) int {
	if p.total <= room {
		return p.total
	}
	return min(p.total, max(room, p.noticeLen()))
}

// noticeLen is the length of the longest notice, the one of a text that is missing altogether.
func (p passage) noticeLen() int { return noticeLen(p.total, p.path) }

func noticeLen(total int, path string) int {
	return len(noticeFrame) + 2*len(strconv.Itoa(total)) + utf8.RuneCountInString(path)
}

// noticeFrame is what a [notice] has besides its numbers and its path.
const noticeFrame = "[cut:  of  characters; full text: ]"

func notice(missing, total int, path string) string {
	return fmt.Sprintf("[cut: %d of %d characters; full text: %s]", missing, total, path)
}

// clean makes text valid UTF-8 without blank lines around it.
func clean(text string) string {
	return strings.TrimRight(strings.TrimLeft(strings.ToValidUTF8(text, "\uFFFD"), "\r\n"), " \t\r\n")
}
