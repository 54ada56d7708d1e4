package executor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/enforcer"
	"github.com/bouldermgr/manager/opencode"
	"github.com/bouldermgr/manager/session"
	"github.com/bouldermgr/manager/testkit/octest"
	"github.com/bouldermgr/manager/testkit/scriptmodel"
)

// languageServerVar makes this test binary a language server that reports an error for every line with BAD.
const languageServerVar = "EXECUTOR_TEST_LANGUAGE_SERVER"

// Lint commands, measured before the work, replace a missing language server. A promise lasts for the attempt.
func TestPromiseAndLanguageServer(t *testing.T) {
	t.Parallel()
	for name, turns := range map[string]int{"served": 3, "alone": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			served := name == "served"
			w := newWorld(t, func(_ context.Context, req scriptmodel.Request) scriptmodel.Reply {
				switch {
				case req.TurnsSinceUser() > 0 && strings.Contains(req.LastUser(), "first"):
					return scriptmodel.Reply{Text: "I will write <promise>DONE</promise> when it is done."}
				case req.TurnsSinceUser() > 0:
					return scriptmodel.Reply{Text: "Now it is done and checked.\n\n" + boulder.Promise}
				case strings.Contains(req.LastUser(), "third"):
					return scriptmodel.Reply{Text: "There is nothing more to be said about it."}
				}
				return scriptmodel.Reply{ToolCalls: []scriptmodel.ToolCall{{
					Name: "write", Args: map[string]any{"filePath": "a.foo", "content": "good\nBAD\n"},
				}}}
			})
			if served { // a new repository: OpenCode reads a directory's configuration once
				w.project = octest.Repo(t, files(fmt.Sprintf(`"permission": "allow", "lsp": {"foo":
					{"command": [%q], "extensions": [".foo"], "env": {%q: "1"}}}`, os.Args[0], languageServerVar)))
				w.open()
			}
			a := w.newAttempt("a", "first")
			a.SubTask.DoneWhen = []string{boulder.DoneDiagnostics, boulder.DonePromise}
			a.SubTask.Lint = []string{"! grep BAD a.foo"}
			var promised, alone, linted []bool
			for n := range turns {
				if n > 0 {
					a.Turn = boulder.Turn{
						AttemptRef: a.Attempt.AttemptRef, Number: n + 1, Kind: boulder.TurnContinuation,
						Prompt: []string{"second", "third"}[n-1],
					}
				}
				e := a.mustRun(t, w)
				promised, alone, linted = append(promised, e.Promised), append(alone, e.NoServer), append(linted, len(e.Red()) > 0)
				if found := len(e.Diagnostics) == 1 && e.Diagnostics[0].Line == 2; found != served {
					t.Errorf("turn %d: diagnostics %v", n+1, e.Diagnostics)
				}
			}
			if want := []bool{false, true, true}[:turns]; !slices.Equal(promised, want) {
				t.Errorf("promised: %v", promised)
			}
			if want := slices.Repeat([]bool{!served}, turns); !slices.Equal(alone, want) || !slices.Equal(linted, want) {
				t.Errorf("without a server: %v, red lint: %v, want %v", alone, linted, want)
			}
			if b := a.SubTask.Baseline; len(b) != 1 || !b[0].Green() {
				t.Errorf("before the work: %+v", b)
			}
		})
	}
}

// In a loop the wall clock limits each turn, not the attempt.
func TestWallClockOfALoop(t *testing.T) {
	t.Parallel()
	for perTurn, want := range map[bool]time.Duration{true: 0, false: time.Hour} {
		job := boulder.Job{PerTurn: perTurn, Attempt: boulder.Attempt{Worked: time.Hour}}
		turn := bare(Config{}).newTurn(job, nil)
		turn.tree = session.NewTurn("", enforcer.DefaultRules(), nil)
		if got := turn.asSeen().Worked; got != want {
			t.Errorf("per turn %v: %s of earlier turns count", perTurn, got)
		}
	}
}

// serveLanguage speaks the part of LSP that OpenCode needs.
func serveLanguage(in io.Reader, out io.Writer) error {
	r := bufio.NewReader(in)
	for {
		header, err := textproto.NewReader(r).ReadMIMEHeader()
		if err != nil {
			return err
		}
		length, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64)
		if err != nil {
			return err
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ TextDocument struct{ URI string } }
		}
		if err := json.NewDecoder(io.LimitReader(r, length)).Decode(&m); err != nil {
			return err
		}
		says := ""
		switch uri := m.Params.TextDocument.URI; {
		case strings.HasPrefix(m.Method, "textDocument/did"):
			says = fmt.Sprintf(`"method":"textDocument/publishDiagnostics","params":{"uri":%q,"diagnostics":[%s]}`, uri, badLines(uri))
		case m.ID != nil:
			says = fmt.Sprintf(`"id":%s,"result":{"capabilities":{"textDocumentSync":1}}`, m.ID)
		default:
			continue
		}
		says = `{"jsonrpc":"2.0",` + says + "}"
		fmt.Fprintf(out, "Content-Length: %d\r\n\r\n%s", len(says), says)
	}
}

func badLines(uri string) string {
	text, _ := os.ReadFile(strings.TrimPrefix(uri, "file://")) // a missing file has no bad lines
	var found []string
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Contains(line, "BAD") {
			found = append(found, fmt.Sprintf(`{"range":{"start":{"line":%d,"character":0},"end":{"line":%[1]d,"character":0}},`+
				`"severity":1,"message":"this is bad"}`, i))
		}
	}
	return strings.Join(found, ",")
}

// Without a language server the diagnostics criterion needs a command: alone it would always hold.
func TestNoDiagnostics(t *testing.T) {
	t.Parallel()
	first, second := opencode.Caps{Generation: 1, Diagnostics: true}, opencode.Caps{Generation: 2}
	if why := NoDiagnostics(first, nil) + NoDiagnostics(second, []string{"go vet"}); why != "" {
		t.Errorf("refused: %s", why)
	}
	if why := NoDiagnostics(second, nil); !strings.HasPrefix(why, "OpenCode 2 runs no language servers; use a command (gates, ") {
		t.Errorf("%q", why)
	}
}
