package page

import (
	"bytes"
	"html"
	"net/url"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	render "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"

	"github.com/bouldermgr/manager/internal/text"
)

// prose renders what agents, models and users write. HTML is text to its parser, which is why nothing has to be removed
// after it.
var prose = goldmark.New(
	goldmark.WithParser(parser.NewParser(
		parser.WithBlockParsers(
			util.Prioritized(parser.NewThematicBreakParser(), 1), util.Prioritized(parser.NewListParser(), 2),
			util.Prioritized(parser.NewListItemParser(), 3), util.Prioritized(parser.NewCodeBlockParser(), 4),
			util.Prioritized(parser.NewATXHeadingParser(), 5), util.Prioritized(parser.NewFencedCodeBlockParser(), 6),
			util.Prioritized(parser.NewBlockquoteParser(), 7), util.Prioritized(parser.NewParagraphParser(), 8)),
		parser.WithInlineParsers(
			util.Prioritized(parser.NewCodeSpanParser(), 1), util.Prioritized(parser.NewLinkParser(), 2),
			util.Prioritized(parser.NewEmphasisParser(), 3)),
		parser.WithParagraphTransformers(parser.DefaultParagraphTransformers()...))),
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignNone))),
	goldmark.WithRendererOptions(render.WithHardWraps(), render.WithXHTML(),
		renderer.WithNodeRenderers(util.Prioritized(links{}, 1))),
)

// Prose renders Markdown for an HTML page: no HTML of the text, no pictures, headings as bold lines, and only links to the web.
func Prose(s string) string {
	var b bytes.Buffer
	if err := prose.Convert([]byte(text.Safe(s)), &b); err != nil { // a buffer takes everything
		return "<pre>" + html.EscapeString(text.Safe(s)) + "</pre>"
	}
	return b.String()
}

// links renders what leads out of a text, and what would be part of the page's outline.
type links struct{}

func (links) RegisterFuncs(to renderer.NodeRendererFuncRegisterer) {
	to.Register(ast.KindHeading, func(w util.BufWriter, _ []byte, _ ast.Node, enters bool) (ast.WalkStatus, error) {
		_, err := w.WriteString(map[bool]string{true: "<p><b>", false: "</b></p>\n"}[enters])
		return ast.WalkContinue, err
	})
	to.Register(ast.KindLink, func(w util.BufWriter, _ []byte, n ast.Node, enters bool) (ast.WalkStatus, error) {
		return link(w, n.(*ast.Link).Destination, enters)
	})
	to.Register(ast.KindImage, func(w util.BufWriter, _ []byte, n ast.Node, enters bool) (ast.WalkStatus, error) {
		return link(w, n.(*ast.Image).Destination, enters)
	})
}

// link makes a link to the web. Other addresses, such as files of the project, lead nowhere from a page: only their text stays.
func link(w util.BufWriter, to []byte, enters bool) (ast.WalkStatus, error) {
	address := webAddress(string(to))
	if address == "" {
		return ast.WalkContinue, nil
	}
	tag := "</a>"
	if enters {
		tag = `<a rel="nofollow noreferrer" href="` + html.EscapeString(address) + `">`
	}
	_, err := w.WriteString(tag)
	return ast.WalkContinue, err
}

// webAddress returns the normal form of an address of the web, "" of any other.
func webAddress(s string) string {
	if u, err := url.Parse(s); err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
		return u.String()
	}
	return ""
}
