//go:build chromium

package web_test

import (
	"cmp"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

// way is a way to look at a page.
type way struct {
	name, colours string
	width         int
}

// ways to look at every page. Others are only measured.
var (
	ways     = []way{{"light", "light", 1100}, {"dark", "dark", 1100}, {"phone", "light", 390}, {"wide", "light", 1600}}
	measured = []way{{"phone, dark", "dark", 390}, {"tablet", "light", 760}}
)

// shot is a picture in the contact sheet.
type shot struct{ Group, Name, File string }

// gallery takes the pictures of pages.
type gallery struct {
	*tab
	out   string
	shots []shot
}

// page looks at a page in all ways, with what ready does to it. It fails if the page is wider than its window, or if a text
// has too little contrast. With a name, it takes pictures.
func (g *gallery) page(name, address string, ready func()) {
	g.t.Helper()
	for i, how := range append(append([]way{}, ways...), measured...) {
		g.look(how.width, how.colours)
		g.load(address)
		if ready != nil {
			ready()
		}
		if wide := g.eval("document.documentElement.scrollWidth"); wide != fmt.Sprint(how.width) {
			g.t.Errorf("%s is %s pixels wide in a window of %d", address, wide, how.width)
		}
		if found := g.eval(pale); found != `""` {
			g.t.Errorf("%s, %s: pale: %s", address, how.name, found)
		}
		if name != "" && i < len(ways) {
			file := name + "-" + how.name + ".png"
			g.picture(filepath.Join(g.out, file), 2600)
			g.shots = append(g.shots, shot{"Pages, " + how.name, name, file})
		}
	}
}

// enter serves the pages of the project in dir, and signs the browser in.
func (g *gallery) enter(dir string) (root string) {
	g.t.Helper()
	s := site(g.t, dir, "")
	root = serve(g.t, s)
	g.load(s.Links()[0]) // which redirects by itself
	g.until("location.pathname === '/'")
	return root
}

// TestChromium runs under `make look`. It takes pictures of the pages, light, dark and on a phone, and of the terminal, and
// puts them on one contact sheet for people to look at. UI_PROJECT names a project of your own. It fails if the browser
// reports an error, if a page is wider than its window, or if a text has too little contrast.
func TestChromium(t *testing.T) {
	out := os.Getenv("SCREENSHOTS")
	if out == "" {
		t.Fatal("SCREENSHOTS names no directory for the pictures")
	}
	browser := start(t)
	g := &gallery{tab: browser.open(), out: out}
	dir, id, task := os.Getenv("UI_PROJECT"), os.Getenv("UI_BOULDER"), os.Getenv("UI_TASK")
	own := dir != ""
	if !own {
		dir, id, task = filepath.Join(t.TempDir(), "notes"), showcaseID, "toggle"
		showcase(t, dir)
	}
	root := g.enter(dir)
	all := [][2]string{
		{"home", "/"}, {"boulder", "/b/" + id}, {"task", "/b/" + id + "/t/" + task}, {"changes", "/b/" + id + "/changes"},
		{"time", "/b/" + id + "/time"}, {"log", "/b/" + id + "/log"}, {"report", "/b/" + id + "/report"}, {"list", "/boulders"},
		{"redo", "/b/" + id + "/redo?task=" + task}, {"file", "/plan"},
	}
	if !own {
		all = append(all, [2]string{"agree", "/b/" + planID}, [2]string{"edit", "/b/" + planID + "/plan"})
	}
	for _, of := range all {
		g.page(of[0], root+of[1], nil)
	}
	if !own {
		g.frozen(dir, id)
		g.terminals(dir, id)
		g.readme(root + "/b/" + id)
		g.hostile()
		live(t, g)
	}
	g.sheet()
	for _, fault := range browser.faults {
		t.Errorf("the browser says: %s", fault)
	}
}

// frozen looks at the report of a boulder as a file.
func (g *gallery) frozen(dir, id string) {
	g.t.Helper()
	file := filepath.Join(g.out, "report.html")
	content := enter(g.t, site(g.t, dir, "")).get("/b/" + id + "/report.html")
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		g.t.Fatal(err)
	}
	g.page("file-of-the-report", "file://"+file, nil)
}

// readme takes the pictures that are at the top of the README, if PICTURES says where to.
func (g *gallery) readme(address string) {
	g.t.Helper()
	to := os.Getenv("PICTURES")
	if to == "" {
		return
	}
	g.look(1100, "light")
	g.load(address)
	g.picture(filepath.Join(to, "page.png"), 1310)
	terminal, err := os.ReadFile(filepath.Join(g.out, terminalShown))
	if err == nil {
		err = os.WriteFile(filepath.Join(to, "terminal.png"), terminal, 0o644)
	}
	if err != nil {
		g.t.Error(err)
	}
}

// hostile looks at pages with texts that try to be markup, words that cannot be wrapped, and mistakes in a plan.
func (g *gallery) hostile() {
	g.t.Helper()
	dir := g.t.TempDir()
	blocked(g.t, dir)
	asking(g.t, dir)
	long := begun(g.t, dir, "01k3long", strings.Repeat("Wortzusammensetzung", 12), time.Now())
	name := strings.Repeat("x", 60)
	adopt(long, []boulder.Spec{{ID: name, Subject: strings.Repeat("y", 150), Description: strings.Repeat("z", 300), Gates: []string{strings.Repeat("g", 200)}}})
	storeIn(g.t, dir, long)
	root := g.enter(dir)
	open := func() { g.eval("document.querySelectorAll('details').forEach((d) => { d.open = true })") }
	for _, path := range []string{
		"/", "/b/01k3middle", "/b/01k3middle/t/toggle", "/b/01k3middle/log", "/b/01k3middle/report", "/b/01k3plan", "/b/01k3replan",
		"/b/01k3plan/plan", "/b/01k3long", "/b/01k3long/t/" + name, "/b/01k3long/time", "/boulders",
	} {
		g.page("", root+path, open)
	}
	g.page("mistakes", root+"/b/01k3plan/plan", func() {
		g.eval(`const f = document.querySelector("#plan"); f.value = f.value.replace("subject: Do two", "subjekt: Do two").replace("- one", "- gone");
			f.form.querySelector("button[value=check]").click()`)
		g.until(`document.querySelector("#wrong li")`)
	})
}

// sheet writes all pictures into one page and one picture.
func (g *gallery) sheet() {
	g.t.Helper()
	var s strings.Builder
	s.WriteString("<!doctype html><html lang=en><meta charset=utf-8><title>Every screen</title><style>" +
		"body{font:14px system-ui,sans-serif;margin:16px;background:#eee}main{display:block}h2{margin:24px 0 8px}div{display:flex;flex-wrap:wrap;gap:12px}" +
		"figure{margin:0;width:300px}figure img{width:300px;height:380px;object-fit:cover;object-position:top;border:1px solid #999;background:#fff}" +
		"figure.wide img{height:auto}</style><main><h1>Every screen</h1>")
	group := ""
	var groups []string
	for _, of := range g.shots {
		if !slices.Contains(groups, of.Group) {
			groups = append(groups, of.Group)
		}
	}
	slices.SortStableFunc(g.shots, func(a, b shot) int {
		return cmp.Compare(slices.Index(groups, a.Group), slices.Index(groups, b.Group))
	})
	for _, of := range g.shots {
		if of.Group != group {
			fmt.Fprintf(&s, "%s<h2>%s</h2><div>", text.If(group != "", "</div>"), of.Group)
			group = of.Group
		}
		fmt.Fprintf(&s, `<figure%s><a href="%s"><img src="%[2]s" alt=""></a><figcaption>%s</figcaption></figure>`,
			text.If(strings.HasPrefix(of.Group, "Terminal"), " class=wide"), of.File, template.HTMLEscapeString(of.Name))
	}
	s.WriteString("</div></main>")
	file := filepath.Join(g.out, "sheet.html")
	if err := os.WriteFile(file, []byte(s.String()), 0o644); err != nil {
		g.t.Fatal(err)
	}
	g.look(1600, "light")
	g.load("file://" + file)
	g.picture(filepath.Join(g.out, "sheet.png"), 8000)
	g.t.Logf("every screen: %s", file)
}

// live checks that changes reach an open page, and that they leave alone what the user is typing.
func live(t *testing.T, g *gallery) {
	t.Helper()
	p, dir, at := g.tab, t.TempDir(), sample.New(t, "01k3live")
	at.Play()
	storeIn(t, dir, at)
	root := g.enter(dir)
	p.look(1100, "light")
	p.load(root + "/b/" + at.ID)
	p.eval(`document.querySelector("#note-all").open = true; document.querySelector("#note").value = "half a"; 0`)
	at.Apply(boulder.Noted{Text: "written meanwhile"})
	storeIn(t, dir, at)
	p.until(`document.querySelector("#feed").textContent.includes("written meanwhile")`)
	if got := p.eval(`document.querySelector("#note").value`); got != `"half a"` {
		t.Errorf("what was being typed is %s", got)
	}
	// An order from the page comes back as an event.
	p.eval(`document.querySelector("#note").value = "said on the page"; document.querySelector("#note").form.querySelector("button").click()`)
	p.until(fmt.Sprintf(`document.querySelector(".told")?.textContent.includes(%q)`, "Noted for all sub-tasks"))
	p.until(`document.querySelector("#feed").textContent.includes("said on the page")`)
}
