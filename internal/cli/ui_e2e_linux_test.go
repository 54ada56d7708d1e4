package cli

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"syscall"
	"testing"
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
