package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/bouldermgr/manager/boulder"
)

// Bounds of [Slots.LikeProject]: what dependencies of large projects take, and seconds to copy.
const (
	ignoredMost  = 4 << 30 // bytes
	ignoredSize  = "4 GiB"
	ignoredFiles = 400_000
)

// LikeProject returns a copy of the project at c.From with all ignored files that the project has, without set-up: what
// a command does in the project can be seen there, while the project stays as it is. remove has to be called. If there
// is too much to copy, it returns no copy, and says why; without ignored files in the project it returns neither.
func (s *Slots) LikeProject(ctx context.Context, c boulder.SlotClaim) (like *Slot, remove func() error, why string, err error) {
	ignored, why, err := s.ignored(ctx)
	if err != nil || why != "" || len(ignored) == 0 {
		return nil, nil, why, err
	}
	where, _, parent, err := s.openDir(c.BoulderID)
	if err != nil {
		return nil, nil, "", err
	}
	const name = "like-project"
	remove = func() error {
		defer parent.Close()
		return errors.Join(discard(parent, name), discard(parent, name+".index"))
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("a copy of the project to compare with: %w", err), remove())
		}
	}()
	if err := errors.Join(discard(parent, name), discard(parent, name+".index")); err != nil { // of a killed manager
		return nil, nil, "", err
	}
	if err := parent.Mkdir(name, 0o700); err != nil {
		return nil, nil, "", err
	}
	like = &Slot{slots: s, claim: c, where: where, dir: filepath.Join(where.path(), name)}
	like.Workspace = s.in(like.dir)
	if err := like.fill(ctx); err != nil {
		return nil, nil, "", err
	}
	return like, remove, "", like.copyTrees(ctx, ignored)
}

// ignored lists the ignored files of the whole work tree, and directories of nothing else, without manager's own. It
// says why if they are too much to copy.
func (s *Slots) ignored(ctx context.Context) (names []string, why string, err error) {
	p := s.project
	out, err := p.top().output(ctx, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--", ".",
		":(exclude,literal)"+p.prefix+stateDir)
	if err != nil {
		return nil, "", err
	}
	size, files, most := int64(0), 0, errors.New("too much")
	for _, name := range records(out) {
		if strings.HasPrefix(name, p.prefix+stateDir+"/") { // the exclusion misses directories, if git tracks a file beside them
			continue
		}
		err := filepath.WalkDir(filepath.Join(p.root, filepath.FromSlash(name)), func(_ string, d fs.DirEntry, err error) error {
			switch {
			case err != nil || ctx.Err() != nil:
				return ctx.Err() // what cannot be read is left out
			case d.IsDir() && d.Name() == stateDir:
				return fs.SkipDir
			case d.Type().IsRegular():
				if info, err := d.Info(); err == nil {
					size += info.Size()
				}
			}
			if files++; files > ignoredFiles || size > ignoredMost {
				return most
			}
			return nil
		})
		switch {
		case errors.Is(err, most):
			return nil, fmt.Sprintf("the project has more than %d ignored files, or more than %s of them", ignoredFiles, ignoredSize), nil
		case err != nil:
			return nil, "", err
		}
		names = append(names, strings.TrimSuffix(name, "/"))
	}
	return names, "", nil
}

// copyTrees copies files, directories and links of the project. What cannot be read is left out. Links to absolute
// paths in the project lead to the same place in the slot, so that nothing is written through them.
func (s *Slot) copyTrees(ctx context.Context, names []string) error {
	from, err := os.OpenRoot(s.slots.project.root)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenRoot(s.dir)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, name := range names {
		err := fs.WalkDir(from.FS(), name, func(name string, d fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case err != nil:
				return nil //nolint:nilerr // what cannot be read is left out
			case d.IsDir() && d.Name() == stateDir:
				return fs.SkipDir
			case d.IsDir():
				return to.MkdirAll(name, 0o700)
			case d.Type()&fs.ModeSymlink != 0:
				return s.copyLink(from, to, name)
			}
			if err := copyFile(from, to, name); !errors.Is(err, fs.ErrPermission) {
				return err
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Slot) copyLink(from, to *os.Root, name string) error {
	target, err := from.Readlink(name)
	if err != nil {
		return nil //nolint:nilerr // it is gone, or cannot be read
	}
	if inside, err := filepath.Rel(s.slots.project.root, target); err == nil && filepath.IsAbs(target) && filepath.IsLocal(inside) {
		target = filepath.Join(s.dir, inside)
	}
	if err := to.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	if err := to.Symlink(target, name); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
