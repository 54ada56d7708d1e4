package web_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/bouldermgr/manager/testkit/golden/sample"
)

// Every page can be read with a screen reader and used from the keyboard: one title, headings in order, a label for every
// field, a name for everything that takes the focus, no id twice.
func TestAccessible(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	blocked(t, dir)
	asking(t, dir)
	over := sample.New(t, "01k3over")
	over.Play()
	over.Finish()
	storeIn(t, dir, over)
	b := enter(t, site(t, dir, ""))
	for _, path := range append(paths(), "/b/01k3over", "/b/01k3over/report.html", "/b/01k3over/t/docs", "/b/01k3middle/t/site") {
		if strings.HasSuffix(path, ".css") || strings.HasSuffix(path, ".js") {
			continue
		}
		root, err := html.Parse(strings.NewReader(b.get(path)))
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range faults(root) {
			t.Errorf("%s: %s", path, fault)
		}
	}
	broken := `<h1>a</h1><h3 id="x">b</h3><p id="x"><input><button></button><a href="/"></a><div tabindex="0"></div>` +
		`<i aria-labelledby="y"></i><details><p></p></details>`
	root, _ := html.Parse(strings.NewReader(broken))
	if got := faults(root); len(got) != 8 {
		t.Errorf("of eight faults these were found: %q", got)
	}
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func said(n *html.Node) string {
	var s strings.Builder
	for of := range n.Descendants() {
		if of.Type == html.TextNode {
			s.WriteString(of.Data)
		}
	}
	return strings.TrimSpace(s.String())
}

// faults returns what a page lacks.
func faults(root *html.Node) (all []string) {
	fault := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	ids, labelled, titles, level := map[string]bool{}, map[string]bool{}, 0, 0
	for n := range root.Descendants() {
		if id := attr(n, "id"); id != "" {
			if ids[id] {
				fault("the id %s is there twice", id)
			}
			ids[id] = true
		}
		if n.Data == "label" {
			labelled[attr(n, "for")] = true
		}
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if of := attr(n, "aria-labelledby"); of != "" && !ids[of] {
			fault("<%s> is named by %s, which is not there", n.Data, of)
		}
		named := attr(n, "aria-label") != "" || attr(n, "aria-labelledby") != ""
		switch n.Data {
		case "h1", "h2", "h3", "h4":
			now := int(n.Data[1] - '0')
			if now > level+1 {
				fault("<%s> %q comes after <h%d>", n.Data, said(n), level)
			}
			if level = now; level == 1 {
				titles++
			}
		case "input", "textarea", "select":
			inLabel := slices.ContainsFunc(slices.Collect(n.Ancestors()), func(a *html.Node) bool { return a.Data == "label" })
			if attr(n, "type") != "hidden" && !labelled[attr(n, "id")] && !inLabel {
				fault("<%s name=%s> has no label", n.Data, attr(n, "name"))
			}
		case "button", "a", "summary", "th", "nav", "progress":
			if said(n) == "" && !named {
				fault("<%s> says nothing", n.Data)
			}
		case "details":
			if first := slices.IndexFunc(slices.Collect(n.ChildNodes()), func(c *html.Node) bool { return c.Data == "summary" }); first < 0 {
				fault("<details> without a summary")
			}
		default:
			if attr(n, "tabindex") != "" && n.Data != "pre" && !named {
				fault("<%s> takes the focus and has no name", n.Data)
			}
		}
	}
	if titles != 1 {
		fault("there are %d titles", titles)
	}
	return all
}
