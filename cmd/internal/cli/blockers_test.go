package cli

import (
	"encoding/json"
	"errors"
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
// lang was refused a permission, B3, and continued. B4 belongs to a session outside of the run.
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
	d := registerOfProject(t, project)
	scope := func(of string) boulder.BlockerScope {
		return boulder.BlockerScope{BoulderID: s.ID, SubTaskID: of, Attempt: 1, SessionID: "ses_" + of}
	}
	raise := func(scope boulder.BlockerScope, in boulder.Blocker) boulder.Blocker {
		b, err := d.Raise(t.Context(), scope, in)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	s.Apply(boulder.BlockerRaised{AttemptRef: theme, Blocker: raise(scope("theme"), boulder.Blocker{
		Category: "security", Question: "Which key signs the theme?",
		Context: "theme.css is loaded from a CDN.\nWithout a signature anybody could change it.", Hard: true,
	})})
	s.Apply(boulder.BlockerRaised{AttemptRef: theme, Blocker: raise(scope("theme"), boulder.Blocker{
		Category: "architecture", Question: "Variables or classes?", Context: "Both work.",
		Options: []string{"CSS variables", "classes", "two files"}, ChosenOption: "CSS variables",
		ChosenReasoning: "They need no build step.",
	})})
	ruling, err := d.Divert(t.Context(), boulder.Blocker{
		BlockerScope: scope("lang"), Question: "May it run git push?", Ask: &boulder.Ask{
			Kind: boulder.AskPermission, RequestID: "per_1", Permission: "bash", Patterns: []string{"git push *"},
			Tool: "bash", Arguments: `{"command":"git push origin main"}`,
		},
	})
	ask, getErr := d.Get(t.Context(), ruling.BlockerID)
	if err := errors.Join(err, getErr); err != nil {
		t.Fatal(err)
	}
	s.Apply(boulder.BlockerRaised{AttemptRef: lang, Blocker: ask})
	raise(boulder.BlockerScope{SessionID: "ses_alone"}, boulder.Blocker{
		Category: "destructive", Question: "Drop the table\x1b[31m users?", Context: "It is empty.", Hard: true,
	})
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

// wantUndelivered checks how many answers have not reached the boulder.
func wantUndelivered(t *testing.T, project string, n int) {
	t.Helper()
	of := blockers.Filter{BlockerScope: boulder.BlockerScope{BoulderID: sampleID}, Undelivered: true}
	if left, err := registerOfProject(t, project).List(t.Context(), of); len(left) != n || err != nil {
		t.Errorf("left to tell: %v, %v", left, err)
	}
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
		{[]string{"answer"}, exitUsage, `takes ID ["TEXT" | -], not ""`},
		{[]string{"skip", "B1", "B2"}, exitUsage, "takes one ID of `manager blockers list`, not \"B1 B2\""},
		{[]string{"answer", "b1", "Use", "the release key"}, exitOK, `"handover":"handed_over"`},
		{[]string{"answer", "B1", "another"}, exitError, "B1 is answered already"},
		{[]string{"skip", "B1"}, exitError, "Use the release key; say more with: manager note --sub-task theme"},
		{[]string{"answer", "B3", "--allow", "but not to main"}, exitOK, `"allowed":true`},
		{[]string{"skip", "B2"}, exitOK, `"status":"skipped"`},
		{[]string{"answer", "B4", "no"}, exitOK, `"handover":"no_boulder"`},
	} {
		sameInBoth(t, alone, held, test.code, append([]string{"blockers"}, test.args...), test.says)
	}
	for _, project := range []string{alone, held} { // what the sub-tasks know; theme no longer waits
		expect(t, project, exitOK, []string{"show", "--json"}, `"tally":{"planned":6,"in_progress":1}`,
			`"status":"answered","answer":"Use the release key"`, `"choice":"CSS variables","status":"skipped"`,
			`"status":"answered","answer":"but not to main","allowed":true`)
		wantUndelivered(t, project, 0)
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

// An answer that no process could take reaches the boulder with its next run, and only once.
func TestDeliver(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	d := registerOfProject(t, project)
	for id, s := range map[string]blockers.Settlement{
		"B1": {Status: boulder.BlockerAnswered, Answer: "the release key"}, "B2": {Status: boulder.BlockerSkipped},
	} {
		if _, err := d.Settle(t.Context(), id, s); err != nil { // the process is killed before it delivers
			t.Fatal(err)
		}
	}
	db := openState(t, project)
	for range 2 {
		deliver(t, project, db)
		wantUndelivered(t, project, 0)
	}
	db.Close()
	stdout, _ := expect(t, project, exitOK, []string{"logs", "--json"})
	if told := strings.Count(stdout, `"type":"blocker-settled"`); told != 2 {
		t.Errorf("the boulder was told %d times, want 2:\n%s", told, stdout)
	}
	expect(t, project, exitOK, []string{"show", "--json"}, `"tally":{"planned":6,"in_progress":1}`)
}

// An imported boulder, or one whose database of blockers was moved away, never gets the id of another blocker that it
// knows: it would not wait for the answer.
func TestIDsAreNotGivenTwice(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	if err := os.Remove(filepath.Join(project, store.DirName, blockers.FileName)); err != nil {
		t.Fatal(err)
	}
	db := openState(t, project)
	for range 2 {
		deliver(t, project, db)
	}
	id := raise(t, project, boulder.BlockerScope{BoulderID: sampleID, SubTaskID: "theme", Attempt: 2, SessionID: "ses_2"})
	if id != "B4" { // theme and lang have up to B3
		t.Errorf("it got the id %q", id)
	}
}

// An answer waits until the boulder knows its blocker; after the boulder's end it counts as delivered.
func TestDeliverEarlyAndLate(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	early := raise(t, project, boulder.BlockerScope{BoulderID: sampleID, SubTaskID: "lang", Attempt: 1, SessionID: "ses_lang"})
	expect(t, project, exitOK, []string{"blockers", "answer", early, "this"},
		"Answered B5. \"lang\" gets it as soon as it has told its boulder of the blocker.\n")
	wantUndelivered(t, project, 1)
	expect(t, project, exitOK, []string{"cancel"})
	deliver(t, project, openState(t, project))
	wantUndelivered(t, project, 0)
}

// raise records a hard blocker of a session and returns its id.
func raise(t *testing.T, project string, scope boulder.BlockerScope) (id string) {
	t.Helper()
	b, err := registerOfProject(t, project).Raise(t.Context(), scope,
		boulder.Blocker{Category: "question", Question: "New?", Context: "c", Hard: true})
	if err != nil {
		t.Error(err)
	}
	return b.ID
}

// deliver passes answers on as a run does before it starts.
func deliver(t *testing.T, dir string, db *store.DB) {
	t.Helper()
	a, _, _ := testApp(t, dir)
	a.Deliver(t.Context(), db, sampleID)
}

// An answer to what is over is refused and not stored; skipping takes it off the list.
func TestAnswerTooLate(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	expect(t, project, exitOK, []string{"skip", "theme"})
	for _, test := range []answerCase{
		{[]string{"answer", "B1", "x"}, exitError, `sub-task "theme" is skipped, so nothing would continue with an answer to B1`},
		{[]string{"show", "B1"}, exitOK, `Nothing waits for an answer: sub-task "theme" is skipped`},
		{[]string{"skip", "B1"}, exitOK, "Skipped B1. Nothing waited for it any more."},
		{[]string{"answer", "B1", "x"}, exitError, "B1 is skipped already"},
	} { // nothing is left to note
		expect(t, project, test.code, append([]string{"blockers"}, test.args...), test.says, "!manager note")
	}
	expect(t, project, exitOK, []string{"cancel"})
	expect(t, project, exitError, []string{"blockers", "answer", "B3", "--allow"}, "boulder "+sampleID+" is cancelled, so nothing would continue")
}

// A holder that takes no orders does not keep an answer from being stored.
func TestAnswerIsKeptWhereNobodyTakesIt(t *testing.T) {
	t.Parallel()
	project := blockedSample(t)
	db := openState(t, project)
	stdout, _ := expect(t, project, exitHeld, []string{"blockers", "answer", "B1", "x"}, "The answer is kept, and handed over")
	if stdout != "Answered B1.\n" {
		t.Errorf("%q", stdout)
	}
	wantUndelivered(t, project, 1)
	deliver(t, project, db)
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
	s.Apply(boulder.TakenUp{Diverted: true})
	project := s.store()
	status := []string{"blockers", "status"}
	expect(t, project, exitOK, status, "blockers off")
	hold(t, project, false)
	expect(t, project, exitOK, status, "blockers on  by --blockers of what is at work: "+sampleID)
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
		{[]string{"-o", "none/night.md"}, exitError, "no such file"},
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
	for _, args := range [][]string{{}, {"-o", "night.md", "--force"}} {
		expect(t, project, exitError, append([]string{"blockers", "export"}, args...), "!# Blockers", "damaged")
	}
	expect(t, project, exitError, []string{"doctor", "--opencode", "nosuch"}, "blockers.db")
	if unchanged, err := os.ReadFile(file); err != nil || string(unchanged) != string(text) {
		t.Errorf("%v: %s", err, unchanged)
	}
	if left, err := os.ReadDir(project); err != nil || len(left) != 5 { // with .manager and blockers.md
		t.Errorf("left behind: %v, %v", left, err)
	}
}
