package enforcer

import (
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
)

func TestWords(t *testing.T) {
	const m = boulder.DoneMarker
	for name, test := range map[string]struct {
		says    func(string) bool
		yes, no []string
	}{
		"Claims": {Claims, []string{
			"Done.", "I am done", "All done!", "The task is complete.", "Everything is finished now.", "All set.",
			"I have completed the migration; all tests pass.", "It's done: the toggle is saved and restored.",
			"I implemented the toggle and added tests.\n\nThe work is complete.", "Task completed successfully ✅",
			"There is nothing left to do.", "DONE", "**Done** — see `main.go`.", "It would not compile. Now it does. Done.",
			"I did not touch vendor/. All work is finished.",
		}, []string{
			"", "I looked at the files.", "Let me complete the function.", "This is not done.", "It isn't finished yet.",
			"I am almost done.", "The first half is done, I am working on the second.", "In progress: two of three are complete.",
			"Next I will add the tests; the rest is done.", "Once this is done, the tests can run.", "To be completed.",
			"When everything is finished I will say so.", "I'll now finish it. The parser is done.", "The list is incomplete.",
			"He condoned it.", "It can't be done.", "This is never done by hand.", "It will be complete tomorrow.",
			"```\nprintln(\"done\")\n```", "It prints `done` at the end.", "The reviewer wrote:\n> This is done.\nI disagree.",
			"The button says \"Finished\".", "Now I implement the second part; the first is done.",
			"I still need to write the tests. The code is complete.", "~~~\nall set\n", "How this is done: see the docs",
		}},
		"Promised": {Promised, []string{
			boulder.Promise, "All tests pass.\n\n" + boulder.Promise, "All of it is there. " + boulder.Promise + "\n",
			"<promise> DONE </promise>", "<PROMISE>done</PROMISE>", "I ran `go test`:\n```\nok\n```\n" + boulder.Promise,
			"I could not find any other use.\n" + boulder.Promise,
		}, []string{
			"", "DONE", "<promise>NOT DONE</promise>", "<promise></promise>", "```\n" + boulder.Promise + "\n```",
			"I will write " + boulder.Promise + " when all is done", "> end with " + boulder.Promise,
			"You asked me to say \"" + boulder.Promise + "\".", "`" + boulder.Promise + "`",
			"I cannot give " + boulder.Promise + " yet", "I don't think that " + boulder.Promise + " is right",
			boulder.Promise + " comes later", "~~~\n" + boulder.Promise,
		}},
		"SaysStop": {SaysStop, []string{
			"stop", " Stop! ", "STOP NOW", "please stop", "/stop", "Stop it.", "wait", "that's enough",
		}, []string{
			"", "stop the server when the tests are over", "Do not stop.", "stopwatch", "Add a stop button", "wait for the build",
		}},
		"Marked": {func(text string) bool { return Marked(text, boulder.DoneMarker) }, []string{
			m, "All 5 tests pass.\n\n" + m, "Everything is there, " + m, "**" + m + "**", "Tests pass: " + m + " Good bye",
			"I will look once more.\n" + m,
		}, []string{
			"", "BLOCKER_DIVERTER_DONE", "blocker_diverter_done!", "I will write " + m + " later.", "You asked me to say " + m,
			"Not yet " + m, "`" + m + "`", "\"" + m + "\" is the marker.", "> " + m, "```\n" + m + "\n```", "\x00",
		}},
		"Marked, where nothing is asked for": {func(text string) bool { return Marked(text, "") }, nil, []string{"", m}},
	} {
		for _, text := range test.yes {
			if !test.says(text) {
				t.Errorf("%s: not seen in %q", name, text)
			}
		}
		for _, text := range test.no {
			if test.says(text) {
				t.Errorf("%s: seen in %q", name, text)
			}
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, text := range []string{"Done.", "```\nopen", "> \"", boulder.Promise, "\xff\xfe", strings.Repeat("\"`", 50)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if Claims("```\n"+strings.ReplaceAll(text, "```", "")+"\n```") && !strings.Contains(text, "~~~") {
			t.Errorf("what stands in a code block is a claim: %q", text)
		}
		if Promised(text) && !strings.Contains(strings.ToLower(text), "<promise>") {
			t.Errorf("a promise without one: %q", text)
		}
		SaysStop(text)
	})
}

// TestLongTexts: a text full of claims is scanned once, not once for each word, which would take minutes.
func TestLongTexts(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("not done ", 10_000), strings.Repeat("`", 50_000), strings.Repeat("\"", 50_001),
		strings.Repeat("```\n", 10_001), strings.Repeat("> done\n", 10_000),
	} {
		if Claims(text) || Promised(text) {
			t.Errorf("%.20q… is taken for a claim", text)
		}
	}
}
