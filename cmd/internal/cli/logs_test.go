package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view"
)

// transcriptSample stores the sample in a new project, with the transcript of its sub-task toggle.
func transcriptSample(t *testing.T) (project string) {
	t.Helper()
	s := newSample(t)
	project = t.TempDir()
	s.State.Boulder.Project = project
	playNudged(s)
	s.storeIn(project)
	writeFile(t, filepath.Join(project, view.RunsDir, sampleID, "toggle", "1.jsonl"), longTranscript())
	return project
}

// longTranscript has everything that a transcript can have: prompts of manager and of others, thoughts, calls that
// succeeded, failed or never ended, long texts, an answer that broke off.
func longTranscript() string {
	var lines []string
	add := func(second int, fields map[string]any) {
		fields["time"] = sampleStart.Add(time.Duration(second) * time.Second)
		line, err := json.Marshal(fields)
		if err != nil {
			panic(err)
		}
		lines = append(lines, string(line))
	}
	many := func(n int, what string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%s %d\n", what, i+1)
		}
		return b.String()
	}
	add(8, map[string]any{"type": "prompt", "text": "the brief\n"})
	add(9, map[string]any{"type": "reasoning", "text": many(25, "thought")})
	add(9, map[string]any{"type": "tool", "tool": "bash", "state": "completed", "output": many(20, "line"),
		"input": map[string]any{"command": "go test ./...", "description": "Run the tests"}})
	add(9, map[string]any{"type": "tool", "tool": "edit", "state": "error", "error": "no such file",
		"input": map[string]any{"filePath": "settings.go", "oldString": "x"}})
	add(10, map[string]any{"type": "prompt", "text": "You are being nudged."})
	add(10, map[string]any{"type": "tool", "tool": "task", "state": "running", "input": []int{1}})
	add(10, map[string]any{"type": "text", "text": "It is \x1b[31mdone\x00\u202e.\n" + strings.Repeat("w", 1000)})
	add(10, map[string]any{"type": "end", "finish": "stop"})
	add(14, map[string]any{"type": "prompt", "text": "[manager] This session was interrupted from outside."})
	add(14, map[string]any{"type": "prompt", "text": "do something else"})
	add(15, map[string]any{"type": "end", "error": "APIError: gone"})
	add(15, map[string]any{"type": "new", "text": "of a later version"})
	return strings.Join(lines, "\n") + "\nnot JSON\n"
}

func playNudged(s *sample) {
	ref := boulder.AttemptRef{SubTaskID: "toggle", Attempt: 1}
	s.Plan()
	s.Start(ref)
	s.Apply(boulder.Nudged{
		AttemptRef: ref, Turn: 1, Rule: boulder.RuleErrors, MessageID: "msg_n", Prompt: "You are being nudged.",
	})
	s.Apply(boulder.SubTaskProgress{AttemptRef: ref, Activity: "this is in the transcript"})
	s.End(ref, 1, nil, boulder.Verdict{Summary: "not yet"})
	s.Apply(boulder.Continuation{AttemptRef: ref, Turn: 2, Reason: "not yet", Prompt: "go on"})
	s.Apply(boulder.TurnSent{AttemptRef: ref, Turn: 2, Kind: boulder.TurnContinuation, MessageID: "msg_2"})
	s.Apply(boulder.SubTaskProgress{AttemptRef: ref, Activity: "this is not in it yet"})
}

func TestLogsTellASession(t *testing.T) {
	t.Parallel()
	project := transcriptSample(t)
	checkLooks(t, project, map[string][]string{"logs_session.txt": {"logs", sampleID, "toggle"}})
	expect(t, project, exitOK, []string{"logs", sampleID, "toggle", "--verbose"}, "line 1\n", "this is in the transcript")
	expect(t, project, exitOK, []string{"show"}, "transcript: "+view.RunsDir+"/"+sampleID+"/toggle/1.jsonl")
	stdout, _ := expect(t, project, exitOK, []string{"logs", sampleID, "toggle", "--json"})
	if n := strings.Count(stdout, `"type":"transcript"`); n != strings.Count(longTranscript(), "\n")-1 {
		t.Errorf("%d lines of the transcript were printed:\n%s", n, stdout)
	}
}

// Ctrl-C is the way to leave `logs -f`, so it reports nothing but the interrupt.
func TestFollowEndsByInterrupt(t *testing.T) {
	t.Parallel()
	project := transcriptSample(t)
	holdAs(t, project, processAt{PID: 42})
	signals := make(chan os.Signal, 1)
	defer close(signals)
	var stderr strings.Builder
	printed, done := follow(Env{Args: []string{"logs", "-f", "-C", project}, Stderr: &stderr, Signals: signals})
	printed.Scan() // it follows now, or is about to
	go func() {
		for printed.Scan() {
		}
	}()
	signals <- os.Interrupt
	if code := <-done; code != exitInterrupted || stderr.String() != "manager: interrupted\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}
