package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/cmd/internal/view/page"
	"github.com/bouldermgr/manager/project/report"
	"github.com/bouldermgr/manager/testkit/golden"
	"github.com/bouldermgr/manager/testkit/golden/sample"
)

func TestRenderings(t *testing.T) {
	t.Parallel()
	made := report.New(sample.Night(sample.AsItIs))
	var text, markdown bytes.Buffer
	PrintReport(page.Out{Writer: &text, Columns: 73}, made)
	PrintReport(page.Out{Writer: &markdown, Markdown: true}, made)
	golden.Compare(t, "golden/report.txt", text.String())
	golden.Compare(t, "golden/report.md", markdown.String())
	for line := range strings.Lines(text.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 72 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
}

// What is skipped is not under what is done.
func TestSkippedIsNotDone(t *testing.T) {
	t.Parallel()
	in := sample.Night(sample.AsItIs)
	in.SubTasks[len(in.SubTasks)-1].Status = boulder.SubTaskSkipped
	var text bytes.Buffer
	PrintReport(page.Out{Writer: &text, Columns: 73}, report.New(in))
	skipped, done, _ := strings.Cut(text.String(), "Done, and how it was verified\n")
	if _, skipped, _ = strings.Cut(skipped, "\nSkipped\n"); !strings.Contains(skipped, "Do last (last)") || strings.Contains(done, "Do last") {
		t.Errorf("it is not under Skipped:\n%s", text.String())
	}
}

func TestUsageText(t *testing.T) {
	t.Parallel()
	for want, u := range map[string]boulder.Usage{
		"0 tokens, $0.00":                                  {},
		"12.3k tokens, $0.042":                             {Input: 12000, Output: 345, Cost: 0.042},
		"10 tokens, $1.50":                                 {Input: 10, Cost: 1.5},
		"10 tokens, $0.0004":                               {Input: 10, Cost: 0.0004},
		"10 tokens, <$0.0001":                              {Input: 10, Cost: 0.00001},
		"10 tokens, cost unknown":                          {Input: 10, Unpriced: 1},
		"10 tokens, $1.50 and 1 call of unknown price":     {Input: 10, Cost: 1.5, Unpriced: 1},
		"1.0k tokens, $0.10 and 12 calls of unknown price": {Input: 1000, Cost: 0.1, Unpriced: 12},
	} {
		if got := Usage(u); got != want {
			t.Errorf("usageText(%+v) = %q, want %q", u, got, want)
		}
	}
}
