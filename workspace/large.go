package workspace

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFile is the largest file whose content is recorded, in bytes. Reading and compressing a data set or a disk image
// that lies around untracked would take minutes and gigabytes at each snapshot.
const maxFile = 64 << 20

// changed lists the files that are not as the index has them: new, changed, gone, or in conflict.
func (x *index) changed(ctx context.Context) ([]string, error) {
	list, err := x.git.output(ctx,
		append([]string{"ls-files", "-z", "--others", "--modified", "--exclude-standard", "--"}, x.scope...)...)
	if err != nil || list == "" {
		return nil, err
	}
	// One in conflict is listed once for each side.
	return slices.Compact(strings.Split(strings.TrimSuffix(list, "\x00"), "\x00")), nil
}

// large finds the files that are not to be read: new or changed ones above [maxFile], by their paths in the project.
func (x *index) large(changed []string) map[string]fs.FileInfo {
	found := map[string]fs.FileInfo{}
	for _, path := range changed {
		info, err := os.Lstat(filepath.Join(x.git.dir, path))
		if err == nil && info.Mode().IsRegular() && info.Size() > maxFile {
			found[path] = info
		}
	}
	return found
}

// standIn records, in place of each file, a few bytes that change whenever the file does. They begin with NUL, so
// that a diff shows a binary file.
func (x *index) standIn(ctx context.Context, large map[string]fs.FileInfo) error {
	if len(large) == 0 {
		return nil
	}
	var entries strings.Builder
	for path, info := range large {
		content := fmt.Sprintf("\x00%d bytes, changed %d\n", info.Size(), info.ModTime().UnixNano())
		var blob strings.Builder
		if err := x.git.run(ctx, strings.NewReader(content), &blob, "hash-object", "-w", "--stdin"); err != nil {
			return err
		}
		// Unlike other commands this one takes paths from the top of the work tree.
		fmt.Fprintf(&entries, "100644 %s\t%s\x00", strings.TrimSpace(blob.String()), x.prefix+path)
	}
	return x.git.run(ctx, strings.NewReader(entries.String()), io.Discard, "update-index", "-z", "--index-info")
}
