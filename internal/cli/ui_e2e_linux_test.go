package cli

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// uiPage is a browser without scripts at `manager ui`, which runs beside what else runs in the project.
type uiPage struct {
	t    *testing.T
	root string
	http.Client
}

// openUI lets a browser in. end ends the command, which is a success.
func openUI(t *testing.T, dir string, env []string) (u *uiPage, end func()) {
	t.Helper()
	p := startManager(t, dir, env, "ui", "--json")
	link, _ := p.until("ui")["links"].([]any)[0].(string)
	root, _, _ := strings.Cut(link, "/link/")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u = &uiPage{t: t, root: root, Client: http.Client{Jar: jar}}
	u.read(u.Get(link))
	return u, func() {
		t.Helper()
		p.signal(syscall.SIGINT)
		p.wait(exitOK)
	}
}

func (u *uiPage) read(answer *http.Response, err error) string {
	u.t.Helper()
	if err != nil {
		u.t.Fatal(err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		u.t.Fatalf("%s: %s, %v\n%s", answer.Request.URL, answer.Status, err, content)
	}
	return string(content)
}

// page is what is shown at a path.
func (u *uiPage) page(path string) string {
	u.t.Helper()
	return u.read(u.Get(u.root + path))
}

// send sends a form, and gives the page that it leads to.
func (u *uiPage) send(path string, form url.Values) string {
	u.t.Helper()
	return u.read(u.PostForm(u.root+path, form))
}

// The results of an isolated run land from the page: first it says what would be written, and writes nothing.
func TestLandOnThePage(t *testing.T) {
	t.Parallel()
	write := scriptmodel.ToolCall{Name: "bash", Args: map[string]any{"command": "echo new > new.txt", "description": "Write it"}}
	w := directWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
		switch {
		case req.Kind() == scriptmodel.KindStructured:
			return content
		case req.AssistantTurns() == 0:
			return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{write}}
		}
		return scriptmodel.Reply{Text: "The file is written, and there is nothing else to do."}
	}, map[string]string{
		"plan.yaml": "task: Write it\nmodel: scripted/agent\nsub_tasks: [{id: one, description: Write new.txt, gates: [test -s new.txt]}]\n",
	})
	p := startManager(t, w.dir, w.env, "run", "plan.yaml", "--isolate", "--json", w.attached())
	id, _ := p.until("task-complete")["boulder_id"].(string)
	p.wait(exitOK)
	file := filepath.Join(w.dir, "new.txt")
	ui, endUI := openUI(t, w.dir, w.env)
	if shown := ui.page("/b/" + id); !strings.Contains(shown, "Land the results") {
		t.Errorf("the boulder's page does not lead to its landing:\n%s", shown)
	}
	if shown := ui.page("/b/" + id + "/land"); !strings.Contains(shown, "write <code>new.txt</code>") || exists(file) {
		t.Errorf("new.txt is there: %v; before the landing the page shows:\n%s", exists(file), shown)
	}
	if shown := ui.send("/b/"+id+"/land", url.Values{"how": {"files"}}); !strings.Contains(shown, "Results: landed in your files") {
		t.Errorf("the page does not land:\n%s", shown)
	}
	if got, err := os.ReadFile(file); string(got) != "new\n" || err != nil {
		t.Errorf("new.txt has %q, %v", got, err)
	}
	if shown := ui.page("/b/" + id); strings.Contains(shown, "Land the results") {
		t.Error("what has landed can be landed again")
	}
	said := ui.page("/b/" + id + "/t/one")
	for _, want := range []string{"gate passed: ", "&#43;new", "$ echo new &gt; new.txt", " tokens"} { // why, changes, transcript, cost
		if !strings.Contains(said, want) {
			t.Errorf("the sub-task's page lacks %q:\n%s", want, said)
		}
	}
	endUI()
}
