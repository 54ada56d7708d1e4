package taskledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/taskledger"
)

func TestFromList(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		task, goal string
		steps      []string
	}{
		"plain":             {"1. Add a toggle\n2. Wire it up\n", "", []string{"Add a toggle", "Wire it up"}},
		"brackets, goal":    {"## Dark mode:\n\n1) Add\n2) Wire\n3) Test", "Dark mode", []string{"Add", "Wire", "Test"}},
		"lines of a step":   {"1. Add\n   a\n\n   and b\n2. Wire", "", []string{"Add\na\n\nand b", "Wire"}},
		"lazy lines":        {"1. Add\na\n\nmore\n\n2. Wire\nit up", "", []string{"Add\na\n\nmore", "Wire\nit up"}},
		"text behind":       {"1. Add\n2. Wire\n   up\n\nDo not touch vendor/.\n\nThanks.\n", "", []string{"Add", "Wire\nup"}},
		"lists of a step":   {"1. Add\n   1. a\n   2. b\n   - c\n2. Wire", "", []string{"Add\n1. a\n2. b\n- c", "Wire"}},
		"code in a step":    {"1. Run\n```\n\n2. echo\n```\n2. Wire", "", []string{"Run\n```\n\n2. echo\n```", "Wire"}},
		"code before":       {"Like this:\n```\n1. x\n```\n1. Add\n2. Wire", "Like this", []string{"Add", "Wire"}},
		"indented, CRLF":    {"Do\r\n  1. Add\r\n  2. Wire\r\n", "Do", []string{"Add", "Wire"}},
		"versions, bullets": {"Upgrade to\n2.0 of it\n- now\n1. Add\n2. Wire", "Upgrade to", []string{"Add", "Wire"}},
	} {
		req := boulder.PlanRequest{Task: tc.task, Constraints: []string{"c"}}
		p, err := taskledger.FromList(req, time.Unix(1_700_000_000, 0))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var steps []string
		for i, s := range p.SubTasks {
			steps = append(steps, s.Description)
			want := []string(nil)
			if i > 0 {
				want = []string{p.SubTasks[i-1].ID}
			}
			if diff := cmp.Diff(want, s.DependsOn); diff != "" {
				t.Errorf("%s: %s: %s", name, s.ID, diff)
			}
		}
		if diff := cmp.Diff(tc.steps, steps); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if p.Goal != tc.goal || p.Task != tc.task || len(p.Constraints) != 1 || p.Edited() {
			t.Errorf("%s: %+v", name, p)
		}
		if p.Origin() != boulder.OriginList || p.Seal.Model != "" || p.Seal.Base != "" {
			t.Errorf("%s: seal %+v", name, p.Seal)
		}
		survives(t, p)
	}
}

// TestFromListRefuses: a malformed list is refused with what to do, and never shortened.
func TestFromListRefuses(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]string{
		"Add dark mode":                      "there is none; begin each step on a line of its own",
		"- Add\n- Wire":                      "there is none",
		"1. Add 2. Wire":                     "it has 1: run it as it is with --direct",
		"1. a\n2. b\n3. c\n4. d\n5. e\n6. f": "it has 6: merge some, or write a plan file",
		"1. a\n3. b":                         "the number 3 stands where 2 should",
		"2. a\n3. b":                         "its first number is 2: begin with 1",
		"1. a\n2. b\n\nThen:\n\n1. c\n2. d":  "the number 1 stands where 3 should",
		"1. a\n1. b":                         "number the steps one after the other",
		"":                                   "there is none",
		"Steps:\n```\n1. a\n2. b":            "there is none",
	} {
		p, err := taskledger.FromList(boulder.PlanRequest{Task: task}, time.Time{})
		if !errors.Is(err, taskledger.ErrNoList) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v", task, p, err)
		}
	}
}

// FuzzFromList: any text gives an error, or a plan that a plan file can hold.
func FuzzFromList(f *testing.F) {
	f.Add("Do:\n1. a\n   b\n\n2. c\n\nd")
	f.Add("1) a\n```\n2) b\n~~~\n2) c\x00\xff")
	f.Add("\t1.\ta\n 2. b\n\u20283. c")
	f.Fuzz(func(t *testing.T, task string) {
		p, err := taskledger.FromList(boulder.PlanRequest{Task: task}, time.Unix(0, 0))
		if err != nil {
			if !errors.Is(err, taskledger.ErrNoList) {
				t.Fatal(err)
			}
			return
		}
		if n := len(p.SubTasks); n < 2 || n > 5 {
			t.Fatalf("%d sub-tasks", n)
		}
		if _, err := taskledger.Format(p); err != nil {
			t.Fatal(err)
		}
	})
}
