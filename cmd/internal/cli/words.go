package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// words are those that a new user meets first. README.md has the same ones.
var words = [][2]string{
	{"boulder", "one task, and everything stored to finish it: plan, attempts, evidence, verdicts"},
	{"ledger", "the model calls that plan (Task Ledger) and judge (Progress Ledger)"},
	{"slot", "the right to run; in an isolated run also the copy of the project in which it works"},
	{"tip", "the commit with all results of an isolated run; manager land brings it into your files"},
	{"judged turn", "one prompt to an agent, its work until it stops, and the judge's verdict on it"},
	{"ask, blocker", "a permission request or question of an agent; one that only you can answer"},
	{"parked", "of a sub-task: it waits for you, and costs nothing meanwhile"},
}

// newWordsTopic is no command: cobra lists it as a topic of help.
func newWordsTopic() *cobra.Command {
	var said strings.Builder
	for _, w := range words {
		fmt.Fprintf(&said, "%-13s %s\n", w[0], w[1])
	}
	return &cobra.Command{
		Use: "words", Short: "What boulder, ledger, slot, tip, judged turn, ask, blocker and parked mean",
		Long: said.String() + "\nAll words are in docs/architecture.md.",
	}
}
