package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/octest"
	"github.com/bouldermgr/manager/internal/scriptmodel"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/store"
)

// What is typed after /blockers inside a real OpenCode, which was started somewhere else, is carried out in the
// project, whatever it looks like to a shell, and the agent is given what came of it.
func TestSlashInOpenCode(t *testing.T) {
	t.Parallel()
	model := octest.Model(t, func(context.Context, scriptmodel.Request) scriptmodel.Reply {
		return scriptmodel.Reply{Text: "done"}
	})
	project := octest.Repo(t, nil)
	env := testEnv(t, model.URL())
	writeFile(t, filepath.Join(project, store.DirName, "config.yaml"), "blockers: {enabled: true}\n")
	if code, stdout, stderr := run(t, project, env, "blockers", "install"); code != 0 ||
		!strings.HasSuffix(stdout, "/blockers from its next start on.\n") {
		t.Fatalf("install: %d\n%s%s", code, stdout, stderr)
	}
	session, _ := mcpClient(t, project, env)
	for _, question := range []string{"May the token stay?", "Which \x1b[31mkey?"} {
		if text, failed := reportBlocker(t, session, hardBlocker(question)); failed {
			t.Fatal(text)
		}
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	_, attach := attached(t, project, env, model)
	_, address, _ := strings.Cut(attach, "=")
	client, err := opencode.Attach(t.Context(), address, opencode.AttachConfig{Password: sharedPassword})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	made, err := client.In(project).CreateSession(t.Context(), opencode.NewSession{Title: "slash"})
	if err != nil {
		t.Fatal(err)
	}
	// says checks what the agent reads between the tags.
	says := func(typed string, all ...string) {
		t.Helper()
		body, err := json.Marshal(map[string]string{
			"command": "blockers", "arguments": typed, "agent": "build",
			"model": scriptmodel.ProviderID + "/" + scriptmodel.ModelAgent,
		})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			address+"/session/"+made.ID+"/command?directory="+url.QueryEscape(project), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.SetBasicAuth("opencode", sharedPassword)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("/blockers %s: %d %s %v", typed, resp.StatusCode, answer, err)
		}
		requests := model.Requests()
		text := requests[len(requests)-1].LastUser()
		_, text, before := strings.Cut(text, "<output>\n")
		text, _, after := strings.Cut(text, "\n</output>")
		if !before || !after {
			t.Fatalf("/blockers %s: the agent read %q", typed, requests[len(requests)-1].LastUser())
		}
		for _, want := range all {
			if !strings.Contains(text, want) {
				t.Errorf("/blockers %s printed\n%s\nwithout %q", typed, text, want)
			}
		}
	}
	says("", "B1", "B2", "May the token stay?")
	says("list --hard", "B1", "B2")
	says("clarify", "CLARIFY\n2 hard blockers wait for an answer. Ask the user", "    ! B1 (hard, security", "): May the token stay?",
		"blockers answer ID - <<'ANSWER'", "-C "+project)
	says("answer B1 use `rotate` instead", "nothing was done", "backtick")
	says("run something", "/blockers has no command \"run\"")
	const answer = `it's no secret; $(touch pwned) "$HOME" && touch pwned # '`
	says("answer B1 "+answer, "Answered B1")
	says("answer B1 again", "B1 is answered already")
	says("skip B2", "Skipped B2")
	says("clarify", "Nothing waits for an answer.")
	says("off", "off")

	got, err := deskOfProject(t, project).Get(t.Context(), "B1")
	if err != nil || got.Status != boulder.BlockerAnswered || got.Answer != answer {
		t.Errorf("answered: %+v, %v", got, err)
	}
	if deskOfProject(t, project).On(boulder.BlockerScope{SessionID: made.ID}) {
		t.Error("it was not switched off")
	}
	clarified := slices.ContainsFunc(model.Requests(), func(r scriptmodel.Request) bool {
		return strings.Contains(r.LastUser(), boulder.ClarifyPrompt)
	})
	if !clarified {
		t.Error("no prompt is known as that of /blockers clarify")
	}
	for _, dir := range []string{project, shared.home} {
		if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
			t.Errorf("a shell has carried out what was typed, in %s", dir)
		}
	}
	if code, _, stderr := run(t, project, env, "blockers", "uninstall"); code != 0 {
		t.Errorf("uninstall: %d %s", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(project, ".opencode", "command")); err == nil {
		t.Error("uninstall left something behind")
	}
}
