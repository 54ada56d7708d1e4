package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/store"
)

// noteRead bounds what is read of a note, in bytes; what is too long for one is refused with how long it may be.
const noteRead = 64 << 10

func (a *app) newNoteCmd() *cobra.Command {
	var ref, subTask string
	cmd := &cobra.Command{
		Use:   "note [flags] \"TEXT\" | -",
		Short: "Tell the agents and the judge something",
		Long: `Tells the agents and the judge of a boulder something: it goes into the next prompt of every sub-task, or
of one with --sub-task, and into the next judgement. A turn that is at work is not disturbed. With - the text is read
from stdin. It may have 4,000 characters.`,
		Example: `  manager note "The staging database is down; use the fixtures in testdata/"
  manager note --sub-task toggle "Keep the old key for one release"
  git diff --stat | manager note -`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := a.noteText(args)
			if err != nil {
				return err
			}
			order := boulder.Order{Do: boulder.OrderNote, SubTaskID: subTask, Text: a.withoutSecrets("The note", text)}
			return a.steer(cmd.Context(), ref, order, func(d store.Detail) error {
				if len(args) < 2 || subTask != "" {
					return nil
				}
				t, _ := findSubTask(d, args[0])
				if t == nil {
					return nil
				}
				rest := strings.Join(args[1:], " ")
				return usagef("%q is a sub-task: did you mean `manager note --sub-task %s %q`? To tell all of them, put the"+
					" text into quotes: `manager note %q`", args[0], t.ID, rest, text)
			})
		},
	}
	a.boulderFlag(cmd, &ref)
	cmd.Flags().StringVar(&subTask, "sub-task", "", "only for `SUBTASK`")
	_ = cmd.RegisterFlagCompletionFunc("sub-task", a.completion(
		func(ctx context.Context, r reader, _ []string) []cobra.Completion { return subTasksOf(ctx, r, ref) }))
	return cmd
}

// noteText is what the arguments say: one text, however the shell has split it.
func (a *app) noteText(args []string) (string, error) {
	if len(args) != 1 || args[0] != "-" {
		return strings.TrimSpace(strings.Join(args, " ")), nil
	}
	data, err := io.ReadAll(io.LimitReader(a.Stdin, noteRead))
	if err != nil {
		return "", fmt.Errorf("read the note from stdin: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
