package taskledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/taskledger"
)

// nasty draws texts that YAML easily corrupts.
func nasty(t *rapid.T, label string) string {
	pieces := rapid.SliceOfN(rapid.OneOf(
		rapid.SampledFrom([]string{
			": ", ":", " #", "#", "- ", "-", "yes", "true", "null", "~", "1e3", "0x1F", "007", "|", ">", "\t", "\n", "\n\n",
			"\r\n",
			" ", "  ", "'", "\"", "\\", "{", "}", "[", "]", ",", "&a", "*a", "!x", "%", "@", "`", "?", "---", "...", "é", "日本語",
			"😀", "\u2028", "\u0085", "\uFEFF", "\x1b", "\x07", "<<", "=", "word", "Add the toggle",
			"go test ./...", "$(x)", "\\n",
		}),
		rapid.StringN(0, 6, -1),
	), 1, 8).Draw(t, label)
	text := strings.ReplaceAll(strings.Join(pieces, ""), "\x00", "0")
	if strings.TrimSpace(text) == "" {
		return text + "x"
	}
	return text
}

func nastyLine(t *rapid.T, label string) string {
	return strings.NewReplacer("\n", " ", "\r", " ").Replace(nasty(t, label))
}

func nastyList(t *rapid.T, label string) []string {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return nasty(t, "item") }), 0, 3).Draw(t, label)
}

// nastyCommands draws commands that the shell can parse. They are few, because each check starts a process.
func nastyCommands(t *rapid.T, label string) []string {
	if rapid.IntRange(0, 2).Draw(t, label) > 0 {
		return nil
	}
	return []string{"test '" + strings.ReplaceAll(nasty(t, label), "'", "") + "'"}
}

func randomPlan(t *rapid.T) *boulder.Plan {
	p := &boulder.Plan{
		Task: nasty(t, "task"), Goal: nastyLine(t, "goal"), Constraints: nastyList(t, "constraints"),
		Facts: boulder.Facts{Given: nastyList(t, "given"), Guesses: nastyList(t, "guesses")},
		Model: rapid.SampledFrom([]boulder.Models{"", "a/b", "openrouter/a/b:free", "a/b,c/d"}).Draw(t, "model"),
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "n") {
		s := boulder.Spec{
			ID:      fmt.Sprint(rapid.SampledFrom([]string{"", "t", "true", "0", "1e", "-", "_"}).Draw(t, "prefix"), i),
			Subject: nastyLine(t, "subject"), Description: nasty(t, "description"),
			SuccessCriteria: nastyList(t, "criteria"), Gates: nastyCommands(t, "gates"), Outputs: nastyList(t, "outputs"),
			Priority: rapid.SampledFrom([]boulder.Priority{"", boulder.High, boulder.Low}).Draw(t, "priority"),
			Agent:    nastyLine(t, "agent"), ExpectsChanges: rapid.Bool().Draw(t, "expects"),
			EmptyOK:  rapid.Bool().Draw(t, "empty"),
			DoneWhen: rapid.SampledFrom([][]string{nil, {"judge"}, {"todos", "judge"}, {"diagnostics", "tests", "promise"}}).Draw(t, "done"),
			Budget: rapid.SampledFrom([]*boulder.Budget{
				nil, {}, {Attempts: 2}, {Time: boulder.Duration(90 * time.Minute)}, {Attempts: 1, Time: 1},
				{Time: boulder.Duration(2 * time.Hour)}, {Time: boulder.Duration(90 * time.Second)},
				{
					Tokens:   rapid.Int64Range(1, 1<<62).Draw(t, "tokens") / rapid.SampledFrom([]int64{1, 1 << 40}).Draw(t, "less"),
					Attempts: 1,
				},
				{Tokens: 150_000, Cost: rapid.Float64Range(1e-12, 1e9).Draw(t, "cost"), Calls: 7}, {Tokens: 3_000_000},
			}).Draw(t, "budget"),
		}
		if i > 0 && rapid.Bool().Draw(t, "depends") {
			s.DependsOn = []string{p.SubTasks[i-1].ID}
		}
		mayPass := func(gate string) bool { return slices.Contains(s.Gates, gate) }
		s.NoWorse = slices.DeleteFunc(nastyCommands(t, "no worse"), mayPass)
		p.SubTasks = append(p.SubTasks, s)
		p.Request = append(p.Request, boulder.Obligation{
			ID: fmt.Sprint("r", i), Text: nasty(t, "row"), From: nasty(t, "from"), Owner: rapid.SampledFrom([]string{"", s.ID}).Draw(t, "owner"),
			Kind: rapid.SampledFrom([]boulder.ObligationKind{boulder.Asks, boulder.Forbids, boulder.Wish}).Draw(t, "kind"),
		})
	}
	return p
}

// TestRoundTripProperty: a file that changed a text would run a command that the user did not write.
func TestRoundTripProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plan := randomPlan(t)
		if !rapid.Bool().Draw(t, "sealed") {
			plan = taskledger.Seal(plan, boulder.OriginModel, "p/m", time.Unix(1_700_000_000, 5))
			plan.Seal.Base = "abc123"
		}
		data, err := taskledger.Format(plan)
		if err != nil {
			t.Fatal(err)
		}
		back, err := taskledger.Parse("plan.yaml", data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if plan.Seal != nil {
			if diff := cmp.Diff(plan, back, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s\n%s", diff, data)
			}
			if back.Edited() {
				t.Fatalf("the hash changed\n%s", data)
			}
			return
		}
		for i, s := range back.SubTasks { // free texts are unchanged, even if other fields were filled in
			was := plan.SubTasks[i]
			if s.Description != was.Description || len(was.Gates) > 0 && !cmp.Equal(s.Gates, was.Gates) {
				t.Fatalf("%+v became %+v", was, s)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"sub_tasks:\n- description: x\n  no_worse: [make, 'npm test']\n  done_when: [judge, diagnostics]\n" +
			"  budget: {attempts: 2, time: 30m, tokens: 1.5M, cost: 2.50, calls: 100}\n",
		"sub_tasks: [{description: x, budget: {tokens: 200k, cost: .5}, gates: a, no_worse: a}]",
		"sub_tasks: [{description: x, budget: {tokens: 9999999999999999999M, cost: 1e308, calls: 1_0}}]",
		"", "a", "{", "sub_tasks: [{description: x}]", "- - - - -", "sub_tasks:\n  - description: |\n      x\n", "a: &a [*a]",
		"{\"sub_tasks\":\t[{\"description\":\"\\ud83d\\ude00\"}]}", "version: 2", "seal: {hash: x}",
		"? a\n: b", "a: !!str b", "%YAML 1.2\n---\n",
		"sub_tasks:\n  - id: a\n    description: x\n    depends_on: [b]\n  - id: b\n    description: x\n    depends_on: a\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plan, err := taskledger.Parse("plan.yaml", data)
		if err != nil {
			var file *taskledger.FileError
			if !errors.As(err, &file) || len(file.Problems) == 0 || !utf8.ValidString(err.Error()) {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		out, err := taskledger.Format(plan)
		if err != nil {
			t.Fatal(err)
		}
		back, err := taskledger.Parse("plan.yaml", out)
		if err != nil || back.Hash() != plan.Hash() {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}
