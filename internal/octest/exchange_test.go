package octest_test

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
)

// TestExchange would fail if a test got the answer of another one's model. That the real OpenCode names the directory
// is seen by all tests of internal/cli that share a server.
func TestExchange(t *testing.T) {
	t.Parallel()
	x, err := octest.NewExchange()
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	dir, other := octest.Repo(t, nil), octest.Repo(t, nil)
	inside := filepath.Join(dir, "inside")
	for name, at := range map[string]string{"one": dir, "two": other} {
		model := octest.Model(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
			return scriptmodel.Reply{Text: "from " + name}
		})
		if err := x.Connect(at, model.URL()); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ dir, want string }{
		{dir, "from one"}, {inside, "from one"}, {other, "from two"}, {dir + "more", "no test has a model"}, {"", "no test"},
	} {
		system := `You work.\n  Working directory: ` + test.dir + `\n  Workspace root: /`
		body := `{"model": "agent", "messages": [{"role": "system", "content": "` + system + `"},` +
			`{"role": "user", "content": "Working directory: ` + other + `"}]}`
		if got := ask(t, x.URL(), body); !strings.Contains(got, test.want) {
			t.Errorf("in %q: %s, want %q", test.dir, got, test.want)
		}
	}
}

func ask(t *testing.T, url, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
