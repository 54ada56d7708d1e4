package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// inner are words of libraries and of system calls, which say nothing to a user.
var inner = regexp.MustCompile(`strconv|pflag|invalid syntax|invalid argument|shorthand|\b(open|stat|lstat|exec|read) ?:? ?"?[^ ]+:|not ""|%!`)

// advice is what an error about a command line ends with.
var advice = regexp.MustCompile("`manager |did you mean|: use |, as |takes |say |name |create it|there is no (plan )?file|nothing was recorded yet")

// Each command refuses an impossible command line with its cause and what to do: no word of a library, and nothing on stdout.
func TestUsageOfAllCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "plan.yaml"), []byte("sub_tasks: [{description: x}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(args ...string) {
		t.Helper()
		var stdout, stderr strings.Builder
		code := Main(Env{Args: append([]string{"-C", dir}, args...), Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr,
			Environ: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}})
		if said := stderr.String(); code != exitUsage || stdout.Len() > 0 || inner.MatchString(said) || !advice.MatchString(said) {
			t.Errorf("%q: exit code %d\n%s%s", args, code, stdout.String(), said)
		}
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		path := strings.Fields(c.CommandPath())[1:]
		with := func(more ...string) []string { return append(append([]string{}, path...), more...) }
		if c.IsAdditionalHelpTopicCommand() || c.Name() == "help" || c.Parent() != nil && c.Parent().Name() == "completion" {
			return
		}
		refused(with("--nonesuch")...)
		refused(with("-Z")...)
		if many := strings.Fields("a b c d e f"); c.Args != nil && c.Args(c, many) != nil {
			refused(with(many...)...)
		}
		if c.Args != nil && c.Args(c, nil) != nil {
			refused(path...)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal == "" {
				refused(with("--" + f.Name)...)
			}
			if !strings.HasPrefix(f.Value.Type(), "string") {
				refused(with("--" + f.Name + "=no such value")...)
			}
		})
	}
	visit(Command())
	for _, args := range [][]string{
		{"import", "nosuch.json"}, {"validate", "nosuch.yaml"}, {"run", "nosuch.yaml"}, {"plan", "--from", "nosuch"},
		{"validate", "paln.yaml"}, {"status", "zz"}, {"resume"}, {"blockers", "answer", "B1", "x"}, {"blockers", "show", "B1"},
		{"replay", "nosuch.json"}, {"schema", "paln"}, {"help", "wrods"}, {"answer", "B1"}, {"blockers", "list", "--form"},
		{"run", "--form", "x"}, {"export", "-o", "/nosuch/x"}, {"config", "get"}, {"run", "--opencode", "/nosuch", "--budget", "cost=x", "y"},
	} {
		refused(args...)
	}
}
