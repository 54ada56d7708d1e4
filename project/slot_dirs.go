package project

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/bouldermgr/manager/internal/statedir"
)

// SlotDirs returns the directories in which this project has slots, copies of its files: those of boulders, and those that wait
// for the next one.
func (p *Project) SlotDirs(ctx context.Context) ([]string, error) {
	if p.files.Load() == nil {
		if err := p.OpenWorkspace(ctx); err != nil {
			return nil, err
		}
	}
	return p.slots().Dirs(), nil
}

// AbandonedSlots returns the directories of slots of projects that are not there any more, by the projects' directories.
func (p *Project) AbandonedSlots(ctx context.Context) (map[string][]string, error) {
	home, err := p.slotHome()
	if err != nil {
		return nil, nil //nolint:nilerr // then there are none
	}
	if p.files.Load() == nil {
		if err := p.OpenWorkspace(ctx); err != nil {
			return nil, err
		}
	}
	return p.slots().Abandoned(home), nil
}

// SlotHome returns the directory below which slots are made, and an error that says why none can be made there. It may not be
// there yet.
func (p *Project) SlotHome(ctx context.Context) (string, error) {
	if p.files.Load() == nil {
		if err := p.OpenWorkspace(ctx); err != nil {
			return "", err
		}
	}
	home, err := p.slots().Place()
	if err == nil {
		err = statedir.Writable(existing(home))
		if because, ok := errors.AsType[*fs.PathError](err); ok { // not the name of what was tried
			err = fmt.Errorf("cannot write to %s: %w", existing(home), because.Err)
		}
	}
	return home, err
}

// slotHome is that directory as it is configured, else in the user's cache directory.
func (p *Project) slotHome() (string, error) {
	home := p.getenv("HOME")
	switch dir := p.cfg.Slots.Dir; {
	case dir == "":
		cache, err := cacheHome(p.getenv)
		return filepath.Join(cache, "manager"), err
	case strings.HasPrefix(dir, "~/") && home != "":
		return filepath.Join(home, dir[2:]), nil
	case filepath.IsAbs(dir):
		return filepath.Clean(dir), nil
	default:
		return filepath.Join(p.dir, dir), nil
	}
}

// cacheHome is os.UserCacheDir for an environment.
func cacheHome(getenv func(string) string) (string, error) {
	home, cache := getenv("HOME"), getenv("XDG_CACHE_HOME")
	switch {
	case runtime.GOOS == "darwin" && home != "":
		return filepath.Join(home, "Library", "Caches"), nil
	case cache != "" && !filepath.IsAbs(cache):
		return "", fmt.Errorf("XDG_CACHE_HOME is no absolute path: %q", cache)
	case cache != "":
		return cache, nil
	case home == "":
		return "", errors.New("neither HOME nor XDG_CACHE_HOME is set")
	}
	return filepath.Join(home, ".cache"), nil
}

// slotsInstead says why slots are in the project itself.
func (p *Project) slotsInstead(why error) {
	p.insideOnce.Do(func() {
		p.warn("copies of your files are made in .manager/slots, where test runners and watchers may find them, since %v:"+
			" name another place with slots.dir in the configuration", why)
	})
}

// existing returns a directory, or the nearest above it that is there.
func existing(dir string) string {
	for !exists(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}
