// Command packaging writes what packages hold besides the binary: man pages, from the help of all commands and from
// docs/, and completions. It runs in the root of the repository; its argument is the directory to write to, laid out
// like /usr/share. See .goreleaser.yaml.
package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/bouldermgr/manager/cmd/internal/cli"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: packaging DIR")
	}
	share, root := os.Args[1], cli.Command()
	root.InitDefaultCompletionCmd()
	for path, generate := range map[string]func(io.Writer) error{
		"bash-completion/completions/manager":    func(w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh/site-functions/_manager":            root.GenZshCompletion,
		"fish/vendor_completions.d/manager.fish": func(w io.Writer) error { return root.GenFishCompletion(w, true) },
	} {
		if err := write(filepath.Join(share, path), generate); err != nil {
			log.Fatal(err)
		}
	}
	if err := writePages(filepath.Join(share, "man/man1"), root); err != nil {
		log.Fatal(err)
	}
}

func write(path string, generate func(io.Writer) error) error {
	var content bytes.Buffer
	if err := generate(&content); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content.Bytes(), 0o644)
}

// writePages writes the page of cmd and of the commands below it, compressed as packages have them.
func writePages(dir string, cmd *cobra.Command) error {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	err := write(filepath.Join(dir, name+".1.gz"), func(w io.Writer) error {
		page, err := manPage(cmd)
		if err != nil {
			return err
		}
		z, _ := gzip.NewWriterLevel(w, gzip.BestCompression) // the level is valid
		if _, err := z.Write(page); err != nil {
			return err
		}
		return z.Close()
	})
	for _, c := range cmd.Commands() {
		if err == nil && c.IsAvailableCommand() {
			err = writePages(dir, c)
		}
	}
	return err
}

// manPage is cobra's page of cmd, with options as `--help` shows them; that of manager tells more, from docs/. The parent
// comes first: flags that its children inherit are put right once.
func manPage(cmd *cobra.Command) ([]byte, error) {
	cmd.DisableAutoGenTag = true
	cmd.Long = indented.ReplaceAllString(cmd.Long, "    ")
	cmd.InitDefaultHelpFlag()
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		if !slices.Contains([]string{"", "0", "0s", "[]"}, f.DefValue) {
			usage += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		f.Usage, f.DefValue = usage, name
	})
	var page bytes.Buffer
	if err := doc.GenMan(cmd, &doc.GenManHeader{Source: "manager", Manual: "User Commands"}, &page); err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(page.String(), "[=false]", "") // of switches
	text = quoted.ReplaceAllString(text, "$1=$2")
	if cmd.HasParent() {
		return []byte(text), nil
	}
	more, err := fromDocs()
	if err != nil {
		return nil, err
	}
	const last = ".SH SEE ALSO"
	return []byte(strings.Replace(text, last, more+last, 1)), nil
}

var (
	indented = regexp.MustCompile(`(?m)^  `) // in help; Markdown keeps lines as they are after four blanks
	quoted   = regexp.MustCompile(`(\\fP)="([^"]+)"`)
	link     = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
)

// fromDocs are sections of documents, without links, as sections of a man page.
func fromDocs() (string, error) {
	markdown := "# manager\n" // becomes the header of a page, which this has already
	for _, s := range []struct{ title, file, heading string }{
		{"EXIT STATUS", "docs/cli.md", "Exit codes"},
		{"SIGNALS", "docs/cli.md", "Signals"},
		{"ENVIRONMENT", "docs/cli.md", "Environment"},
		{"CONFIGURATION", "docs/cli.md", "Configuration file"},
		{"FILES", "docs/state.md", "Files"},
	} {
		text, err := os.ReadFile(s.file)
		if err != nil {
			return "", err
		}
		_, rest, ok := strings.Cut(string(text), "\n## "+s.heading+"\n")
		if !ok {
			return "", fmt.Errorf("%s has no section %q", s.file, s.heading)
		}
		rest, _, _ = strings.Cut(rest, "\n## ")
		markdown += "\n# " + s.title + "\n" + link.ReplaceAllString(rest, "$1") + "\n"
	}
	_, sections, _ := strings.Cut(string(md2man.Render([]byte(markdown))), ".SH")
	return ".SH" + sections, nil
}
