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
	"syscall"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// clarifies is an agent that does only what /blockers clarify asks for.
func clarifies(_ context.Context, r scriptmodel.Request) scriptmodel.Reply {
	call := func(tool string, args any) scriptmodel.Reply {
		return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{Name: tool, Args: args}}}
	}
	_, handOver, _ := strings.Cut(r.LastUser(), "word for word:\n\n")
	handOver, _, last := strings.Cut(handOver, "\nANSWER\n")
	switch {
	case !last || !strings.Contains(r.LastUser(), "Which port?"):
	case r.TurnsSinceUser() == 0:
		return call("question", map[string]any{"questions": []map[string]any{{
			"question": "Which port?", "header": "Port", "options": []map[string]any{{"label": "Port 80", "description": "The usual"}},
		}}})
	case r.TurnsSinceUser() == 1:
		said := "nothing"
		if strings.Contains(r.Text(), "Port 4000") {
			said = "Port 4000"
		}
		command := strings.NewReplacer(" ID ", " W3 ", "what the user said", said).Replace(handOver + "\nANSWER")
		return call("bash", map[string]any{"command": command, "description": "Hand it over"})
	}
	return scriptmodel.Reply{Text: "done"}
}

// What is typed after /blockers in a real OpenCode that was started elsewhere runs in the project, whatever it would
// mean to a shell, and the agent gets the output.
func TestSlashInOpenCode(t *testing.T) {
	t.Parallel()
	model := octest.Model(t, clarifies)
	project := octest.Repo(t, nil)
	if err := scriptmodel.Installed(filepath.Join(project, ".opencode")); err != nil {
		t.Fatal(err)
	}
	env := testEnv(t, model.URL())
	writeFile(t, filepath.Join(project, store.DirName, "config.yaml"), "blockers: {enabled: true}\n")
	if code, stdout, stderr := run(t, project, env, "blockers", "install"); code != 0 ||
		!strings.HasSuffix(stdout, "/blockers from its next start on.\n") {
		t.Fatalf("install: %d\n%s%s", code, stdout, stderr)
	}
	session, _ := mcpClient(t, project, env, "blockers", "mcp")
	for _, question := range []string{"May the token stay?", "Which \x1b[31mkey?"} {
		if text, failed := reportBlocker(t, session, hardBlocker(question)); failed {
			t.Fatal(text)
		}
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	withPassword, attach := attached(t, project, env, model)
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
		said := ""
		for _, r := range model.Requests() { // the newest: a watch may have prompted since
			if strings.HasPrefix(r.LastUser(), boulder.SlashPrompt) {
				said = r.LastUser()
			}
		}
		_, text, before := strings.Cut(said, "<output>\n")
		text, _, after := strings.Cut(text, "\n</output>")
		if !before || !after {
			t.Fatalf("/blockers %s: the agent read %q", typed, said)
		}
		for _, want := range all {
			if !strings.Contains(text, want) {
				t.Errorf("/blockers %s printed\n%s\nwithout %q", typed, text, want)
			}
		}
	}
	says("", "W1", "W2", "May the token stay?")
	says("list --hard", "W1", "W2")
	says("clarify", "CLARIFY\n2 hard blockers wait for an answer. Ask the user", "> ! W1 (hard, security", "): May the token stay?",
		"blockers answer ID - <<'ANSWER'", "-C "+project)
	says("answer W1 use `rotate` instead", "nothing was done", "backtick")
	says("run something", "/blockers has no command \"run\"")
	const answer = `it's no secret; $(touch pwned) "$HOME" && touch pwned # '`
	says("answer W1 "+answer, "Answered W1")
	says("answer W1 again", "W1 is answered already")
	says("skip W2", "Skipped W2")
	says("clarify", "Nothing waits for an answer.")
	says("off", "nothing was done", "no `manager watch` is at work", "/blockers off --project")
	says("status", "Nothing is recorded in this session", "blockers on")
	says("off --project", "blockers off")
	says("unset --project", "blockers on")

	// During a watch these words mean the session they are typed in, and the watch reports the outcome there.
	w := startManager(t, project, withPassword, "watch", "--blockers", "--json", attach)
	await(t, func() bool {
		_, _, stderr := run(t, project, env, "watch", "--status")
		return strings.Contains(stderr, "watches, at")
	})
	told := func(typed, want string) {
		t.Helper()
		says(typed, "does this for the session in which it was typed", address)
		await(t, func() bool {
			return slices.ContainsFunc(model.Requests(), func(r scriptmodel.Request) bool {
				return strings.HasPrefix(r.LastUser(), "[manager] What /blockers "+typed) && strings.Contains(r.LastUser(), want)
			})
		})
	}
	on := func(session string) bool {
		return registerOfProject(t, project).On(boulder.BlockerScope{SessionID: session})
	}
	told("off", "blockers off  for session "+made.ID)
	if on(made.ID) || !on("another") {
		t.Error("/blockers off is not that of the session alone")
	}
	told("status", "0 blockers recorded in it")
	told("on", "blockers on  for session "+made.ID)

	// The user answers what clarify asks, and the agent hands the words over.
	session, _ = mcpClient(t, project, env, "blockers", "mcp")
	if text, failed := reportBlocker(t, session, hardBlocker("Which port?")); failed {
		t.Fatal(text)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	asked := client.Subscribe(opencode.Filter{Directory: project})
	<-asked.C() // connected
	go func() {
		for e := range asked.C() {
			if p, ok := e.Payload.(opencode.Asked); ok && e.SessionID == made.ID {
				if err := client.In(project).AnswerQuestion(t.Context(), p.Request.ID, [][]string{{"Port 4000"}}); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	says("clarify", "Which port?")
	asked.Close()
	w.signal(syscall.SIGINT)
	w.wait(exitInterrupted)
	if got, err := registerOfProject(t, project).Get(t.Context(), "W3"); err != nil || got.Answer != "Port 4000" {
		t.Errorf("after clarify: %+v, %v", got, err)
	}

	got, err := registerOfProject(t, project).Get(t.Context(), "W1")
	if err != nil || got.Status != boulder.BlockerAnswered || got.Answer != answer {
		t.Errorf("answered: %+v, %v", got, err)
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
	// The server outlives this project: an installation would go on while the directory is removed.
	logged, err := os.ReadFile(filepath.Join(shared.home, "data", "opencode", "log", "opencode.log"))
	if err != nil || bytes.Contains(logged, []byte("dependency install")) {
		t.Errorf("OpenCode installs its plugin SDK: %v\n%s", err, logged)
	}
}
