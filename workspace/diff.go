package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bouldermgr/manager/boulder"
	"github.com/bouldermgr/manager/internal/text"
)

const (
	maxPatch    = 12_000 // characters
	maxFiles    = 1_000  // listed; a notice at the end of the patch counts the others
	maxOwnSpecs = 200    // own files to which the patch is restricted: they go on a command line
)

// Diff returns what changed from one snapshot to another. Paths are relative to the project, with slashes; bytes that
// are not UTF-8 become U+FFFD. A rename is a removal and an addition.
//
// own says which files this attempt changed; it gets the raw path. Own files come first, and the patch shows only them,
// unless there are more than 200 or none. The patch is cut to 12,000 characters, visibly.
//
// Outside of a git work tree, or if a snapshot was taken there and is empty, the diff is Unavailable, without an error.
func (w *Workspace) Diff(ctx context.Context, from, to string, own func(path string) bool) (boulder.Diff, error) {
	switch {
	case w.reason != "":
		return boulder.Diff{Unavailable: w.reason}, nil
	case from == "" || to == "":
		return boulder.Diff{Unavailable: "there is no snapshot to compare with"}, nil
	case !treeID().MatchString(from) || !treeID().MatchString(to):
		return boulder.Diff{}, fmt.Errorf("diff of %s: %q or %q is not a snapshot", w.git.dir, from, to)
	case from == to:
		return boulder.Diff{}, nil
	}
	d, err := w.diff(ctx, from, to, own)
	if err != nil {
		return boulder.Diff{}, fmt.Errorf("diff of %s: %w", w.git.dir, w.explain(ctx, err, from, to))
	}
	return d, nil
}

var treeID = text.Regexp(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Patch returns what git prints of the change from one commit or snapshot to another, uncut. how is -p, --binary (a patch
// that git apply takes), --stat or --name-only. No files means all in the project.
func (w *Workspace) Patch(ctx context.Context, from, to, how string, files []string) (string, error) {
	if w.reason != "" {
		return "", errors.New("there are no diffs here: " + w.reason)
	}
	for _, id := range []string{strings.TrimSuffix(from, "^"), to} {
		if !treeID().MatchString(id) {
			return "", fmt.Errorf("diff of %s: %q is not a snapshot", w.git.dir, id)
		}
	}
	specs := w.scope
	if len(files) > 0 {
		specs = nil
	}
	for _, path := range files {
		specs = append(specs, ":(literal)"+path)
	}
	out, err := w.git.output(ctx, diffTree(from, to, append([]string{how, "--full-index", "--"}, specs...)...)...)
	if err != nil {
		return "", fmt.Errorf("diff of %s: %w", w.git.dir, w.explain(ctx, err, from, to))
	}
	return out, nil
}

// explain adds that a snapshot is gone, if one is.
func (w *Workspace) explain(ctx context.Context, err error, ids ...string) error {
	for _, id := range ids {
		if _, lookErr := w.git.output(ctx, "cat-file", "-e", id+"^{tree}"); exitCode(lookErr) > 0 {
			return fmt.Errorf("the snapshot %s is not in the repository any more: %w", id, err)
		}
	}
	return err
}

func (w *Workspace) diff(ctx context.Context, from, to string, own func(string) bool) (boulder.Diff, error) {
	out, err := w.git.output(ctx,
		diffTree(from, to, append([]string{"--raw", "--no-abbrev", "--numstat", "-z", "--"}, w.scope...)...)...)
	if err != nil {
		return boulder.Diff{}, err
	}
	files, specs, hash, err := parse(out, own)
	if err != nil || len(files) == 0 {
		return boulder.Diff{}, err
	}
	if len(specs) == 0 || len(specs) > maxOwnSpecs {
		specs = w.scope
	}
	patch := &limitedText{limit: maxPatch}
	if err := w.git.run(ctx, nil, patch, diffTree(from, to, append([]string{"-p", "--"}, specs...)...)...); err != nil {
		return boulder.Diff{}, err
	}
	d := boulder.Diff{Files: files, Patch: patch.String(), Hash: hash}
	if n := len(files) - maxFiles; n > 0 {
		d.Files = files[:maxFiles:maxFiles]
		d.Patch += fmt.Sprintf("\n[cut: %d of %d changed files are not listed]", n, len(files))
	}
	return d, nil
}

// diffTree is a plumbing command, which ignores the user's settings for colours, prefixes and renames.
func diffTree(from, to string, args ...string) []string {
	return append([]string{
		"diff-tree", "-r", "--relative", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", from, to,
	}, args...)
}

// parse reads the output of --raw --numstat -z: ":<mode> <mode> <blob> <blob> <status>\0<path>\0" for each file, then
// "<added>\t<removed>\t<path>\0". Own files come first; specs are their pathspecs. hash covers the blobs of own files,
// so equal hashes are equal changes, also of binary files and past every cut. It is empty if no file is own.
func parse(out string, own func(string) bool) (files []boulder.FileChange, specs []string, hash string, err error) {
	var others []boulder.FileChange
	sum := sha256.New()
	all := records(out)
	for i := 0; i < len(all); i++ {
		if strings.HasPrefix(all[i], ":") && i+1 < len(all) {
			if own(all[i+1]) {
				fmt.Fprintf(sum, "%s\x00%s\x00", all[i], all[i+1])
				hash = hex.EncodeToString(sum.Sum(nil))
			}
			i++
			continue
		}
		fields := strings.SplitN(all[i], "\t", 3)
		if len(fields) != 3 {
			return nil, nil, "", fmt.Errorf("git printed %.200q, which is no line of a diff", all[i])
		}
		path := fields[2]
		change := boulder.FileChange{
			Path: strings.ToValidUTF8(path, "\uFFFD"), Added: lines(fields[0]), Removed: lines(fields[1]), Own: own(path),
		}
		if !change.Own {
			others = append(others, change)
			continue
		}
		files = append(files, change)
		specs = append(specs, ":(literal)"+path)
	}
	return slices.Concat(files, others), specs, hash, nil
}

// lines reads a count; -1 for a binary file, where git prints "-".
func lines(field string) int {
	if n, err := strconv.Atoi(field); err == nil {
		return n
	}
	return -1
}

// limitedText keeps the first characters written to it, and counts all.
type limitedText struct {
	limit int
	kept  []byte
	total int // characters; approximate if not UTF-8
}

func (t *limitedText) Write(p []byte) (int, error) {
	if room := t.limit*utf8.UTFMax - len(t.kept); room > 0 {
		t.kept = append(t.kept, p[:min(room, len(p))]...)
	}
	for _, c := range p {
		if utf8.RuneStart(c) {
			t.total++
		}
	}
	return len(p), nil
}

func (t *limitedText) String() string {
	kept := []rune(strings.ToValidUTF8(string(t.kept), "\uFFFD"))
	if t.total <= t.limit && len(kept) <= t.limit {
		return string(kept)
	}
	note := func(missing int) string { return fmt.Sprintf("\n[cut: %d of %d characters]", missing, t.total) }
	kept = kept[:min(len(kept), t.limit-len(note(t.total)))]
	return string(kept) + note(max(0, t.total-len(kept)))
}
