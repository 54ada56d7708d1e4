package main

import (
	"fmt"
	"os"
	"strings"
)

// disk says which file system a directory is on, or refuses one that keeps nothing when the power goes: there a sync
// costs nothing, and everything that is measured against it would be wrong.
func disk(dir string) (string, error) {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "", fmt.Errorf("find the file system of %s: %w", dir, err)
	}
	device, kind := mountOf(string(mounts), dir)
	switch kind {
	case "tmpfs", "ramfs":
		return "", fmt.Errorf("%s is on %s, which is memory: set TMPDIR to a directory on a disk", dir, kind)
	}
	return kind + " on " + device, nil
}

// mountOf finds the file system of an absolute path: of all mounts whose directory it is below, the longest and last.
func mountOf(mounts, path string) (device, kind string) {
	longest := -1
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		dir := strings.TrimSuffix(fields[1], "/")
		if (path == dir || strings.HasPrefix(path, dir+"/")) && len(dir) >= longest {
			longest, device, kind = len(dir), fields[0], fields[2]
		}
	}
	return device, kind
}
