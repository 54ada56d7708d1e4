package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/internal/page"
	"github.com/bouldermgr/manager/internal/view"
)

// outputFlags are --format and -o of a command that writes a document.
type outputFlags struct {
	document     string            // what it is
	convert      string            // with which command a file of another format is made, up to the format; empty: none
	names        []string          // of formats
	endings      map[string]string // of -o, with the format that they mean
	format, file string
}

const formatJSON = "json"

func (o *outputFlags) register(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVarP(&o.format, "format", "f", "",
		"`FORMAT`: "+strings.Join(o.names, ", ")+" (default: by the ending of the file of -o, else text)")
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "write to `FILE` instead of stdout; - is stdout")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(o.names, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return o.check(a, cmd.Flags().Changed("format")) }
}

// check refuses what contradicts itself or cannot be written, before anything is read, and fills in the format.
func (o *outputFlags) check(a *app, given bool) error {
	if o.file == "-" {
		o.file = ""
	}
	ending := strings.ToLower(filepath.Ext(o.file))
	meant, known := o.endings[ending]
	switch {
	case !given:
		o.format = cmp.Or(meant, "text")
	case !slices.Contains(o.names, o.format):
		return usagef("there is no format %q: use one of %s", o.format, strings.Join(o.names, ", "))
	case a.json && o.file == "" && o.format != formatJSON:
		return usagef("--json and --format contradict each other: give one of them, or write to a file with -o")
	}
	switch {
	case o.file == "":
		return nil
	case !known && looksLikePlan(o.file): // an easy mistake, and the plan would be gone
		return usagef("-o %s: that is the name of a plan file, not of a %s", o.file, o.document)
	case o.convert != "" && slices.Contains([]string{".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".ps", ".eps"}, ending):
		return usagef("-o %s: %s files are not written: %s%s`", o.file, ending, o.convert, ending[1:])
	}
	return checkWritable(o.document, a.file(o.file))
}

// checkWritable refuses a path at which no file can be.
func checkWritable(document, path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return usagef("cannot write the %s to %s: it is a directory", document, path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return usagef("cannot write the %s to %s: there is no directory %s", document, path, filepath.Dir(path))
	}
	return nil
}

// write draws the document into its file, which is written anew if it is there, or on stdout. With --json, stdout gets the
// object in any case.
func (o *outputFlags) write(a *app, object any, draw func(to page.Out) error) error {
	if o.format == formatJSON {
		draw = func(to page.Out) error { return view.WriteJSON(to.Writer, object) }
	}
	if o.file != "" {
		var text bytes.Buffer
		if err := draw(page.Out{Writer: &text}); err != nil {
			return err
		}
		path := a.file(o.file)
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			return fmt.Errorf("write the %s: %w", o.document, err)
		}
		a.note("Wrote %s.", a.pretty(path))
	}
	switch {
	case a.json:
		return a.printJSON(object)
	case o.file == "":
		return draw(a.on(a.Stdout))
	}
	return nil
}
