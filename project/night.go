package project

import (
	"context"
	"os"
	"path/filepath"

	"github.com/bouldermgr/manager/internal/statedir"
	"github.com/bouldermgr/manager/project/internal/awake"
	"github.com/bouldermgr/manager/store"
	"github.com/bouldermgr/manager/workspace"
)

// KeptAwakeBy returns the program that keeps this machine from going to sleep while a server runs boulders, or "".
func (p *Project) KeptAwakeBy(ctx context.Context) string { return awake.By(ctx) }

// SlotSpace returns the size of a slot, which is that of the files that git tracks or would track, and the free space where slots
// are made; in bytes. Both are 0 outside of git.
func (p *Project) SlotSpace(ctx context.Context) (size, free uint64, err error) {
	work, err := workspace.Open(ctx, p.dir)
	if err != nil || work.Reason() != "" {
		return 0, 0, err
	}
	names, err := work.Files(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(p.dir, filepath.FromSlash(name))); err == nil && info.Mode().IsRegular() {
			size += uint64(info.Size())
		}
	}
	free, err = statedir.Free(p.dir)
	return size, free, err
}

// Scratch returns the directories that a run writes to besides the project: that of temporary files, and that of OpenCode's
// data, or the nearest above it that is there.
func (p *Project) Scratch() (dirs []string) {
	data := p.getenv("XDG_DATA_HOME")
	if data == "" {
		data = filepath.Join(p.getenv("HOME"), ".local", "share")
	}
	for _, dir := range []string{os.TempDir(), filepath.Join(data, "opencode"), filepath.Join(p.dir, store.DirName)} {
		for !exists(dir) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}
