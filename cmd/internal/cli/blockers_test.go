package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/bouldermgr/manager/blockers"
	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// blockedSample is a boulder that waits for the user: the hard B1 blocks theme, whose agent chose for itself in B2;
// lang was refused a permission, B3, and continued. W1 belongs to a session outside of the run.
func blockedSample(t *testing.T) (project string) {
	t.Helper()
	return blockedSampleIn(t, t.TempDir())
}

func blockedSampleIn(t *testing.T, project string) string {
	t.Helper()
	s := newSample(t)
	s.Plan()
	theme, lang := boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}, boulder.AttemptRef{SubTaskID: "lang", Attempt: 1}
	s.Start(theme)
	s.Start(lang)
	s.Raise(theme, boulder.Blocker{
		Category: "security", Question: "Which key signs the theme?",
		Context: "theme.css is loaded from a CDN.\nWithout a signature anybody could change it.", Hard: true,
	})
	s.Raise(theme, boulder.Blocker{
		Category: "architecture", Question: "Variables or classes?", Context: "Both work.",
		Options: []string{"CSS variables", "classes", "two files"}, ChosenOption: "CSS variables",
		ChosenReasoning: "They need no build step.",
	})
	s.Raise(lang, boulder.Blocker{
		Category: "permission", Question: "May it run git push?", Ask: &boulder.Ask{
			Kind: boulder.AskPermission, RequestID: "per_1", Permission: "bash", Patterns: []string{"git push *"},
			Tool: "bash", Arguments: `{"command":"git push origin main"}`,
		},
	})
	_, err := registerOfProject(t, project).Raise(t.Context(), boulder.BlockerScope{SessionID: "ses_alone"}, boulder.Blocker{
		Category: "destructive", Question: "Drop the table\x1b[31m users?", Context: "It is empty.", Hard: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Apply(boulder.TurnEnded{AttemptRef: theme, Turn: 1, Evidence: boulder.Evidence{FinalMessage: "I wait."}})
	s.Apply(boulder.Parked{
		AttemptRef: theme, Reason: "waits for an answer to B1: Which key signs the theme?", Digest: "It waits.",
	})
	s.storeIn(project)
	return project
}

// registerOfProject opens a project's register as the command line does, with the diverter on.
func registerOfProject(t *testing.T, project string) *blockers.Register {
	t.Helper()
	d, err := blockers.Open(blockers.Config{
		Root: project, Enabled: true,
		Now: func() time.Time { return time.Now().Add(-3 * time.Hour) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// answerCase is a command line about a blocker and its outcome.
type answerCase struct {
	args []string
	code int
	says string // part of the output
}

// An answer is stored and reaches the boulder, whether a process holds the database or not.
func TestAnswersWhileItRunsAndWhileNot(t *testing.T) {
	t.Parallel()
	alone, held := blockedSample(t), blockedSample(t)
	hold(t, held, true)
	for _, test := range []answerCase{
		{[]string{"answer", "B1"}, exitUsage, "needs a text"},
		{[]string{"answer", "B1", " \n "}, exitUsage, "needs a text"},
		{[]string{"answer", "B1", strings.Repeat("ü", 4_001)}, exitUsage, "may have 4000"},
		{[]string{"answer", "B1", "--allow"}, exitUsage, "asks for no permission"},
		{[]string{"answer", "B3", "Yes."}, exitUsage, "--allow"},
		{[]string{"answer", "B9", "x"}, exitUsage, "there is no blocker"},
		{[]string{"answer", "1", "x"}, exitUsage, "did you mean B1?"},
		{[]string{"answer"}, exitUsage, "needs ID [\"TEXT\" | -]: see `manager blockers answer --help`"},
		{[]string{"skip", "B1", "B2"}, exitUsage, "takes one ID of `manager blockers list`, not \"B1 B2\""},
		{[]string{"answer", "b1", "Use", "the release key"}, exitOK, `"awaited":[]`},
		{[]string{"answer", "B1", "another"}, exitError, "B1 is answered already"},
		{[]string{"skip", "B1"}, exitError, "Use the release key; say more with: manager note --sub-task theme"},
		{[]string{"answer", "B3", "--allow", "but not to main"}, exitOK, `"allowed":true`},
		{[]string{"skip", "B2"}, exitOK, `"status":"skipped"`},
		{[]string{"answer", "w1", "no"}, exitOK, `"id":"W1"`},
	} {
		sameInBoth(t, alone, held, test.code, append([]string{"blockers"}, test.args...), test.says)
	}
	for _, project := range []string{alone, held} { // what the sub-tasks know; theme no longer waits
		expect(t, project, exitOK, []string{"show", "--json"}, `"tally":{"planned":6,"in_progress":1}`,
			`"status":"answered","answer":"Use the release key"`, `"chosen_option":"CSS variables","chosen_reasoning":"They need no build step.","status":"skipped"`,
			`"status":"answered","answer":"but not to main","allowed":true`)
	}
}

// sameInBoth checks that a command line does the same with and without a holder of the database. Returns its output.
func sameInBoth(t *testing.T, alone, held string, code int, args []string, says ...string) (printed [2]map[string]any) {
	t.Helper()
	var said [2]string
	for i, project := range []string{alone, held} {
		stdout, stderr := expect(t, project, code, append(args, "--json"), says...)
		if err := json.Unmarshal([]byte(stdout), &printed[i]); err != nil && (code == exitOK || stdout != "") {
			t.Errorf("%q prints %q: %v", args, stdout, err)
		}
		said[i] = varying[0].what.ReplaceAllString(stderr, "")
	}
	diff := cmp.Diff(printed[0], printed[1], cmpopts.IgnoreMapEntries(func(k string, _ any) bool {
		return k == "run_by" || k == "at_work" || k == "left" || strings.HasSuffix(k, "_at") // a holder ends its agents
	}))
	if diff != "" || said[0] != said[1] {
		t.Errorf("%q: alone (-), held (+):\n%s%s%s", args, diff, said[0], said[1])
	}
	return printed
}

// An answer to what is over is refused and not stored.
func TestAnswerTooLate(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	expect(t, project, exitOK, []string{"skip", "theme"})
	for _, test := range []answerCase{
		{[]string{"answer", "B1", "x"}, exitError, `sub-task "theme" is skipped, so nothing would continue with an answer to B1`},
		{[]string{"show", "B1"}, exitOK, `Nothing waits for an answer: sub-task "theme" is skipped`},
		{[]string{"skip", "B1"}, exitError, `sub-task "theme" is skipped, so nothing would continue with an answer to B1`},
	} { // nothing is left to note
		expect(t, project, test.code, append([]string{"blockers"}, test.args...), test.says, "!manager note")
	}
	expect(t, project, exitOK, []string{"cancel"})
	expect(t, project, exitError, []string{"blockers", "answer", "B3", "--allow"}, "boulder "+shortID+" is cancelled, so nothing would continue")
}

// An answer that no process takes is not said to be stored.
func TestAnswerThatNobodyTakes(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	db := openState(t, project)
	stdout, _ := expect(t, project, exitHeld, []string{"blockers", "answer", "B1", "x"}, "it does not answer: try again")
	if stdout != "" {
		t.Errorf("%q", stdout)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	expect(t, project, exitOK, []string{"blockers", "show", "B1"}, "Answer with: manager blockers answer B1")
}

// Secrets are removed from answers, and the user is told.
func TestAnswerWithASecret(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	const token = "ghp" + "_0123456789abcdefghijABCDEFGHIJ012345"
	stdout, _ := expect(t, project, exitOK, []string{"blockers", "answer", "B1", "Use " + token, "--json"},
		"The answer holds a GitHub token")
	list, err := os.ReadFile(filepath.Join(project, blockers.DefaultFile))
	if err != nil {
		t.Fatal(err)
	}
	shown, _, _ := command(project, "show", "--json")
	for where, text := range map[string]string{"stdout": stdout, "blockers.md": string(list), "the boulder": shown} {
		if strings.Contains(text, token) || !strings.Contains(text, "redacted") {
			t.Errorf("in %s: %s", where, text)
		}
	}
}

// While a run with --blockers is active, the status says that it is diverted. A switch overrides the flag.
func TestBlockersStatusOfARun(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	s.Play()
	s.Apply(boulder.Resumed{Diverted: true})
	project := s.store()
	status := []string{"blockers", "status"}
	expect(t, project, exitOK, status, "blockers off")
	hold(t, project, false)
	expect(t, project, exitOK, status, "blockers on  by --blockers of what is at work: "+shortID)
	run, asked := []string{"run", "nosuch.yaml"}, []string{"run", "nosuch.yaml", "--blockers"}
	expect(t, project, exitUsage, asked, "!manager blockers unset")
	expect(t, project, exitOK, []string{"blockers", "off"}, "blockers off  by `manager blockers off`")
	expect(t, project, exitUsage, asked, "--blockers changes nothing", "manager blockers unset") // says why
	expect(t, project, exitUsage, run, "!manager blockers unset")
	expect(t, project, exitOK, []string{"blockers", "on"})
	expect(t, project, exitUsage, asked, "!manager blockers unset")
}

// An export that fails leaves no file, and without --force an existing one is not overwritten.
func TestBlockersExportToAFile(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	file := project + "/night.md"
	for _, test := range []answerCase{
		{[]string{"-o", "night.md"}, exitOK, "Exported 4 blockers to"},
		{[]string{"-o", "night.md"}, exitUsage, "night.md is there already, and is not overwritten"},
		{[]string{"-o", "night.md", "--force", "--hard"}, exitOK, "Exported 2 blockers to"},
		{[]string{"-o", ".manager"}, exitUsage, "is there already"},
		{[]string{"-o", "none/night.md"}, exitUsage, "there is no directory"},
		{[]string{"-o", "data.jsonl"}, exitOK, "Exported 4 blockers to"},
		{[]string{"-o", "data.md", "--json"}, exitOK, ""},
		{[]string{"--force"}, exitUsage, "--force is for the file of -o"},
	} {
		expect(t, project, test.code, append([]string{"blockers", "export"}, test.args...), test.says)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), "# Blockers\n\n2 blockers, 2 of them without an answer.") {
		t.Errorf("%v: %s", err, text)
	}
	for name, begins := range map[string]string{"data.jsonl": `{"type":"blocker-record","id":"B1",`, "data.md": "# Blockers\n"} {
		if text, err := os.ReadFile(filepath.Join(project, name)); err != nil || !strings.HasPrefix(string(text), begins) {
			t.Errorf("%s: %v: %s", name, err, text)
		}
	}
	writeFile(t, filepath.Join(project, store.DirName, "blockers.db"), "damaged")
	expect(t, project, exitError, []string{"blockers", "export"}, "3 blockers, 3 of them without an answer", "damaged")
	expect(t, project, exitError, []string{"blockers", "export", "-o", "night.md", "--force"}, "!# Blockers", "damaged")
	expect(t, project, exitError, []string{"doctor", "--opencode", "nosuch"}, "blockers.db")
	if unchanged, err := os.ReadFile(file); err != nil || string(unchanged) != string(text) {
		t.Errorf("%v: %s", err, unchanged)
	}
	if left, err := os.ReadDir(project); err != nil || len(left) != 4 { // with .manager
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// The list has all blockers of several boulders and sessions, while a process holds the state and while none does.
func TestManyBlockers(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	s := newSampleOf(t, "01k4other")
	s.Plan()
	theme := boulder.AttemptRef{SubTaskID: "theme", Attempt: 1}
	s.Start(theme)
	for i := range 500 {
		b := boulder.Blocker{
			ID: fmt.Sprint("B", 100+i), Category: "question", Question: fmt.Sprintf("Question %d?", i), Hard: true,
			Status: boulder.BlockerPending, CreatedAt: s.Now,
		}
		s.Apply(boulder.BlockerRaised{AttemptRef: theme, Blocker: b})
	}
	s.storeIn(project)
	count := func() int {
		stdout, _ := expect(t, project, exitOK, []string{"blockers", "list", "--json"})
		return strings.Count(stdout, `"type":"blocker-record"`)
	}
	if n := count(); n != 504 {
		t.Errorf("%d blockers are listed, want 504", n)
	}
	hold(t, project, true)
	if n := count(); n != 504 {
		t.Errorf("%d blockers are listed through the holder, want 504", n)
	}
	expect(t, project, exitOK, []string{"blockers", "answer", "B599", "this one"}, `Answered B599. "theme" still waits for B100`)
	list, err := os.ReadFile(filepath.Join(project, blockers.DefaultFile))
	if err != nil || strings.Contains(string(list), "B599") { // the holder writes it, and this one only plays one
		t.Errorf("%v: %s", err, list)
	}
	expect(t, project, exitOK, []string{"blockers", "status"}, "501 hard blockers wait")
	if list, err = os.ReadFile(filepath.Join(project, blockers.DefaultFile)); err != nil || strings.Count(string(list), "\n- [ ] ") != 504 {
		t.Errorf("%v: %d", err, strings.Count(string(list), "\n- [ ] "))
	}
}
