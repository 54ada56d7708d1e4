package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bouldermgr/manager/boulder"
)

// maxLarge bounds what a snapshot of a slot stores of files above maxFile, in bytes. A 60 GB file would take an hour.
const maxLarge = 512 << 20

// recording is a snapshot under way.
type recording struct {
	*Workspace
	specs    strings.Builder // pathspecs for git add
	entries  strings.Builder // index entries instead of files that it is not to read
	excluded map[string]bool // by specs
	large    int64           // bytes of large files of a slot
	unstored boulder.UnstoredError
}

func (r *recording) exclude(path string) {
	r.specs.WriteString(":(exclude,literal)" + path + "\x00")
	r.excluded[path] = true
}

// enter records a blob as the content of a path. Unlike other commands update-index takes paths from the top.
func (r *recording) enter(mode, blob, path string) {
	fmt.Fprintf(&r.entries, "%s %s\t%s\x00", mode, blob, r.prefix+path)
}

// takeLarge decides about a file above maxFile.
func (r *recording) takeLarge(ctx context.Context, path string, info os.FileInfo) error {
	switch r.Workspace.large {
	case keepLarge:
		if r.large += info.Size(); r.large > maxLarge {
			r.large -= info.Size()
			r.exclude(path)
			r.unstored.Lacks = append(r.unstored.Lacks, fmt.Sprintf("%s (%d MiB, and only %d MiB of files above %d MiB are kept)",
				path, info.Size()>>20, maxLarge>>20, maxFile>>20))
		}
	case leaveOutLarge:
		r.exclude(path)
	case markLarge:
		return r.mark(ctx, path, info)
	}
	return nil
}

// mark records a few bytes that change whenever the file does. With the NUL, a diff shows a binary file.
func (r *recording) mark(ctx context.Context, path string, info os.FileInfo) error {
	content := fmt.Sprintf("\x00%d bytes, changed %d\n", info.Size(), info.ModTime().UnixNano())
	blob, err := r.git.feed(ctx, content, "hash-object", "-w", "--stdin")
	if err == nil {
		r.exclude(path)
		r.enter("100644", strings.TrimSpace(blob), path)
	}
	return err
}

// takeChanging marks the files that have changed since then, as a database at work does: git could not read one of them. What is
// to be stored whole lacks them.
func (r *recording) takeChanging(ctx context.Context, paths []string, since time.Time) error {
	for _, path := range paths {
		info, err := os.Lstat(filepath.Join(r.git.dir, path))
		if err != nil || !info.Mode().IsRegular() || r.excluded[path] || info.ModTime().Before(since) {
			continue
		}
		switch r.Workspace.large {
		case keepLarge:
			r.exclude(path)
			r.unstored.Lacks = append(r.unstored.Lacks, path+" (it changes while it is read)")
		case leaveOutLarge:
			r.exclude(path)
		case markLarge:
			if err := r.mark(ctx, path, info); err != nil {
				return err
			}
		}
	}
	return nil
}

// takeConverted takes files that git converts one at a time, as they are on disk if that fails: a required filter is
// missing or refuses, or an encoding does not fit. Git add would end there, and add nothing.
func (r *recording) takeConverted(ctx context.Context, paths []string) error {
	paths = slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		info, err := os.Lstat(filepath.Join(r.git.dir, path))
		return err != nil || !info.Mode().IsRegular() || r.excluded[path]
	})
	if len(paths) == 0 {
		return nil
	}
	out, err := r.git.feed(ctx, strings.Join(paths, "\x00")+"\x00", "check-attr", "-z", "--stdin", "filter", "working-tree-encoding")
	if err != nil {
		return err
	}
	why := map[string]string{}
	for about := range slices.Chunk(records(out), 3) { // path, attribute, value
		if len(about) == 3 && about[2] != "unspecified" && about[2] != "unset" {
			why[about[0]] = about[1] + "=" + about[2]
		}
	}
	for _, path := range paths {
		if why[path] == "" {
			continue
		}
		blob, err := r.git.line(ctx, "hash-object", "-w", "--", path)
		if exitCode(err) == exitFatal {
			said, _, _ := strings.Cut(strings.TrimSpace(stderrOf(err)), "\n")
			r.unstored.Raw = append(r.unstored.Raw, fmt.Sprintf("%s (%s of .gitattributes: %s)", path, why[path], said))
			blob, err = r.git.line(ctx, "hash-object", "-w", "--no-filters", "--", path)
		}
		if err != nil {
			continue // unreadable; git add says so
		}
		mode := "100644"
		if info, err := os.Lstat(filepath.Join(r.git.dir, path)); err == nil && info.Mode()&0o111 != 0 {
			mode = "100755"
		}
		r.exclude(path)
		r.enter(mode, blob, path)
	}
	return nil
}

// takeUnread lists the directories that git could not look into: it warns of them, and lists no file in them.
func (r *recording) takeUnread(said string) {
	for line := range strings.Lines(said) {
		if _, dir, warned := strings.Cut(line, "warning: could not open directory '"); warned {
			dir, why, _ := strings.Cut(strings.TrimSpace(dir), "/': ")
			if lack := dir + "/ (" + strings.ToLower(why) + ")"; !slices.Contains(r.unstored.Lacks, lack) {
				r.unstored.Lacks = append(r.unstored.Lacks, lack)
			}
		}
	}
}

// takeRefused lists what git add has left out.
func (r *recording) takeRefused(ctx context.Context) error {
	left, err := r.list(ctx)
	for _, path := range left {
		if r.excluded[strings.TrimSuffix(path, "/")] {
			continue
		}
		why := "git accepts no such name"
		if file, openErr := os.Open(filepath.Join(r.git.dir, path)); openErr != nil {
			why = "it cannot be read"
		} else {
			file.Close()
		}
		r.unstored.Lacks = append(r.unstored.Lacks, path+" ("+why+")")
	}
	return err
}

// list returns what is new, changed, deleted, or in conflict. If a filter fails, it counts all files with filters that
// may have changed.
func (w *Workspace) list(ctx context.Context) ([]string, error) {
	args := append([]string{"ls-files", "-z", "--others", "--modified", "--exclude-standard", "--"}, w.scope...)
	out, err := w.git.despiteFilters(ctx, "", args...)
	return slices.Compact(records(out)), err // conflicts are listed once per side
}

// despiteFilters is feed of a command that compares files with the index, where a filter fails: it counts files as changed
// that may not be. Commands that write an index compare as well, with files that are as young as the index.
func (g git) despiteFilters(ctx context.Context, in string, args ...string) (string, error) {
	out, err := g.feed(ctx, in, args...)
	if exitCode(err) != exitFatal {
		return out, err
	}
	plain, configErr := g.withoutFilters(ctx)
	if configErr != nil || len(plain.config) == len(g.config) {
		return out, errors.Join(err, configErr)
	}
	return plain.feed(ctx, in, args...)
}

// withoutFilters returns git that reads and writes files as they are, where filters are configured.
func (g git) withoutFilters(ctx context.Context) (git, error) {
	names, err := g.query(ctx, "config", "--name-only", "--get-regexp", `^filter\..*\.(clean|smudge|process|required)$`)
	g.config = slices.Clip(g.config)
	for _, name := range strings.Fields(names) {
		value := ""
		if strings.HasSuffix(name, ".required") {
			value = "false"
		}
		g.config = append(g.config, "-c", name+"="+value)
	}
	return g, err
}

// missingFilter says which required filter of the project's files cannot run, such as git-lfs in the short PATH of a
// background server. Git could not write these files into a slot.
func (w *Workspace) missingFilter(ctx context.Context) (reason string, err error) {
	required, err := w.git.query(ctx, "config", "--type=bool", "--get-regexp", `^filter\..*\.required$`)
	if err != nil || !strings.Contains(required+"\n", " true\n") {
		return "", err
	}
	files, err := w.top().output(ctx, "ls-files", "-z")
	if err != nil || files == "" {
		return "", err
	}
	out, err := w.top().feed(ctx, files, "check-attr", "-z", "--stdin", "filter")
	if err != nil {
		return "", err
	}
	tried := map[string]bool{}
	for about := range slices.Chunk(records(out), 3) { // path, attribute, value
		if len(about) != 3 || tried[about[2]] || !strings.Contains(required+"\n", "filter."+about[2]+".required true\n") {
			continue
		}
		tried[about[2]] = true
		if _, err := w.top().feed(ctx, "", "hash-object", "--stdin", "--path="+about[0]); exitCode(err) == exitFatal {
			said, _, _ := strings.Cut(strings.TrimSpace(stderrOf(err)), "\n")
			return fmt.Sprintf("the filter %s is required for %s and does not run (%s): install it, or add it to PATH",
				about[2], about[0], said), nil
		} else if err != nil {
			return "", err
		}
	}
	return "", nil
}
